#include "backends/cpu/vector/bf16x3_fn.h"

#include <cmath>

namespace xc::cpu {

bool in_bf16x3_range(float largest) {
  return largest >= std::ldexp(1.0f, -kBf16x3Exponent) &&
         largest <= std::ldexp(1.0f, kBf16x3Exponent);
}

const Bf16x3Fns* bf16x3_fns() {
#if defined(__x86_64__)
  if (cpu_info().isa >= Isa::kAvx512 && grant_matrix_units()) return &avx512::bf16x3_fns();
#endif
  return nullptr;
}

}  // namespace xc::cpu
