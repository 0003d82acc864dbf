#include "loop/evaluate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "loop/dot.h"
#include "tensor/half.h"

namespace xc::loop {

namespace {

template <class T>
T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, bool>)
    return bits != 0;
  else
    return static_cast<T>(bits);
}

template <class T>
uint64_t to_bits(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, bool>)
    return value ? 1 : 0;
  else
    return static_cast<std::make_unsigned_t<T>>(value);
}

// Calls f(T{}) with the C++ type of `type`.
template <class F>
uint64_t dispatch(DType type, F f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kBool:
      return f(bool{});
    default:
      fail(Status::kInternal, "no arithmetic on {}", name(type));
  }
}

[[noreturn]] void no_operation(Op op, DType type) {
  fail(Status::kInternal, "cannot evaluate {} on {}", op_info(op).name, name(type));
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (value != value) return 0;
    const From whole = std::trunc(value);
    // 2^digits is the first value too large; both limits are exact in From.
    if (whole >= std::ldexp(From{1}, Limits::digits)) return Limits::max();
    if (whole <= static_cast<From>(Limits::min())) return Limits::min();
    return static_cast<To>(whole);
  } else {
    return static_cast<To>(value);
  }
}

template <class T>
uint64_t apply_float(Op op, DType type, std::span<const uint64_t> v) {
  const auto arg = [&](size_t i) { return from_bits<T>(v[i]); };
  const T a = arg(0);
  switch (op) {
    case Op::kAdd:
      return to_bits<T>(a + arg(1));
    case Op::kSub:
      return to_bits<T>(a - arg(1));
    case Op::kMul:
      return to_bits<T>(a * arg(1));
    case Op::kDiv:
      return to_bits<T>(a / arg(1));
    case Op::kNeg:
      return to_bits<T>(-a);
    case Op::kAbs:
      return to_bits<T>(std::fabs(a));
    case Op::kMin:
      return to_bits<T>(a != a ? a : a < arg(1) ? a : arg(1));
    case Op::kMax:
      return to_bits<T>(a != a ? a : a > arg(1) ? a : arg(1));
    case Op::kSign:
      return to_bits<T>(a != a ? a : static_cast<T>((a > 0) - (a < 0)));
    case Op::kFma:
      return to_bits<T>(std::fma(a, arg(1), arg(2)));
    case Op::kFloor:
      return to_bits<T>(std::floor(a));
    case Op::kCeil:
      return to_bits<T>(std::ceil(a));
    case Op::kRound:
      return to_bits<T>(std::nearbyint(a));
    case Op::kTrunc:
      return to_bits<T>(std::trunc(a));
    case Op::kSqrt:
      return to_bits<T>(std::sqrt(a));
    case Op::kScale: {
      const T k = std::min(std::max(arg(1), T{-3000}), T{3000});
      return to_bits<T>(k != k ? k : std::ldexp(a, static_cast<int>(k)));
    }
    case Op::kIsNan:
      return a != a;
    case Op::kIsInf:
      return std::isinf(a);
    case Op::kEq:
      return a == arg(1);
    case Op::kNe:
      return a != arg(1);
    case Op::kLt:
      return a < arg(1);
    case Op::kLe:
      return a <= arg(1);
    case Op::kGt:
      return a > arg(1);
    case Op::kGe:
      return a >= arg(1);
    case Op::kRoundF16:
      return to_bits<float>(f16_to_float(float_to_f16(from_bits<float>(v[0]))));
    case Op::kRoundBf16:
      return to_bits<float>(bf16_to_float(float_to_bf16(from_bits<float>(v[0]))));
    default:
      no_operation(op, type);
  }
}

