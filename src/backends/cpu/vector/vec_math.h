// Elementary functions on vectors: the same polynomials in the same order as loop/math.cpp, so that
// kernels compiled at run time and these agree bit for bit (a test compares them). Bounds: math.h.
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
XC_INLINE F64Wide clamp(F64Wide x, double low, double high) {
  const F64Wide l = splat<F64Wide>(low), h = splat<F64Wide>(high);
  const F64Wide above = l > x ? l : x;
  return h < above ? h : above;
}

XC_INLINE F32 exp(F32 argument) {
  constexpr float kQ[] = {0.49999993047077840679f, 0.16666520428275123759f,
                          0.041668486489599666865f, 0.0083687355173360414523f,
                          0.0013809204007336771949f};
  const F32 x = clamp(argument, -104.5f, 89.0f);
  const F32 magic = splat<F32>(0x1.8p23f);
  const F32 shifted = mad(x, splat<F32>(0x1.71547652b82fep+0f), magic);
  const F32 k = shifted - magic;
  const F32 r = mad(k, splat<F32>(-0x1.0bfbe8e7bcd5ep-15f), mad(k, splat<F32>(-0x1.62ep-1f), x));
  const F32 p = mad(r * r, polynomial(r, kQ), r) + 1.0f;
  const I32 ki = bits_as<I32>(shifted) - bits_as<I32>(magic);
  const I32 half = ki >> 1;
  return p * bits_as<F32>((half + 127) << 23) * bits_as<F32>((ki - half + 127) << 23);
}

XC_INLINE F64Wide exp(F64Wide argument) {
  constexpr double kQ[] = {
      0.50000000000000000441,     0.16666666666666683521,   0.041666666666666093529,
      0.0083333333333169636377,   0.0013888888889115303449, 0.00019841269896566306928,
      0.000024801586928545417571, 2.755723466849846068e-6,  2.7557579277129607599e-7,
      2.5112107976118129745e-8,   2.0827663517552306508e-9};
  const F64Wide x = clamp(argument, -746.0, 710.5);
  const F64Wide magic = splat<F64Wide>(0x1.8p52);
  const F64Wide shifted = mad(x, splat<F64Wide>(0x1.71547652b82fep+0), magic);
  const F64Wide k = shifted - magic;
  const F64Wide r =
      mad(k, splat<F64Wide>(-0x1.a39ef35793c76p-33), mad(k, splat<F64Wide>(-0x1.62e42feep-1), x));
  const F64Wide p = mad(r * r, polynomial(r, kQ), r) + 1.0;
  const I64Wide ki = bits_as<I64Wide>(shifted) - bits_as<I64Wide>(magic);
  const I64Wide half = ki >> 1;
  return p * bits_as<F64Wide>((half + 1023) << 52) * bits_as<F64Wide>((ki - half + 1023) << 52);
}

XC_INLINE F32 log(F32 x) {
  constexpr float kP[] = {
      0.33333313093008431727f,  -0.25000010548262069943f, 0.20002091323362039521f,
      -0.16667937041065701817f, 0.1422000007147701327f,   -0.1240674260294945447f,
      0.11886220112965447374f,  -0.11668625471216991314f, 0.067425073346299036536f};
  const I32 tiny = x < 0x1p-126f;
  const F32 normal = tiny ? x * 0x1p23f : x;
  // Unsigned: x may be negative, where the bits minus the constant leave the range of int.
  const I32 offset = bits_as<I32>(bits_as<U32>(normal) - 0x3f3504f3u);
  const I32 exponent = offset >> 23;
  const F32 m = bits_as<F32>(bits_as<U32>(normal) - (bits_as<U32>(exponent) << 23));
  const F32 k = __builtin_convertvector(exponent, F32) - (tiny ? splat<F32>(23.0f) : F32{});
  const F32 f = m - 1.0f;
  const F32 f2 = f * f;
  const F32 tail = mad(k, splat<F32>(-2.12194440e-4f), f2 * f * polynomial(f, kP));
  F32 result = mad(k, splat<F32>(0.693359375f), f + mad(f2, splat<F32>(-0.5f), tail));
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0f ? splat<F32>(-__builtin_inff()) : result;
  return x >= 0.0f ? result : splat<F32>(__builtin_nanf(""));
}

