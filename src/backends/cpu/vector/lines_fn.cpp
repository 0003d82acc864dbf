#include "backends/cpu/vector/lines_fn.h"

namespace xc::cpu {

const LineFns& line_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::line_fns();
  if (isa >= Isa::kAvx2) return avx2::line_fns();
#endif
  return baseline::line_fns();
}

}  // namespace xc::cpu
