#include "backends/cpu/vector/distances_fn.h"

namespace xc::cpu {

const DistanceFns& distance_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::distance_fns();
  if (isa >= Isa::kAvx2) return avx2::distance_fns();
#endif
  return baseline::distance_fns();
}

}  // namespace xc::cpu
