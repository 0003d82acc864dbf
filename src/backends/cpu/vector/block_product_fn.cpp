#include "backends/cpu/vector/block_product_fn.h"

namespace xc::cpu {

const BlockFns& block_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::block_fns();
  if (isa >= Isa::kAvx2) return avx2::block_fns();
#endif
  return baseline::block_fns();
}

}  // namespace xc::cpu
