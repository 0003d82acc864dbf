#include "backends/cpu/vector/casts_fn.h"

#include <algorithm>
#include <array>
#include <cstring>

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

bool holds_exactly(DType type, const float* values, int64_t count) {
  constexpr int64_t kAtOnce = 1024;  // in the first-level cache
  const Isa isa = cpu_info().isa;
  const ElementwiseFn narrow = cast_fn(DType::kF32, type, isa),
                      widen = cast_fn(type, DType::kF32, isa);
  std::array<uint16_t, kAtOnce> halves;
  std::array<float, kAtOnce> back;
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const int64_t n = std::min(kAtOnce, count - i);
    narrow({{values + i}, {1}, halves.data(), n, nullptr});
    widen({{halves.data()}, {1}, back.data(), n, nullptr});
    if (std::memcmp(back.data(), values + i, static_cast<size_t>(n) * sizeof(float)) != 0)
      return false;
  }
  return true;
}

}  // namespace xc::cpu
