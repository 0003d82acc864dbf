#include "backends/cpu/vector/pool_fn.h"

namespace xc::cpu {

const PoolFns& pool_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::pool_fns();
  if (isa >= Isa::kAvx2) return avx2::pool_fns();
#endif
  return baseline::pool_fns();
}

}  // namespace xc::cpu
