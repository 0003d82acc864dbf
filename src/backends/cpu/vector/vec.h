// Vectors of the instruction set this file is compiled for: GCC/Clang vector types, and the few
// operations the language has no syntax for. Included only by *.inc, which are compiled
// once per level (see README.md); everything here lives in a namespace per level, and nothing may
// be used that the linker could merge with code of another level: no standard library templates.
#pragma once

#include <stdint.h>

#include <utility>  // integer_sequence: a type, no code

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define XC_ISA avx512
#define XC_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define XC_ISA avx2
#define XC_VECTOR_BYTES 32
#else
#define XC_ISA baseline
#define XC_VECTOR_BYTES 16
#endif

// Vectors wider than the registers are passed between inlined functions only.
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wignored-attributes"
// gcc 12 sees the undefined pass-through operand of AVX-512 intrinsics as uninitialised.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#pragma GCC diagnostic ignored "-Wuninitialized"

#define XC_INLINE inline __attribute__((always_inline))

#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
// At -O2 GCC vectorises no loop whose length it does not know. Under the address sanitizer
// functions with options of their own lose their stack frames.
#define XC_VECTORISED __attribute__((optimize("O3")))
#else
#define XC_VECTORISED
#endif

namespace xc::cpu::XC_ISA {

template <class T, int N>
struct VecOf {
  typedef T type __attribute__((vector_size(N * static_cast<int>(sizeof(T)))));
};
/// Lanes of T in a register.
template <class T>
constexpr int kLanes = XC_VECTOR_BYTES / static_cast<int>(sizeof(T));
template <class T, int N = kLanes<T>>
using Vec = typename VecOf<T, N>::type;

template <class V>
using Scalar = __typeof__(V{}[0] + V{}[0]);  // of float, double and 32/64-bit integer vectors
template <class V, class T>
constexpr int kCount = static_cast<int>(sizeof(V) / sizeof(T));

template <class V, class T>
XC_INLINE V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <class V, class T>
XC_INLINE V splat(T value) {
  using E = Scalar<V>;
  if constexpr (sizeof(V) == 2 * XC_VECTOR_BYTES && sizeof(E) == 8) {
    // GCC writes what two registers hold element by element to memory, and loading that waits for
    // all of it (sin takes three times as long).
    using Half = Vec<E>;
    const Half halves[2] = {splat<Half>(static_cast<E>(value)), splat<Half>(static_cast<E>(value))};
    V out;
    __builtin_memcpy(&out, halves, sizeof(out));
    return out;
  } else {
    return value - V{};  // value - (+0): keeps -0 and NaN
  }
}

template <int bytes>
struct IntegerOf {
  using type = int32_t;
};
template <>
struct IntegerOf<8> {
  using type = int64_t;
};
/// Lanes 0, 1, ... of V as integers of T's size.
template <class V, class T>
XC_INLINE auto lane_numbers() {
  typename VecOf<typename IntegerOf<sizeof(T)>::type, kCount<V, T>>::type numbers = {};
#pragma GCC unroll 16
  for (int i = 0; i < kCount<V, T>; ++i) numbers[i] = i;
  return numbers;
}
template <auto from, class V, int... i>
XC_INLINE V shuffle_lanes(V a, V b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, from(i)...);
}
/// The result of a comparison, integers 0 and -1, as bools in bytes.
template <int L, class Mask>
XC_INLINE Vec<uint8_t, L> to_bool(Mask mask) {
  return __builtin_convertvector(mask, Vec<uint8_t, L>) & 1;
}
/// Whether the result of a comparison holds in every lane.
template <class Mask>
XC_INLINE bool all_lanes(Mask mask) {
#if defined(__AVX512F__)
  return _mm512_cmpneq_epi32_mask((__m512i)mask, _mm512_set1_epi32(-1)) == 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8((__m256i)mask) == -1;
#else
  int64_t all[sizeof(mask) / 8];
  __builtin_memcpy(all, &mask, sizeof(mask));
  int64_t out = -1;
  for (int64_t part : all) out &= part;
  return out == -1;
#endif
}
/// Lane from(i) of a in lane i, or of b where from(i) counts on behind a's; elements of type T.
template <auto from, class T, class V>
XC_INLINE V shuffle(V a, V b) {
  return shuffle_lanes<from>(a, b, std::make_integer_sequence<int, kCount<V, T>>());
}
/// Whether lanes of 4 bytes can be picked by numbers that only the run knows.
#if defined(__AVX2__)
constexpr bool kPicksLanes = true;
/// Lane i is lane index[i] of v.
XC_INLINE Vec<int32_t> pick_lanes(Vec<int32_t> v, Vec<int32_t> index) {
#if defined(__AVX512F__)
  return (Vec<int32_t>)_mm512_permutexvar_epi32((__m512i)index, (__m512i)v);
#else
  return (Vec<int32_t>)_mm256_permutevar8x32_epi32((__m256i)v, (__m256i)index);
#endif
}
/// Lane i is lane index[i] of a, or of b where that counts on behind a's.
XC_INLINE Vec<int32_t> pick_lanes(Vec<int32_t> a, Vec<int32_t> b, Vec<int32_t> index) {
#if defined(__AVX512F__)
  return (Vec<int32_t>)_mm512_permutex2var_epi32((__m512i)a, (__m512i)index, (__m512i)b);
#else
  return index < kLanes<int32_t> ? pick_lanes(a, index) : pick_lanes(b, index);
#endif
}
#else
constexpr bool kPicksLanes = false;
#endif
/// v in the first n lanes, fill in the others.
template <class V, class T>
XC_INLINE V select_first(V v, T fill, int64_t n) {
  const auto numbers = lane_numbers<V, T>();
  return numbers < static_cast<typename IntegerOf<sizeof(T)>::type>(n) ? v : splat<V>(fill);
}
#if defined(__AVX2__) && !defined(__AVX512F__)
/// All ones in the first n of 8 lanes of 4 bytes, or 4 lanes of 8 bytes.
XC_INLINE __m256i first_lanes(int64_t n, int64_t bytes) {
  return bytes == 4 ? (__m256i)(Vec<int32_t>{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(n))
                    : (__m256i)(Vec<int64_t>{0, 1, 2, 3} < n);
}
#endif
/// Lane i is p[index[i]], or 0 where that is negative: nothing is read there.
XC_INLINE Vec<float> gather_or_zero(const float* p, Vec<int32_t> index) {
#if defined(__AVX512F__)
  const __mmask16 there = _mm512_cmpge_epi32_mask((__m512i)index, _mm512_setzero_si512());
  return (Vec<float>)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, (__m512i)index, p, 4);
#elif defined(__AVX2__)
  const __m256i there = (__m256i)(index >= 0);
  return (Vec<float>)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, (__m256i)index, (__m256)there,
                                              4);
