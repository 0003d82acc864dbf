#include "backends/cpu/vector/product_fn.h"

namespace xc::cpu {

ProductFn product_fn([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::product_fn();
  if (isa >= Isa::kAvx2) return avx2::product_fn();
#endif
  return baseline::product_fn();
}

}  // namespace xc::cpu