template <class T>
uint64_t apply_integer(Op op, DType type, std::span<const uint64_t> v) {
  using U = std::make_unsigned_t<T>;
  constexpr int kBits = std::numeric_limits<U>::digits;
  const T a = from_bits<T>(v[0]);
  const T b = v.size() > 1 ? from_bits<T>(v[1]) : T{0};
  const auto wrap = [](uint64_t bits) { return to_bits<T>(static_cast<T>(static_cast<U>(bits))); };
  const bool overflows =
      std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
  switch (op) {
    case Op::kAdd:
      return wrap(v[0] + v[1]);
    case Op::kSub:
      return wrap(v[0] - v[1]);
    case Op::kMul:
      return wrap(v[0] * v[1]);
    case Op::kNeg:
      return wrap(0 - v[0]);
    case Op::kAbs:
      return a < 0 ? wrap(0 - v[0]) : v[0];
    case Op::kSign:
      return to_bits<T>(static_cast<T>((a > 0) - (a < 0)));
    case Op::kDiv:
      return b == 0 ? 0 : overflows ? v[0] : to_bits<T>(static_cast<T>(a / b));
    case Op::kRem:
      return b == 0 || overflows ? 0 : to_bits<T>(static_cast<T>(a % b));
    case Op::kMod: {
      if (b == 0 || overflows) return 0;
      const T r = static_cast<T>(a % b);
      return to_bits<T>(r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r);
    }
    case Op::kMin:
      return to_bits<T>(a < b ? a : b);
    case Op::kMax:
      return to_bits<T>(a > b ? a : b);
    case Op::kEq:
      return a == b;
    case Op::kNe:
      return a != b;
    case Op::kLt:
      return a < b;
    case Op::kLe:
      return a <= b;
    case Op::kGt:
      return a > b;
    case Op::kGe:
      return a >= b;
    case Op::kAnd:
      return v[0] & v[1];
    case Op::kOr:
      return v[0] | v[1];
    case Op::kXor:
      return v[0] ^ v[1];
    case Op::kNot:
      return wrap(~v[0]);
    case Op::kShl:
      return v[1] >= kBits ? 0 : wrap(v[0] << v[1]);
    case Op::kShr: {
      if (std::is_signed_v<T>)
        return to_bits<T>(
            static_cast<T>(a >> (v[1] >= kBits ? kBits - 1 : static_cast<int>(v[1]))));
      return v[1] >= kBits ? 0 : v[0] >> v[1];
    }
    default:
      no_operation(op, type);
  }
}

uint64_t apply_bool(Op op, std::span<const uint64_t> v) {
  switch (op) {
    case Op::kMin:
    case Op::kAnd:
      return v[0] & v[1];
    case Op::kMax:
    case Op::kOr:
      return v[0] | v[1];
    case Op::kNe:
    case Op::kXor:
      return v[0] ^ v[1];
    case Op::kEq:
      return v[0] == v[1];
    case Op::kNot:
      return v[0] ^ 1;
    case Op::kLt:
      return v[0] < v[1];
    case Op::kLe:
      return v[0] <= v[1];
    case Op::kGt:
      return v[0] > v[1];
    case Op::kGe:
      return v[0] >= v[1];
    default:
      no_operation(op, DType::kBool);
  }
}

}  // namespace

uint64_t evaluate_op(Op op, DType result, DType operand, std::span<const uint64_t> args) {
  if (op == Op::kSelect) return args[0] != 0 ? args[1] : args.back();
  if (op == Op::kBitcast) return args[0];
  if (op == Op::kCast)
    return dispatch(operand, [&](auto from) {
      return dispatch(result, [&](auto to) {
        return to_bits(convert<decltype(to)>(from_bits<decltype(from)>(args[0])));
      });
    });
  return dispatch(operand, [&](auto type) -> uint64_t {
    using T = decltype(type);
    if constexpr (std::is_floating_point_v<T>)
      return apply_float<T>(op, operand, args);
    else if constexpr (std::is_same_v<T, bool>)
      return apply_bool(op, args);
    else
      return apply_integer<T>(op, operand, args);
  });
}

uint64_t accumulator_identity(AccOp op, DType type) {
  return dispatch(type, [&](auto zero) -> uint64_t {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    constexpr bool kFloat = std::is_floating_point_v<T>;
    switch (op) {
      case AccOp::kSum:
      case AccOp::kDot:
      case AccOp::kDotBf16:
      case AccOp::kDotBf16x3:
        if constexpr (kFloat)
          return to_bits(-T{0});
        else
          return 0;
      case AccOp::kProd:
        return to_bits(T{1});
      case AccOp::kMax:
      case AccOp::kMaxNumber:
      case AccOp::kArgMax:
      case AccOp::kArgMaxLast:
        return to_bits(kFloat ? -Limits::infinity() : Limits::lowest());
      default:
        return to_bits(kFloat ? Limits::infinity() : Limits::max());
    }
  });
}

