#include "backends/cpu/vector/product_fn.h"

namespace xc::cpu {

template <class T>
ProductFn<T> product_fn([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::product_fn<T>();
  if (isa >= Isa::kAvx2) return avx2::product_fn<T>();
#endif
  return baseline::product_fn<T>();
}
template ProductFn<float> product_fn(Isa isa);
template ProductFn<double> product_fn(Isa isa);

}  // namespace xc::cpu
