// Elementary functions on vectors: the same polynomials in the same order as loop/math.cpp, so that
// kernels compiled at run time and these agree bit for bit (a test compares them). Bounds: math.h.
// Inverse functions, which loops do not have: within 2 units of the last place, hyperbolic ones 3.
#pragma once

#include "backends/cpu/vector/vec.h"

namespace xc::cpu::XC_ISA {

template <class V, int N, class T>
XC_INLINE V polynomial(V x, const T (&coefficients)[N]) {
  V sum = splat<V>(coefficients[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) sum = mad(sum, x, splat<V>(coefficients[i]));
  return sum;
}

// clamp with the constants as first operands: NaN in x stays.
XC_INLINE F32 clamp(F32 x, float low, float high) {
  return min_number(splat<F32>(high), max_number(splat<F32>(low), x));
}
/// V: F64 or F64Wide.
template <class V>
XC_INLINE V clamp(V x, double low, double high) {
  const V l = splat<V>(low), h = splat<V>(high);
  const V above = l > x ? l : x;
  return h < above ? h : above;
}

XC_INLINE F32 vec_abs(F32 x) {
  return bits_as<F32>(bits_as<I32>(x) & 0x7fffffff);
}
XC_INLINE F32 with_sign_of(F32 magnitude, F32 x) {
  return bits_as<F32>(bits_as<I32>(magnitude) | (bits_as<I32>(x) & INT32_MIN));
}
XC_INLINE F64 vec_abs(F64 x) {
  return bits_as<F64>(bits_as<Vec<int64_t>>(x) & INT64_MAX);
}
XC_INLINE F64 with_sign_of(F64 magnitude, F64 x) {
  using I = Vec<int64_t>;
  return bits_as<F64>(bits_as<I>(magnitude) | (bits_as<I>(x) & INT64_MIN));
}

/// e^x = 2^k e^r, k whole; q: e^r = 1 + r (1 + r q).
struct ReducedExp {
  F32 k, r, q;
};
XC_INLINE ReducedExp reduced_exp(F32 x) {
  constexpr float kQ[] = {0.49999993047077840679f, 0.16666520428275123759f,
                          0.041668486489599666865f, 0.0083687355173360414523f,
                          0.0013809204007336771949f};
  const F32 magic = splat<F32>(0x1.8p23f);
  const F32 shifted = mad(x, splat<F32>(0x1.71547652b82fep+0f), magic);
  const F32 k = shifted - magic;
  const F32 r = mad(k, splat<F32>(-0x1.0bfbe8e7bcd5ep-15f), mad(k, splat<F32>(-0x1.62ep-1f), x));
  return {k, r, polynomial(r, kQ)};
}
XC_INLINE F32 exp_near_0(const ReducedExp& e) {
  const F32 one = splat<F32>(1.0f);
  return mad(mad(e.q, e.r, one), e.r, one);
}
/// 2^k p, rounded once.
XC_INLINE F32 scale(F32 p, F32 k) {
#if defined(__AVX512F__)
  return (F32)_mm512_scalef_ps((__m512)p, (__m512)k);
#else
  const I32 whole = __builtin_convertvector(k, I32), half = whole >> 1;
  return p * bits_as<F32>((half + 127) << 23) * bits_as<F32>((whole - half + 127) << 23);
#endif
}
XC_INLINE F32 exp(F32 argument) {
  const ReducedExp e = reduced_exp(clamp(argument, -104.5f, 89.0f));
  return scale(exp_near_0(e), e.k);
}
/// 2^k p where the result is normal, or infinite.
XC_INLINE F32 scale_normal(F32 p, F32 k) {
#if defined(__AVX512F__)
  return scale(p, k);
#else
  return p * bits_as<F32>((__builtin_convertvector(k, I32) + 127) << 23);
#endif
}
/// e^x where the result is normal, or infinite.
XC_INLINE F32 exp_bounded(F32 x) {
  const ReducedExp e = reduced_exp(x);
  return scale_normal(exp_near_0(e), e.k);
}

/// e^x for x of at most 0; 0 where that is no normal number: a denormal one slows down whoever
/// multiplies by it. As loop/math.cpp has it, exp_bounded() too.
XC_INLINE F32 exp_normal(F32 x) {
  const F32 least = splat<F32>(-0x1.5d589ep+6f);  // loop::least_normal_power
#if defined(__AVX512F__)
  const ReducedExp e = reduced_exp(x);  // whatever it is in lanes that are not kept
  const __mmask16 kept = _mm512_cmp_ps_mask((__m512)x, (__m512)least, _CMP_NLT_UQ);
  return (F32)_mm512_maskz_scalef_ps(kept, (__m512)exp_near_0(e), (__m512)e.k);
#else
  const ReducedExp e = reduced_exp(max_number(least, x));
  return x < least ? F32{} : scale_normal(exp_near_0(e), e.k);
#endif
}

/// V: F64 or F64Wide.
template <class V>
XC_INLINE V exp_f64(V argument) {
  using I = Vec<int64_t, kCount<V, double>>;
  constexpr double kQ[] = {
      0.50000000000000000441,     0.16666666666666683521,   0.041666666666666093529,
      0.0083333333333169636377,   0.0013888888889115303449, 0.00019841269896566306928,
      0.000024801586928545417571, 2.755723466849846068e-6,  2.7557579277129607599e-7,
      2.5112107976118129745e-8,   2.0827663517552306508e-9};
  const V x = clamp(argument, -746.0, 710.5);
  const V magic = splat<V>(0x1.8p52);
  const V shifted = mad(x, splat<V>(0x1.71547652b82fep+0), magic);
  const V k = shifted - magic;
  const V r = mad(k, splat<V>(-0x1.9ef35793c7673p-41), mad(k, splat<V>(-0x1.62e42fefa2p-1), x));
  const V p = mad(mad(polynomial(r, kQ), r, splat<V>(1.0)), r, splat<V>(1.0));
  const I ki = bits_as<I>(shifted) - bits_as<I>(magic);
  const I half = ki >> 1;
  return p * bits_as<V>((half + 1023) << 52) * bits_as<V>((ki - half + 1023) << 52);
}
XC_INLINE F64Wide exp(F64Wide x) {
  return exp_f64(x);
}
XC_INLINE F64 exp(F64 x) {
  return exp_f64(x);
}

/// x = 2^k m, m in [sqrt(1/2), sqrt(2)), of a number above 0.
struct SplitFloat {
  F32 k, m;
};
XC_INLINE SplitFloat split(F32 x) {
  const I32 tiny = x < 0x1p-126f;
  const F32 normal = tiny ? x * 0x1p23f : x;
  // Unsigned: x may be negative, where the bits minus the constant leave the range of int.
  const I32 offset = bits_as<I32>(bits_as<U32>(normal) - 0x3f3504f3u);
  const I32 exponent = offset >> 23;
  const F32 m = bits_as<F32>(bits_as<U32>(normal) - (bits_as<U32>(exponent) << 23));
  return {__builtin_convertvector(exponent, F32) - (tiny ? splat<F32>(23.0f) : F32{}), m};
}
/// k ln 2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)).
XC_INLINE F32 log_of(F32 k, F32 f) {
  constexpr float kP[] = {
      0.33333313093008431727f,  -0.25000010548262069943f, 0.20002091323362039521f,
      -0.16667937041065701817f, 0.1422000007147701327f,   -0.1240674260294945447f,
      0.11886220112965447374f,  -0.11668625471216991314f, 0.067425073346299036536f};
  const F32 f2 = f * f;
  const F32 tail = mad(k, splat<F32>(-2.12194440e-4f), f2 * f * polynomial(f, kP));
  return mad(k, splat<F32>(0.693359375f), f + mad(f2, splat<F32>(-0.5f), tail));
}
XC_INLINE F32 log(F32 x) {
  const SplitFloat parts = split(x);
  F32 result = log_of(parts.k, parts.m - 1.0f);
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0f ? splat<F32>(-__builtin_inff()) : result;
  return x >= 0.0f ? result : splat<F32>(__builtin_nanf(""));
}
/// log(1 + x): what 1 + x loses by rounding goes back in.
XC_INLINE F32 log1p(F32 x) {
  const F32 u = x + 1.0f;
  const SplitFloat parts = split(u);
  const F32 lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
  F32 result = log_of(parts.k, (parts.m - 1.0f) + scale(lost, -parts.k));
  result = x == __builtin_inff() ? x : result;
  result = x == -1.0f ? splat<F32>(-__builtin_inff()) : result;
  result = x == 0.0f ? x : result;  // -0 stays
  return x >= -1.0f ? result : splat<F32>(__builtin_nanf(""));
}
/// log(1 + x) for x from 0 to 1, where nothing has to be rounded in front of the polynomial.
XC_INLINE F32 log1p_of_share(F32 x) {
  const I32 large = x > 0x1.a8279ap-2f;  // 1 + x beyond sqrt(2)
  return log_of(large ? splat<F32>(1.0f) : F32{}, large ? (x - 1.0f) * 0.5f : x);
}
XC_INLINE F32 softplus(F32 x) {
  return max_nan(x, F32{}) + log1p_of_share(exp(-vec_abs(x)));
}
/// e^x - 1.
XC_INLINE F32 expm1(F32 x) {
  const ReducedExp e = reduced_exp(clamp(x, -18.0f, 88.9f));
  const F32 s = scale(splat<F32>(0.5f), e.k);
  const F32 result = 2.0f * mad(s, mad(e.r * e.r, e.q, e.r), s - 0.5f);
  return x == 0.0f ? x : result;  // -0 stays
}

/// Of normal numbers above 0.
XC_INLINE F64Wide log_finite(F64Wide x) {
  constexpr double kT[] = {0.66666666666666660973, 0.40000000000006255409, 0.2857142856908132933,
                           0.22222222647685417466, 0.18181775582366852339, 0.15387094801483692107,
                           0.13250019511807877676, 0.13252281912083986511};
  using U64Wide = Vec<uint64_t, kF32Lanes>;
  // 1024 more than it is, so that unsigned numbers do.
  const U64Wide biased = (bits_as<U64Wide>(x) - 0x3fe6a09e667f3bcdu + (uint64_t{1024} << 52)) >> 52;
  const F64Wide m = bits_as<F64Wide>(bits_as<U64Wide>(x) - ((biased - 1024u) << 52));
  const F64Wide k = __builtin_convertvector(__builtin_convertvector(biased, I32) - 1024, F64Wide);
  const F64Wide f = m - 1.0;
  const F64Wide s = f / (f + 2.0), z = s * s;
  const F64Wide t = z * polynomial(z, kT);
  const F64Wide half_square = 0.5 * f * f;
  const F64Wide low = mad(k, splat<F64Wide>(0x1.a39ef35793c76p-33), s * (half_square + t));
  return mad(k, splat<F64Wide>(0x1.62e42feep-1), f - (half_square - low));
}
/// x^y with the digits of f64, which the product y log(x) needs, and the special cases of C.
XC_INLINE F32 pow(F32 x, F32 y) {
  const float infinity = __builtin_inff();
  const F32 a = vec_abs(x);
  // Of what has no finite logarithm, that of 1: its powers are put in below.
  const I32 plain = (a > 0.0f) & (a < infinity);
  const F64Wide log = log_finite(__builtin_convertvector(plain ? a : splat<F32>(1.0f), F64Wide));
  F32 magnitude = __builtin_convertvector(exp(__builtin_convertvector(y, F64Wide) * log), F32);
  const I32 grows = (a == infinity) == (y > 0.0f);  // of 0 and infinity
  magnitude = plain ? magnitude : grows ? splat<F32>(infinity) : F32{};
  magnitude = a == 1.0f ? splat<F32>(1.0f) : magnitude;
  const I32 whole = round_to_integer<Rounding::kZero>(y) == y;
  const F32 half = y * 0.5f;
  const I32 odd = whole & (round_to_integer<Rounding::kZero>(half) != half);
  const F32 flipped = bits_as<F32>(bits_as<I32>(magnitude) ^ INT32_MIN);
  F32 result = (bits_as<I32>(x) < 0) & odd ? flipped : magnitude;
  const F32 nan = splat<F32>(__builtin_nanf(""));
  result = (x < 0.0f) & ~whole & (a != infinity) ? nan : result;
  result = (x != x) | (y != y) ? nan : result;
  return (x == 1.0f) | (y == 0.0f) ? splat<F32>(1.0f) : result;
}

XC_INLINE F32 tanh(F32 x) {
  const F32 a = vec_abs(x);
  const ReducedExp e = reduced_exp(min_number(splat<F32>(18.2f), a + a));
  const F32 s = scale_normal(splat<F32>(1.0f), e.k);
  const F32 less_one = mad(s, mad(e.r * e.r, e.q, e.r), s - 1.0f);
  return with_sign_of(less_one / (less_one + 2.0f), x);
}

XC_INLINE F64 tanh(F64 x) {
  constexpr double kP[] = {-0.33333333333333333333, -0.021422266726060138845,
                           -0.00024389470460197601214, -1.7498437653601464231e-8};
  constexpr double kQ[] = {1.0, 0.4642668001781804158, 0.024533642280316227961,
                           0.0002549692727703340622};
  const F64 a = vec_abs(x), z = a * a, one = splat<F64>(1.0);
  const F64 small = a + a * z * polynomial(z, kP) / polynomial(z, kQ);
  const F64 large = one - 2.0 / (exp(clamp(a + a, 0.0, 40.0)) + one);
  return with_sign_of(a < 0.55 ? small : large, x);
}

XC_INLINE F32 erf(F32 x) {
  constexpr float kP[] = {0.12837916640811134579f,   -0.37612631612651426168f,
                          0.11283664002731203507f,   -0.0268577057857499083f,
                          0.0051969543003916527109f, -0.00080977309402987478547f,
                          0.0000818521215678241208f};
  constexpr float kR[] = {0.0002451773076447014333f,  1.1274731172240299296f,
                          0.63752005496256119411f,    0.10363775923649767143f,
                          -0.022086465399884215533f,  0.0030082591396211911621f,
                          -0.00019239956203015168359f};
  const F32 a = vec_abs(x), z = a * a;
  const F32 small = mad(a, polynomial(z, kP), a);
  const F32 large = 1.0f - exp_bounded(-polynomial(min_number(splat<F32>(4.0f), a), kR));
  return with_sign_of(a < 0.95f ? small : large, x);
}

/// 1 + erf(x); 0 where only the rounding of erf would be left, which a factor could magnify.
XC_INLINE F32 one_plus_erf(F32 x) {
  constexpr float kP[] = {1.1283820196230954308f,       0.6365778418796920182f,
                          0.1029791796230602315f,       -0.019612777590375417618f,
                          0.00040353075312899946176f,   0.0012803270027684896893f,
                          -0.00049093121900109804974f,  0.000095919212546718702773f,
                          -0.000010170059906255140307f, 4.6257952632947470335e-7f};
  constexpr float kLeast = -4;  // loop::least_one_plus_erf
  const F32 a = min_number(splat<F32>(-kLeast), vec_abs(x));
  const F32 tail = exp_bounded(-(a * polynomial(a, kP)));
  return x < kLeast ? F32{} : x < 0.0f ? tail : 2.0f - tail;
}

/// n / (1 + e^v).
XC_INLINE F32 over_one_plus_exp(float n, F32 v) {
  return n / (exp_bounded(clamp(v, -18.0f, 89.0f)) + 1.0f);
}
XC_INLINE F32 sigmoid(F32 x) {
  return over_one_plus_exp(1, -x);
}
XC_INLINE F64 sigmoid(F64 x) {
  return 1.0 / (exp(clamp(-x, -38.0, 710.5)) + 1.0);
}

/// sin for offset 0, cos for 1. The reduction is in f64.
template <int offset>
XC_INLINE F32 sin_cos(F32 argument) {
  constexpr float kS[] = {-0.16666666640701060085f, 0.0083333292821380286447f,
                          -0.00019839301613467920715f, 2.7179929057708115724e-6f};
  constexpr float kC[] = {0.041666646564598569869f, -0.001388734970090559722f,
                          0.000024436139085202773445f};
  const F64Wide x = __builtin_convertvector(argument, F64Wide);
  const F64Wide magic = splat<F64Wide>(0x1.8p52),
                two_over_pi = splat<F64Wide>(0x1.45f306dc9c883p-1);
  F64Wide shifted, wide;
  if constexpr (kHasFma) {  // the steps of loop/math.cpp, for every f32
    const F64Wide k1 = mad(x, splat<F64Wide>(0x1.10d6ea67bfffap-87), magic) - magic;
    const F64Wide x1 = mad(k1, splat<F64Wide>(-0x1.e0664dbedfec5p+86), x);
    const F64Wide k2 = mad(x1, splat<F64Wide>(0x1.f395f3821c216p-42), magic) - magic;
    const F64Wide x2 = mad(k2, splat<F64Wide>(-0x1.065c829d6873p+41), x1);
    const F64Wide rest = mad(k1, splat<F64Wide>(0x1.c0de77c1ccc58p-52), k2 * 0x1.14e87fd83e16cp-54);
    shifted = mad(x2 - rest, two_over_pi, magic);
    const F64Wide k = shifted - magic;
    wide = mad(k, splat<F64Wide>(-0x1.1a62633145c07p-54),
               mad(k, splat<F64Wide>(-0x1.921fb54442d18p+0), x2)) -
           rest;
  } else {  // |x| < 2^20; beyond, digits fade
    shifted = mad(x, two_over_pi, magic);
    const F64Wide k = shifted - magic;
    const F64Wide first = x - k * 0x1.921fb544p+0;
    wide = (first - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
    wide = wide < -1.0 ? splat<F64Wide>(-1.0) : wide > 1.0 ? splat<F64Wide>(1.0) : wide;
  }
  const I32 q = __builtin_convertvector(bits_as<I64Wide>(shifted), I32) + offset;
  const F32 r = __builtin_convertvector(wide, F32);
  const F32 z = r * r;
  const F32 sine = with_sign_of(mad(z * r, polynomial(z, kS), r), r);  // -0 + 0 is 0
  const F32 half = 0.5f * z;
  const F32 lead = 1.0f - half;
  const F32 cosine = lead + mad(z * z, polynomial(z, kC), (1.0f - lead) - half);
  const F32 chosen = (q & 1) == 1 ? cosine : sine;
  return (q & 2) == 2 ? -chosen : chosen;
}

/// atan, argument reduction and polynomial of Cephes: by tan(3 pi / 8) and tan(pi / 8) to
/// base + atan(t), |t| <= tan(pi / 8).
XC_INLINE F32 atan(F32 x) {
  constexpr float kP[] = {-3.33329491539e-1f, 1.99777106478e-1f, -1.38776856032e-1f,
                          8.05374449538e-2f};
  const F32 a = vec_abs(x), one = splat<F32>(1.0f);
  const I32 steep = a > 2.414213562373095f, middle = (a > 0.4142135623730950f) & ~steep;
  const F32 t = (steep ? -one : middle ? a - one : a) / (steep ? a : middle ? a + one : one);
  // pi / 4 or pi / 2, and what f32 leaves of it.
  const F32 quarters = steep ? splat<F32>(2.0f) : middle ? one : F32{};
  const F32 z = t * t;
  const F32 near_0 = mad(z * t, polynomial(z, kP), quarters * -2.18556951e-8f);
  return with_sign_of(mad(quarters, splat<F32>(0.785398185253143310546875f), t + near_0), x);
}

/// s / sqrt(z) * asin(sqrt(z)) + c for sqrt(z) <= 1/2, polynomial of Cephes.
XC_INLINE F32 asin_near_0(F32 s, F32 z, F32 c) {
  constexpr float kP[] = {1.6666752422e-1f, 7.4953002686e-2f, 4.5470025998e-2f, 2.4181311049e-2f,
                          4.2163199048e-2f};
  return s + mad(s * z, polynomial(z, kP), c);
}
constexpr float kHalfPi = 1.57079637050628662109375f, kHalfPiRest = -4.37113883e-8f;
/// For |x| > 1/2 by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)).
XC_INLINE F32 asin(F32 x) {
  const F32 a = vec_abs(x);
  const I32 near_0 = a <= 0.5f;
  const F32 z = near_0 ? a * a : mad(a, splat<F32>(-0.5f), splat<F32>(0.5f));
  const F32 s = near_0 ? a : -2.0f * vec_sqrt(z);
  const F32 sum = asin_near_0(s, z, near_0 ? F32{} : splat<F32>(kHalfPiRest));
  return with_sign_of(near_0 ? sum : sum + kHalfPi, x);
}
XC_INLINE F32 acos(F32 x) {
  const F32 a = vec_abs(x);
  const I32 near_0 = a <= 0.5f, below = x < -0.5f;
  const F32 z = near_0 ? a * a : mad(a, splat<F32>(-0.5f), splat<F32>(0.5f));
  const F32 root = 2.0f * vec_sqrt(z);
  const F32 s = near_0 ? -x : below ? -root : root;
  // 0, pi / 2 or pi.
  const F32 halves = near_0 ? splat<F32>(1.0f) : below ? splat<F32>(2.0f) : F32{};
  return mad(halves, splat<F32>(kHalfPi), asin_near_0(s, z, halves * kHalfPiRest));
}

constexpr float kLn2 = 0.693147180559945309417f;
/// Beyond, a^2 + 1 is a^2 in f32.
constexpr float kSquareAlone = 0x1p13f;
XC_INLINE F32 asinh(F32 x) {
  const F32 a = vec_abs(x), a2 = a * a;
  const F32 far = log(a) + kLn2;
  const F32 near = log1p(a + a2 / (vec_sqrt(a2 + 1.0f) + 1.0f));
  return with_sign_of(a > kSquareAlone ? far : near, x);
}
XC_INLINE F32 acosh(F32 x) {
  const F32 t = x - 1.0f;
  const F32 far = log(x) + kLn2;
  const F32 near = log1p(t + vec_sqrt(mad(t, t, t + t)));
  const F32 result = x > kSquareAlone ? far : near;
  return x < 1.0f ? splat<F32>(__builtin_nanf("")) : result;
}
XC_INLINE F32 atanh(F32 x) {
  const F32 a = vec_abs(x);
  return with_sign_of(0.5f * log1p((a + a) / (1.0f - a)), x);
}

}  // namespace xc::cpu::XC_ISA
