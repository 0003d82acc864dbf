#include "backends/cpu/vector/panel_product_fn.h"

namespace xc::cpu {

PanelProductFn panel_product_fn([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx2) return avx2::panel_product_fn();
#endif
  return baseline::panel_product_fn();
}

}  // namespace xc::cpu
