#include "tensor/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace xc {

namespace {

struct Format {
  int exponent_bits, mantissa_bits, bias;
  uint8_t largest;   // code of the largest finite value
  uint8_t infinity;  // 0 = none
  uint8_t nan;       // 0 = none
};

Format format_of(DType type) {
  switch (type) {
    case DType::kF8E4M3FN:
      return {4, 3, 7, 0x7e, 0, 0x7f};
    case DType::kF8E4M3FNUZ:
      return {4, 3, 8, 0x7f, 0, 0x80};
    case DType::kF8E5M2:
      return {5, 2, 15, 0x7b, 0x7c, 0x7f};
    case DType::kF8E5M2FNUZ:
      return {5, 2, 16, 0x7f, 0, 0x80};
    case DType::kF4E2M1:
      return {2, 1, 1, 0x07, 0, 0};
    case DType::kF6E2M3:
      return {2, 3, 1, 0x1f, 0, 0};
    case DType::kF6E3M2:
      return {3, 2, 3, 0x1f, 0, 0};
    default:
      fail(Status::kInternal, "{} is no small float", name(type));
  }
}

double magnitude(const Format& f, int code) {
  const int exponent = code >> f.mantissa_bits;
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
  return std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
}

constexpr int kScaleBias = 127;  // of E8M0
constexpr uint8_t kScaleNan = 255;

}  // namespace

bool is_small_float(DType type) {
  return (type >= DType::kF8E4M3FN && type <= DType::kF4E2M1) || type == DType::kF6E2M3 ||
         type == DType::kF6E3M2;
}

double small_float_value(DType type, uint8_t code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (type == DType::kF8E8M0) return code == kScaleNan ? kNan : std::ldexp(1.0, code - kScaleBias);
  const Format f = format_of(type);
  const int sign = 1 << (f.exponent_bits + f.mantissa_bits);
  const int low = code & (sign - 1);
  if (f.nan == sign && code == f.nan) return kNan;
  double out = magnitude(f, low);
  if (f.infinity && low == f.infinity)
    out = std::numeric_limits<double>::infinity();
  else if (low > f.largest)
    return kNan;
  return code & sign ? -out : out;
}

uint8_t small_float_code(DType type, double value, bool saturate) {
  if (type == DType::kF8E8M0) {
    if (std::isnan(value) || value < 0) return kScaleNan;
    constexpr int kLargest = 127, kSmallest = -127;  // exponents
    int exponent = value == 0 ? kSmallest - 1 : kLargest + 1;
    if (value != 0 && std::isfinite(value)) {
      const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
      if (fraction < 0.75) --exponent;
    }
    if (!saturate && (exponent < kSmallest || exponent > kLargest)) return kScaleNan;
    return static_cast<uint8_t>(std::clamp(exponent, kSmallest, kLargest) + kScaleBias);
  }
  const Format f = format_of(type);
  const auto sign_bit = static_cast<uint8_t>(1 << (f.exponent_bits + f.mantissa_bits));
  if (std::isnan(value)) return f.nan;
  const bool unsigned_zero = f.nan == sign_bit;
  const uint8_t sign = std::signbit(value) ? sign_bit : uint8_t{0};
  const double size = std::abs(value);
  // Codes grow with the magnitude: the first one not below, then its lower neighbour if nearer.
  int code = 0;
  while (code <= f.largest && magnitude(f, code) < size) ++code;
  if (code > 0) {
    const double middle = (magnitude(f, code - 1) + magnitude(f, code)) / 2;
    if (size < middle || (size == middle && (code - 1) % 2 == 0)) --code;
  }
  if (code > f.largest) {
    if (saturate || (!f.infinity && !f.nan))
      code = f.largest;
    else if (f.infinity)
      code = f.infinity;
    else
      return unsigned_zero ? f.nan : static_cast<uint8_t>(sign | f.nan);
  }
  if (code == 0 && unsigned_zero) return 0;
  return static_cast<uint8_t>(sign | code);
}

}  // namespace xc