#else
  Vec<float> v = {};
  for (int i = 0; i < kLanes<float>; ++i) v[i] = index[i] < 0 ? 0.0f : p[index[i]];
  return v;
#endif
}
/// Whole registers of 4- and 8-byte elements are loaded under a mask: nothing beyond is touched,
/// and neither a call nor a detour over the stack is needed.
template <class V, class T>
#if defined(__SANITIZE_ADDRESS__)
// A copy is one check of all n elements, a mask one of every lane: three times as long to compile.
constexpr bool kMasked = false;
#else
constexpr bool kMasked = XC_VECTOR_BYTES > 16 && sizeof(V) == XC_VECTOR_BYTES &&
                         (sizeof(T) == 4 || sizeof(T) == 8);
#endif
/// The first n lanes; the others are 0.
template <class V, class T>
XC_INLINE V load_partial(const T* p, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (kMasked<V, T> && sizeof(T) == 4)
    return (V)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1), p);
  if constexpr (kMasked<V, T> && sizeof(T) == 8)
    return (V)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << n) - 1), p);
#elif defined(__AVX2__)
  if constexpr (kMasked<V, T> && sizeof(T) == 4)
    return (V)_mm256_maskload_epi32(reinterpret_cast<const int*>(p), first_lanes(n, 4));
  if constexpr (kMasked<V, T> && sizeof(T) == 8)
    return (V)_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), first_lanes(n, 8));
