#include "backends/cpu/vector/fourier_fn.h"

namespace xc::cpu {

FourierFn fourier_pass([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::fourier_pass();
  if (isa >= Isa::kAvx2) return avx2::fourier_pass();
#endif
  return baseline::fourier_pass();
}

}  // namespace xc::cpu
