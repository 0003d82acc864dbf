#include "backends/cpu/vector/elementwise_fn.h"

#include "tensor/half.h"

namespace xc::cpu {
namespace {

void f16_to_f32(const ElementwiseArgs& a) {
  for (int64_t i = 0; i < a.n; ++i)
    static_cast<float*>(a.out)[i] =
        f16_to_float(static_cast<const uint16_t*>(a.in[0])[i * a.step[0]]);
}
void f32_to_f16(const ElementwiseArgs& a) {
  for (int64_t i = 0; i < a.n; ++i)
    static_cast<uint16_t*>(a.out)[i] =
        float_to_f16(static_cast<const float*>(a.in[0])[i * a.step[0]]);
}

}  // namespace

ElementwiseFn elementwise_fn(Fn fn, DType in, [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512)
    if (ElementwiseFn found = avx512::elementwise_fn(fn, in)) return found;
  if (isa >= Isa::kAvx2)
    if (ElementwiseFn found = avx2::elementwise_fn(fn, in)) return found;
#endif
  return baseline::elementwise_fn(fn, in);
}

ElementwiseFn cast_fn(DType from, DType to, [[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512)
    if (ElementwiseFn found = avx512::cast_fn(from, to)) return found;
  if (isa >= Isa::kAvx2)
    if (ElementwiseFn found = avx2::cast_fn(from, to)) return found;
#endif
  if (ElementwiseFn found = baseline::cast_fn(from, to)) return found;
  if (from == DType::kF16 && to == DType::kF32) return f16_to_f32;
  if (from == DType::kF32 && to == DType::kF16) return f32_to_f16;
  return nullptr;
}

}  // namespace xc::cpu
