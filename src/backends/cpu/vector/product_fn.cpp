#include "backends/cpu/vector/product_fn.h"

namespace xc::cpu {

template <class T>
ProductFns<T> product_fns([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return avx512::product_fns<T>();
  if (isa >= Isa::kAvx2) return avx2::product_fns<T>();
#endif
  return baseline::product_fns<T>();
}
template ProductFns<float> product_fns(Isa isa);
template ProductFns<double> product_fns(Isa isa);
template ProductFns<uint32_t> product_fns(Isa isa);
template ProductFns<uint64_t> product_fns(Isa isa);

}  // namespace xc::cpu