template <int N, int M>
XC_INLINE F32 odd_rational(F32 x, const float (&p)[N], const float (&q)[M]) {
  const F32 z = x * x;
  return x * polynomial(z, p) / polynomial(z, q);
}

XC_INLINE F32 tanh(F32 x) {
  constexpr float kP[] = {0.99999999842184214281f,   0.13675980562688952853f,
                          0.0038633999752179533668f, 0.000027908205670517898f,
                          3.034720975283825379e-8f,  -1.2028057504287350598e-11f};
  constexpr float kQ[] = {1.0f, 0.47009312464901408773f, 0.027227797726915635491f,
                          0.00039299488000317823972f, 1.2804427553554723e-6f};
  return odd_rational(clamp(x, -9.1f, 9.1f), kP, kQ);
}

XC_INLINE F32 erf(F32 x) {
  constexpr float kP[] = {1.1283791382055314526f,     0.19358464106722409719f,
                          0.05310713730000569208f,    0.0038850750542940318516f,
                          0.00028460964497901562266f, 1.9865454491774433946e-6f};
  constexpr float kQ[] = {1.0f,
                          0.50489247049937436561f,
                          0.11536649633847091f,
                          0.015210727333254768217f,
                          0.0011859991434199486265f,
                          0.000037420000605305229438f};
  return odd_rational(clamp(x, -4.0f, 4.0f), kP, kQ);
}

/// 1 + erf(x); 0 where only the rounding of erf would be left, which a factor could magnify.
XC_INLINE F32 one_plus_erf(F32 x) {
  return x < -4.0f ? F32{} : erf(x) + 1;
}

XC_INLINE F32 vec_abs(F32 x) {
  return bits_as<F32>(bits_as<I32>(x) & 0x7fffffff);
}

XC_INLINE F32 sigmoid(F32 x) {
  const F32 e = exp(-vec_abs(x));
  return (x < 0.0f ? e : splat<F32>(1.0f)) / (e + 1.0f);
}

/// sin for offset 0, cos for 1. The reduction is in f64.
template <int offset>
XC_INLINE F32 sin_cos(F32 argument) {
  constexpr float kS[] = {-0.16666666640701060085f, 0.0083333292821380286447f,
                          -0.00019839301613467920715f, 2.7179929057708115724e-6f};
  constexpr float kC[] = {0.041666646564598569869f, -0.001388734970090559722f,
                          0.000024436139085202773445f};
  const F64Wide x = __builtin_convertvector(argument, F64Wide);
  const F64Wide magic = splat<F64Wide>(0x1.8p52);
  const F64Wide shifted = mad(x, splat<F64Wide>(0x1.45f306dc9c883p-1), magic);
  const F64Wide k = shifted - magic;
  F64Wide wide;
  if constexpr (kHasFma) {
    wide = mad(k, splat<F64Wide>(-0x1.1a62633145c07p-54),
               mad(k, splat<F64Wide>(-0x1.921fb54442d18p+0), x));
  } else {
    const F64Wide first = x - k * 0x1.921fb544p+0;
    wide = (first - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69;
  }
  const I32 q = __builtin_convertvector(bits_as<I64Wide>(shifted), I32) + offset;
  const F32 r = __builtin_convertvector(wide, F32);
  const F32 z = r * r;
  const F32 sine = mad(z * r, polynomial(z, kS), r);
  const F32 half = 0.5f * z;
  const F32 lead = 1.0f - half;
  const F32 cosine = lead + mad(z * z, polynomial(z, kC), (1.0f - lead) - half);
  const F32 chosen = (q & 1) == 1 ? cosine : sine;
  return (q & 2) == 2 ? -chosen : chosen;
}

}  // namespace xc::cpu::XC_ISA
