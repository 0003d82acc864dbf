#include "backends/cpu/vector/depthwise_rows_fn.h"

namespace xc::cpu {

DepthwiseRowsFns depthwise_rows_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::depthwise_rows_fns();
  if (isa >= Isa::kAvx2) return avx2::depthwise_rows_fns();
#endif
  return baseline::depthwise_rows_fns();
}

}  // namespace xc::cpu
