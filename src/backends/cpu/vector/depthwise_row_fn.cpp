#include "backends/cpu/vector/depthwise_row_fn.h"

namespace xc::cpu {

DepthwiseRowFns depthwise_row_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::depthwise_row_fns();
  if (isa >= Isa::kAvx2) return avx2::depthwise_row_fns();
#endif
  return baseline::depthwise_row_fns();
}

}  // namespace xc::cpu