namespace {

float without_denormals(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

float as_bf16(uint64_t bits) {
  return bf16_to_float(float_to_bf16(without_denormals(from_bits<float>(bits))));
}

// Its lower half rounded off, ties away from 0.
float upper_half(float x) {
  return from_bits<float>((static_cast<uint32_t>(to_bits(x)) + 0x8000U) & 0xffff0000U);
}

// Do the digits of these factors stay above what the units take for 0?
bool has_range(float largest, bool all_zero) {
  return all_zero || largest >= std::ldexp(1.0f, kDotBf16x3Least) || std::isnan(largest);
}

}  // namespace

uint64_t DotBf16::add(uint64_t a, uint64_t b, uint64_t sum) {
  float& side = apart_[terms_ % 2];
  side = without_denormals(std::fma(as_bf16(a), as_bf16(b), side));
  if (++terms_ < kDotBf16Terms) return sum;
  sum = onto(sum);
  *this = {};
  return sum;
}

uint64_t DotBf16::onto(uint64_t sum) const {
  if (terms_ == 0) return sum;
  return to_bits(without_denormals(without_denormals(from_bits<float>(sum)) +
                                   without_denormals(apart_[0] + apart_[1])));
}

void DotBf16x3::Side::add(float x) {
  largest = std::fmax(largest, std::fabs(upper_half(x)));
  all_zero &= x == 0;
}

void DotBf16x3::add(uint64_t a, uint64_t b) {
  const float x = from_bits<float>(a), y = from_bits<float>(b);
  constexpr int kHalf = kDotBf16Terms / 2;
  const auto split = [](float rest) {
    std::array<float, 3> parts{};
    for (size_t i = 0; i < 2; ++i) {
      parts[i] = upper_half(rest);
      rest -= parts[i];
    }
    parts[2] = from_bits<float>(static_cast<uint32_t>(to_bits(rest)) & 0xffff0000U);
    return parts;
  };
  const auto p = split(x), q = split(y);
  constexpr std::array<std::array<size_t, 2>, 6> kOrder{
      {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}};
  const auto half = static_cast<size_t>(terms_ % kDotBf16Terms / kHalf);
  for (size_t i = 0; i < kOrder.size(); ++i) {
    float& side = apart_[i][half];
    side = without_denormals(
        std::fma(without_denormals(p[kOrder[i][0]]), without_denormals(q[kOrder[i][1]]), side));
  }
  exact_ = std::fma(x, y, exact_);
  first_.add(x);
  second_.add(y);
  ++terms_;
  if (terms_ % kDotBf16Terms == 0) end_group();
}

void DotBf16x3::end_group() {
  for (const auto& [low, high] : apart_)
    sum_ = without_denormals(without_denormals(sum_) + without_denormals(low + high));
  apart_ = {};
  fits_ &= has_range(second_.largest, second_.all_zero);
  second_ = {};
}

uint64_t DotBf16x3::result(int64_t rows, int64_t columns) {
  if (terms_ % kDotBf16Terms != 0) end_group();
  const bool fits = fits_ && has_range(first_.largest, first_.all_zero) && std::isfinite(sum_);
  return to_bits(fits && splits_product(rows, columns, terms_) ? sum_ : exact_);
}

uint64_t combine(AccOp op, DType type, uint64_t a, uint64_t b) {
  const uint64_t args[] = {a, b};
  const auto of = [&](Op operation) { return evaluate_op(operation, type, type, args); };
  switch (op) {
    case AccOp::kProd:
      return of(Op::kMul);
    case AccOp::kMax:
      return of(Op::kMax);
    case AccOp::kMin:
      return of(Op::kMin);
    case AccOp::kMaxNumber: {
      const uint64_t turned[] = {b, a};
      return evaluate_op(Op::kGt, DType::kBool, type, turned) != 0 ? b : a;
    }
    default:
      return of(Op::kAdd);
  }
}

bool replaces(AccOp op, DType type, uint64_t value, int64_t index, uint64_t best,
              int64_t best_index) {
  const bool wants_max = op == AccOp::kArgMax || op == AccOp::kArgMaxLast;
  const bool wants_last = op == AccOp::kArgMaxLast || op == AccOp::kArgMinLast;
  // An empty best has index -1: above every index as unsigned, below as signed.
  const bool index_wins = wants_last
                              ? index > best_index
                              : static_cast<uint64_t>(index) < static_cast<uint64_t>(best_index);
  return dispatch(type, [&](auto zero) -> uint64_t {
           using T = decltype(zero);
           const T a = from_bits<T>(value), b = from_bits<T>(best);
           const bool a_nan = a != a, b_nan = b != b;
           if (a_nan && b_nan) return index_wins;
           if (a_nan || b_nan) return a_nan;
           if (a == b) return index_wins;
           return wants_max ? a > b : a < b;
         }) != 0;
}

uint64_t load_element(DType stored, const void* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(element_size(stored)));
  switch (stored) {
    case DType::kF16:
      return to_bits(f16_to_float(static_cast<uint16_t>(bits)));
    case DType::kBF16:
      return to_bits(bf16_to_float(static_cast<uint16_t>(bits)));
    case DType::kBool:
      return bits != 0;
    default:
      return bits;
  }
}

void store_element(DType stored, void* at, uint64_t value) {
  if (stored == DType::kF16) value = float_to_f16(from_bits<float>(value));
  if (stored == DType::kBF16) value = float_to_bf16(from_bits<float>(value));
  std::memcpy(at, &value, static_cast<size_t>(element_size(stored)));
}

}  // namespace xc::loop
