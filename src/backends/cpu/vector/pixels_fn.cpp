#include "backends/cpu/vector/pixels_fn.h"

namespace xc::cpu {

const PixelFns& pixel_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::pixel_fns();
  if (isa >= Isa::kAvx2) return avx2::pixel_fns();
#endif
  return baseline::pixel_fns();
}

}  // namespace xc::cpu
