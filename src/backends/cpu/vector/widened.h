// Weights as they are stored, loaded as vectors of f32. Once per including .inc file, behind vec.h.

namespace xc::cpu::XC_ISA {
namespace {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

/// A vector of weights, or its first n lanes, the others 0.
XC_INLINE F32 widened(const float* w) {
  return load<F32>(w);
}
XC_INLINE F32 widened(const float* w, int64_t n) {
  return load_partial<F32>(w, n);
}

#if defined(__F16C__)
using Halves = Vec<uint16_t, kF32Lanes>;
template <class E>
XC_INLINE F32 widened(const E*, Halves halves) {
  if constexpr (__is_same(E, BF16)) return bits_as<F32>(__builtin_convertvector(halves, U32) << 16);
#if defined(__AVX512F__)
  return (F32)_mm512_cvtph_ps((__m256i)halves);
#else
  return (F32)_mm256_cvtph_ps((__m128i)halves);
#endif
}
template <class E>
XC_INLINE F32 widened(const E* w) {
  return widened(w, load<Halves>(reinterpret_cast<const uint16_t*>(w)));
}
template <class E>
XC_INLINE F32 widened(const E* w, int64_t n) {
  return widened(w, load_partial<Halves>(reinterpret_cast<const uint16_t*>(w), n));
}
#endif

}  // namespace
}  // namespace xc::cpu::XC_ISA
