#include "backends/cpu/vector/cells_fn.h"

namespace xc::cpu {

const CellFns& cell_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::cell_fns();
  if (isa >= Isa::kAvx2) return avx2::cell_fns();
#endif
  return baseline::cell_fns();
}

}  // namespace xc::cpu
