#include "backends/cpu/vector/conv_row_fn.h"

namespace xc::cpu {

ConvRowFns conv_row_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::conv_row_fns();
  if (isa >= Isa::kAvx2) return avx2::conv_row_fns();
#endif
  return baseline::conv_row_fns();
}

}  // namespace xc::cpu
