#include "backends/cpu/vector/plane_row_fn.h"

namespace xc::cpu {

PlaneRowFns plane_row_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::plane_row_fns();
  if (isa >= Isa::kAvx2) return avx2::plane_row_fns();
#endif
  return baseline::plane_row_fns();
}

}  // namespace xc::cpu
