#include "backends/cpu/vector/rows_fn.h"

namespace xc::cpu {

FoldFns fold_fns(Fold fold, DType type, [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::fold_fns(fold, type);
  if (isa >= Isa::kAvx2) return avx2::fold_fns(fold, type);
#endif
  return baseline::fold_fns(fold, type);
}

const RowFns& row_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::row_fns();
  if (isa >= Isa::kAvx2) return avx2::row_fns();
#endif
  return baseline::row_fns();
}

}  // namespace xc::cpu