#endif
  V v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
}
template <class V, class T>
XC_INLINE void store(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
#if defined(__x86_64__)
/// The first `bytes` of v, fewer than all and whole words of 4, from `to` on.
template <class V>
XC_INLINE void store_words(char* to, V v, int64_t bytes) {
  static_assert(sizeof(V) == 64 || sizeof(V) == 32 || sizeof(V) == 16);
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) {
    const __m512i whole = (__m512i)v;
    if ((bytes & 32) == 0) return store_words(to, _mm512_castsi512_si256(whole), bytes);
    store(to, _mm512_castsi512_si256(whole));
    return store_words(to + 32, _mm512_extracti64x4_epi64(whole, 1), bytes);
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32) {
    const __m256i whole = (__m256i)v;
    if ((bytes & 16) == 0) return store_words(to, _mm256_castsi256_si128(whole), bytes);
    store(to, _mm256_castsi256_si128(whole));
    return store_words(to + 16, _mm256_extracti128_si256(whole, 1), bytes);
  }
#endif
  if constexpr (sizeof(V) == 16) {
    __m128i words = (__m128i)v;
    if (bytes & 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), words);
      words = _mm_unpackhi_epi64(words, words);
      to += 8;
    }
    if (bytes & 4) store(to, _mm_cvtsi128_si32(words));
  }
}
#endif
/// The first n lanes, from none to all, under a mask where there is one: little code, for the many
/// registers of a tile. Loads of what lies behind wait until it has left the store buffer.
template <class V, class T>
XC_INLINE void store_masked(T* p, V v, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (kMasked<V, T> && sizeof(T) == 4)
    return _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << n) - 1), (__m512i)v);
  if constexpr (kMasked<V, T> && sizeof(T) == 8)
    return _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << n) - 1), (__m512i)v);
#elif defined(__AVX2__)
  if constexpr (kMasked<V, T> && sizeof(T) == 4)
    return _mm256_maskstore_epi32(reinterpret_cast<int*>(p), first_lanes(n, 4), (__m256i)v);
  if constexpr (kMasked<V, T> && sizeof(T) == 8)
    return _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), first_lanes(n, 8), (__m256i)v);
#endif
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(T));
}
/// The first n lanes, from none to all, in pieces: the end of a row behind which the next one is
/// read (softmax of rows of 63 in place, AMD Zen 5: 2.4 times as long under a mask).
template <class V, class T>
XC_INLINE void store_partial(T* p, V v, int64_t n) {
#if defined(__x86_64__)
  if constexpr (sizeof(V) == XC_VECTOR_BYTES && sizeof(T) >= 4)
    return n == kLanes<T>
               ? store(p, v)
               : store_words(reinterpret_cast<char*>(p), v, n * static_cast<int64_t>(sizeof(T)));
#endif
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(T));
}
/// A whole register of elements, or the first n of them.
template <class T>
XC_INLINE Vec<T> load_n(const T* p, int64_t n) {
  return n >= kLanes<T> ? load<Vec<T>>(p) : load_partial<Vec<T>>(p, n);
}
template <class T>
XC_INLINE void store_n(T* p, Vec<T> v, int64_t n) {
  if (n >= kLanes<T>)
    store(p, v);
  else
    store_partial(p, v, n);
}
using F32 = Vec<float>;
using F64 = Vec<double>;
using I32 = Vec<int32_t>;
using U32 = Vec<uint32_t>;
using U64 = Vec<uint64_t>;
constexpr int kF32Lanes = kLanes<float>;
/// f64 and 64-bit integers with as many lanes as F32: two registers.
using F64Wide = Vec<double, kF32Lanes>;
using I64Wide = Vec<int64_t, kF32Lanes>;

/// Whether mad() rounds once (loop/math.h, MathLevel::kFma).
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

