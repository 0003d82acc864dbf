#include "backends/cpu/vector/few_rows_fn.h"

namespace xc::cpu {

FewRowsFn few_rows_fn([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::few_rows_fn();
  if (isa >= Isa::kAvx2) return avx2::few_rows_fn();
#endif
  return baseline::few_rows_fn();
}

}  // namespace xc::cpu
