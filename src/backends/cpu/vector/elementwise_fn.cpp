#include "backends/cpu/vector/elementwise_fn.h"

namespace xc::cpu {

ElementwiseFn elementwise_fn(Fn fn, DType in, [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512)
    if (ElementwiseFn found = avx512::elementwise_fn(fn, in)) return found;
  if (isa >= Isa::kAvx2)
    if (ElementwiseFn found = avx2::elementwise_fn(fn, in)) return found;
#endif
  return baseline::elementwise_fn(fn, in);
}

}  // namespace xc::cpu