// a * b + c: fused where the level has it, else rounded twice.
XC_INLINE F32 mad(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return (F32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (F32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA)
  for (int i = 0; i < kF32Lanes; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}
XC_INLINE F64 mad(F64 a, F64 b, F64 c) {
#if defined(__AVX512F__)
  return (F64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (F64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__ARM_FEATURE_FMA)
  for (int i = 0; i < kLanes<double>; ++i) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
}
XC_INLINE U32 mad(U32 a, U32 b, U32 c) {
  return a * b + c;
}
XC_INLINE U64 mad(U64 a, U64 b, U64 c) {
  return a * b + c;
}
XC_INLINE F64Wide mad(F64Wide a, F64Wide b, F64Wide c) {
  struct Halves {
    F64 low, high;
  } x, y, z;
  static_assert(sizeof(Halves) == sizeof(F64Wide));
  __builtin_memcpy(&x, &a, sizeof(a));
  __builtin_memcpy(&y, &b, sizeof(b));
  __builtin_memcpy(&z, &c, sizeof(c));
  z.low = mad(x.low, y.low, z.low);
  z.high = mad(x.high, y.high, z.high);
  __builtin_memcpy(&c, &z, sizeof(c));
  return c;
}

/// The value, held in a register until its last use: compilers load what has several uses again for
/// each, as the other operand of an instruction, where loads may be what there are too many of.
XC_INLINE F32 held(F32 x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#endif
  return x;
}

XC_INLINE F32 vec_sqrt(F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (F32)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
  return (F32)_mm_sqrt_ps((__m128)x);
#else
  for (int i = 0; i < kF32Lanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
XC_INLINE F64 vec_sqrt(F64 x) {
#if defined(__AVX512F__)
  return (F64)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
  return (F64)_mm256_sqrt_pd((__m256d)x);
#elif defined(__SSE2__)
  return (F64)_mm_sqrt_pd((__m128d)x);
#else
  for (int i = 0; i < kLanes<double>; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}

enum class Rounding { kNearestEven, kDown, kUp, kZero };
#if defined(__AVX2__)
template <Rounding mode>
constexpr int kRoundingBits = (mode == Rounding::kNearestEven ? _MM_FROUND_TO_NEAREST_INT
                               : mode == Rounding::kDown      ? _MM_FROUND_TO_NEG_INF
                               : mode == Rounding::kUp        ? _MM_FROUND_TO_POS_INF
                                                              : _MM_FROUND_TO_ZERO) |
                              _MM_FROUND_NO_EXC;
#endif
template <Rounding mode>
XC_INLINE F32 round_to_integer(F32 x) {
#if defined(__AVX512F__)
  return (F32)_mm512_roundscale_ps((__m512)x, kRoundingBits<mode>);
#elif defined(__AVX2__)
  return (F32)_mm256_round_ps((__m256)x, kRoundingBits<mode>);
#else
  for (int i = 0; i < kF32Lanes; ++i)
    x[i] = mode == Rounding::kNearestEven ? __builtin_rintf(x[i])
           : mode == Rounding::kDown      ? __builtin_floorf(x[i])
           : mode == Rounding::kUp        ? __builtin_ceilf(x[i])
                                          : __builtin_truncf(x[i]);
  return x;
#endif
}

template <Rounding mode>
XC_INLINE F64 round_to_integer(F64 x) {
#if defined(__AVX512F__)
  return (F64)_mm512_roundscale_pd((__m512d)x, kRoundingBits<mode>);
#elif defined(__AVX2__)
  return (F64)_mm256_round_pd((__m256d)x, kRoundingBits<mode>);
#else
  for (int i = 0; i < kLanes<double>; ++i)
    x[i] = mode == Rounding::kNearestEven ? __builtin_rint(x[i])
           : mode == Rounding::kDown      ? __builtin_floor(x[i])
           : mode == Rounding::kUp        ? __builtin_ceil(x[i])
                                          : __builtin_trunc(x[i]);
  return x;
#endif
}

// As loop/expr.h: a > b ? a : b with NaN in either operand kept. The first form is one instruction
// and keeps only NaN in b.
template <class V>
XC_INLINE V max_number(V a, V b) {
  return a > b ? a : b;
}
template <class V>
XC_INLINE V min_number(V a, V b) {
  return a < b ? a : b;
}
XC_INLINE F32 max_number(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (F32)_mm_max_ps((__m128)a, (__m128)b);
#else
  return a > b ? a : b;
#endif
}
XC_INLINE F32 min_number(F32 a, F32 b) {
#if defined(__AVX512F__)
  return (F32)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (F32)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (F32)_mm_min_ps((__m128)a, (__m128)b);
#else
  return a < b ? a : b;
#endif
}
template <class V>
XC_INLINE V max_nan(V a, V b) {
  return a != a ? a : max_number(a, b);
}
template <class V>
XC_INLINE V min_nan(V a, V b) {
  return a != a ? a : min_number(a, b);
}
#if defined(__AVX512F__)
// Where a is a number, the larger or smaller one, in one instruction.
XC_INLINE F32 max_nan(F32 a, F32 b) {
  const __mmask16 number = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q);
  return (F32)_mm512_mask_max_ps((__m512)a, number, (__m512)a, (__m512)b);
}
XC_INLINE F32 min_nan(F32 a, F32 b) {
  const __mmask16 number = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q);
  return (F32)_mm512_mask_min_ps((__m512)a, number, (__m512)a, (__m512)b);
}
#endif

template <class To, class From>
XC_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace xc::cpu::XC_ISA
