#include "backends/cpu/vector/linear_attention_fn.h"

namespace xc::cpu {

const LinearAttentionFns& linear_attention_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::linear_attention_fns();
  if (isa >= Isa::kAvx2) return avx2::linear_attention_fns();
#endif
  return baseline::linear_attention_fns();
}

}  // namespace xc::cpu
