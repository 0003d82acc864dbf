#include "backends/cpu/vector/integer_fn.h"

namespace xc::cpu {

const IntegerFns& integer_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::integer_fns();
  if (isa >= Isa::kAvx2) return avx2::integer_fns();
#endif
  return baseline::integer_fns();
}

}  // namespace xc::cpu
