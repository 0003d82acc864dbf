// What elementary functions should give, how far off a result is, and generated code that computes
// one of them over an array.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "codegen/jit.h"
#include "loop/builder.h"
#include "loop/math.h"
#include "loop/schedule.h"

namespace xc::test {

using namespace xc::loop;

/// `T`: the type of the result; computed in a wider one.
template <class T, class Real>
Real reference(Op op, Real x) {
  switch (op) {
    case Op::kRsqrt:
      return 1 / std::sqrt(x);
    case Op::kReciprocal:
      return 1 / x;
    case Op::kExp:
      return std::exp(x);
    case Op::kExpNormal:
      return x < std::log(Real(std::numeric_limits<T>::min())) ? Real(0) : std::exp(x);
    case Op::kExp2:
      return std::exp2(x);
    case Op::kExpm1:
      return std::expm1(x);
    case Op::kLog:
      return std::log(x);
    case Op::kLog1p:
      return std::log1p(x);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kErf:
      return std::erf(x);
    case Op::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Op::kOnePlusTanh:
      return 2 / (1 + std::exp(-2 * x));
    case Op::kOnePlusErf:
      return x < (sizeof(T) == 4 ? -4 : -6) ? Real(0) : std::erfc(-x);
    case Op::kSin:
      return std::sin(x);
    case Op::kCos:
      return std::cos(x);
    default:
      return std::numeric_limits<Real>::quiet_NaN();
  }
}

// Distance in units of the last place of T at the reference; 0 when both are NaN or the same
// infinity.
template <class T>
double ulps(T got, long double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  const T rounded = static_cast<T>(want);
  if (got == rounded)
    return std::isinf(got)
               ? 0
               : static_cast<double>(
                     std::fabs(static_cast<long double>(got) - want) /
                     std::ldexp(1.0L, std::max(std::ilogb(std::fabs(rounded) +
                                                          std::numeric_limits<T>::denorm_min()),
                                               std::numeric_limits<T>::min_exponent - 1) -
                                          std::numeric_limits<T>::digits + 1));
  if (std::isinf(got))
    return std::fabs(want) > static_cast<long double>(std::numeric_limits<T>::max()) * 0.999999L
               ? 1
               : 1e30;
  const int exponent =
      std::max(want == 0 ? std::numeric_limits<T>::min_exponent - 1 : std::ilogb(want),
               std::numeric_limits<T>::min_exponent - 1);
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / unit);
}

// Whether the operation says what it gives.
inline bool is_specified(Op op, double x) {
  return op != Op::kExpNormal || !(x > 0);
}

// Argument range within which the bound holds.
inline bool in_domain(Op op, double x, bool f32, MathLevel level) {
  // What would be less than the least normal number is that or less, or 0.
  if (op == Op::kSigmoid && x < (f32 ? -87.0 : -708.0)) return false;
  if (op == Op::kOnePlusTanh && x < (f32 ? -43.8 : -354.0)) return false;
  if (!is_specified(op, x)) return false;
  // Below, f64 has the rounding of erf.
  if (op == Op::kOnePlusErf && !f32 && x < -0.4) return false;
  if (op != Op::kSin && op != Op::kCos) return true;
  if (!std::isfinite(x)) return true;
  return (f32 && uses_fma(level)) || std::fabs(x) <= 0x1p20;
}

// The same distance for float in arithmetic of double: quick enough for every float there is.
// What is within `bound` of overflow may overflow.
inline double ulps_of_float(float got, double want, double bound = 2) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got)) {
    if (got == static_cast<float>(want)) return 0;
    const double near = static_cast<double>(std::numeric_limits<float>::max()) *
                        (1 - std::max(bound, 8.0) * 0x1p-23);
    return std::signbit(got) == std::signbit(want) && std::fabs(want) > near ? std::min(bound, 1.0)
                                                                             : 1e30;
  }
  constexpr int64_t kBias = 1023, kMantissa = 23, kLeast = -126;
  const int64_t exponent =
      static_cast<int64_t>((std::bit_cast<uint64_t>(want) >> 52) & 0x7ff) - kBias;
  const auto unit = static_cast<uint64_t>(std::max(exponent, kLeast) - kMantissa + kBias) << 52;
  return std::fabs(static_cast<double>(got) - want) / std::bit_cast<double>(unit);
}

// y = op(x), or op(x, z) for pow, over arrays of the length given at the call.
/// Special values; of f32 every `step`th bit pattern, of f64 `count` random ones; twice as many
/// where functions change most, and some around 1.
template <class T>
std::vector<T> arguments(uint64_t step, int count) {
  std::vector<T> out = {T(0),
                        T(-0.0),
                        T(1),
                        T(-1),
                        T(0.5),
                        T(-0.5),
                        T(2),
                        T(10),
                        T(-10),
                        T(88.7),
                        T(-87.4),
                        T(-100),
                        T(-103.9),
                        T(-104),
                        T(-745),
                        T(709.7),
                        T(710),
                        T(INFINITY),
                        T(-INFINITY),
                        T(NAN),
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::denorm_min(),
                        -std::numeric_limits<T>::denorm_min(),
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::lowest(),
                        T(M_PI),
                        T(M_PI_2),
                        T(22),
                        T(355),
                        T(4),
                        T(9.1)};
  if constexpr (sizeof(T) == 4) {
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step)
      out.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  } else {
    std::mt19937_64 random(1);
    for (int i = 0; i < count; ++i) out.push_back(std::bit_cast<double>(random()));
  }
  std::mt19937_64 random(2);  // where functions change most
  std::normal_distribution<double> normal(0, 5);
  for (int i = 0; i < 2 * count; ++i) out.push_back(static_cast<T>(normal(random)));
  for (int i = 0; i < count / 3; ++i) out.push_back(static_cast<T>(1 + normal(random) * 1e-3));
  return out;
}

template <class T>
Kernel function_kernel(Op op, Accuracy accuracy = Accuracy::kDefault) {
  KernelBuilder b("apply");
  const DimParam n = b.dim("n");
  const DType type = kDTypeOf<T>;
  const loop::Buffer in = b.input("x", type, {1}), second = b.input("z", type, {1});
  const loop::Buffer out = b.output("y", type, {1});
  b.loop("i", 0, n, [&](Var i) {
    b.store(out(i), op == Op::kPow ? pow(in(i), second(i)) : make_unary(op, in(i)));
  });
  Kernel kernel = b.finish();
  kernel.accuracy = accuracy;
  return schedule_default(std::move(kernel), {});
}

template <class T>
std::unique_ptr<Compiled> compile_function(Op op, const std::string& target,
                                           Accuracy accuracy = Accuracy::kDefault) {
  return std::make_unique<Compiled>(function_kernel<T>(op, accuracy), target);
}

template <class T>
int32_t run_function(const Compiled& kernel, const T* x, const T* z, T* y, int64_t count) {
  const void* buffers[] = {x, z, y};
  xc_kargs args{
      XC_KERNEL_ABI_VERSION,  0, const_cast<void* const*>(buffers), &count, nullptr, nullptr, 0,
      (count + 16383) / 16384};
  return kernel(args);
}

}  // namespace xc::test
