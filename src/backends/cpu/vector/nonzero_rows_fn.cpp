#include "backends/cpu/vector/nonzero_rows_fn.h"

namespace xc::cpu {

NonzeroRowsFn nonzero_rows_fn([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::nonzero_rows_fn();
  if (isa >= Isa::kAvx2) return avx2::nonzero_rows_fn();
#endif
  return baseline::nonzero_rows_fn();
}

}  // namespace xc::cpu
