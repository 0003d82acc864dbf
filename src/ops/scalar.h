// Scalar types over which the elementwise table's definitions are instantiated, with the vocabulary
// of loop/expr.h, so that one generic lambda is the reference, the loop IR and the shape
// arithmetic:
//
//   Real    a double: floats of any width are computed in it and rounded once
//   Int     int64, UInt uint64: integers of any width, wrapping (the store keeps the low bits)
//   Truth   a bool
//   Sym     a symbolic number (Dim) or "not known"; also holds truths as 0 and 1
//   loop::Expr
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "loop/expr.h"
#include "loop/math.h"
#include "tensor/dim.h"

namespace xc::scalar {

struct Truth {
  bool v;
};
inline Truth bit_and(Truth a, Truth b) {
  return {a.v && b.v};
}
inline Truth bit_or(Truth a, Truth b) {
  return {a.v || b.v};
}
inline Truth bit_xor(Truth a, Truth b) {
  return {a.v != b.v};
}
inline Truth bit_not(Truth a) {
  return {!a.v};
}
inline Truth eq(Truth a, Truth b) {
  return {a.v == b.v};
}
template <class X>
X select(Truth c, X a, X b) {
  return c.v ? a : b;
}

struct Real {
  double v;
};
inline Real like(Real, double v) {
  return {v};
}
inline Real operator+(Real a, Real b) {
  return {a.v + b.v};
}
inline Real operator-(Real a, Real b) {
  return {a.v - b.v};
}
inline Real operator*(Real a, Real b) {
  return {a.v * b.v};
}
inline Real operator/(Real a, Real b) {
  return {a.v / b.v};
}
inline Real operator-(Real a) {
  return {-a.v};
}
inline Real operator+(Real a, double b) {
  return {a.v + b};
}
inline Real operator-(Real a, double b) {
  return {a.v - b};
}
inline Real operator*(Real a, double b) {
  return {a.v * b};
}
inline Real operator/(Real a, double b) {
  return {a.v / b};
}
inline Real operator+(double a, Real b) {
  return {a + b.v};
}
inline Real operator-(double a, Real b) {
  return {a - b.v};
}
inline Real operator*(double a, Real b) {
  return {a * b.v};
}
inline Real operator/(double a, Real b) {
  return {a / b.v};
}
inline Real max(Real a, Real b) {
  return std::isnan(a.v) || a.v > b.v ? a : b;
}
inline Real min(Real a, Real b) {
  return std::isnan(a.v) || a.v < b.v ? a : b;
}
inline Real abs(Real a) {
  return {std::fabs(a.v)};
}
inline Real sign(Real a) {
  return std::isnan(a.v) ? a : Real{double(a.v > 0) - double(a.v < 0)};
}
inline Real floor(Real a) {
  return {std::floor(a.v)};
}
inline Real ceil(Real a) {
  return {std::ceil(a.v)};
}
inline Real round(Real a) {
  return {std::nearbyint(a.v)};
}
inline Real trunc(Real a) {
  return {std::trunc(a.v)};
}
inline Real sqrt(Real a) {
  return {std::sqrt(a.v)};
}
inline Real exp(Real a) {
  return {std::exp(a.v)};
}
inline Real log(Real a) {
  return {std::log(a.v)};
}
inline Real log1p(Real a) {
  return {std::log1p(a.v)};
}
inline Real exp_normal(Real a) {
  return {a.v < loop::least_normal_power(DType::kF64) ? 0 : std::exp(a.v)};
}
inline Real expm1(Real a) {
  return {std::expm1(a.v)};
}
inline Real tanh(Real a) {
  return {std::tanh(a.v)};
}
inline Real erf(Real a) {
  return {std::erf(a.v)};
}
inline Real one_plus_erf(Real a) {
  return {std::erfc(-a.v)};
}
inline Real sigmoid(Real a) {
  return {1 / (1 + std::exp(-a.v))};
}
inline Real sin(Real a) {
  return {std::sin(a.v)};
}
inline Real cos(Real a) {
  return {std::cos(a.v)};
}
inline Real pow(Real a, Real b) {
  return {std::pow(a.v, b.v)};
}
inline Real mod(Real a, Real b) {
  const double r = std::fmod(a.v, b.v);
  if (r == 0) return {std::copysign(r, b.v)};
  return {(r < 0) != (b.v < 0) ? r + b.v : r};
}
inline Real rem(Real a, Real b) {
  return {std::fmod(a.v, b.v)};
}
inline Truth is_nan(Real a) {
  return {std::isnan(a.v)};
}
inline Truth is_inf(Real a) {
  return {std::isinf(a.v)};
}
inline Truth eq(Real a, Real b) {
  return {a.v == b.v};
}
inline Truth lt(Real a, Real b) {
  return {a.v < b.v};
}
inline Truth le(Real a, Real b) {
  return {a.v <= b.v};
}
inline Truth gt(Real a, Real b) {
  return {a.v > b.v};
}
inline Truth ge(Real a, Real b) {
  return {a.v >= b.v};
}

/// Integers of storage T, arithmetic modulo 2^64.
template <class T>
struct Integer {
  T v;
  static constexpr bool kSigned = std::is_signed_v<T>;
  static Integer wrap(uint64_t bits) { return {static_cast<T>(bits)}; }
  uint64_t bits() const { return static_cast<uint64_t>(v); }

  friend Integer operator+(Integer a, Integer b) { return wrap(a.bits() + b.bits()); }
  friend Integer operator-(Integer a, Integer b) { return wrap(a.bits() - b.bits()); }
  friend Integer operator*(Integer a, Integer b) { return wrap(a.bits() * b.bits()); }
  friend Integer operator-(Integer a) { return wrap(0 - a.bits()); }
  friend Integer operator/(Integer a, Integer b) {
    if (b.v == 0) return {0};
    if (kSigned && b.bits() == ~uint64_t{0}) return -a;
    return {static_cast<T>(a.v / b.v)};
  }
  friend Integer rem(Integer a, Integer b) {
    if (b.v == 0 || (kSigned && b.bits() == ~uint64_t{0})) return {0};
    return {static_cast<T>(a.v % b.v)};
  }
  friend Integer mod(Integer a, Integer b) {
    const Integer r = rem(a, b);
    return r.v != 0 && (r.v < 0) != (b.v < 0) ? r + b : r;
  }
  friend Integer like(Integer, double v) { return {static_cast<T>(v)}; }
  friend Integer max(Integer a, Integer b) { return a.v > b.v ? a : b; }
  friend Integer min(Integer a, Integer b) { return a.v < b.v ? a : b; }
  friend Integer abs(Integer a) { return a.v < 0 ? -a : a; }
  friend Integer sign(Integer a) { return {static_cast<T>((a.v > 0) - (a.v < 0))}; }
  friend Integer bit_and(Integer a, Integer b) { return wrap(a.bits() & b.bits()); }
  friend Integer bit_or(Integer a, Integer b) { return wrap(a.bits() | b.bits()); }
  friend Integer bit_xor(Integer a, Integer b) { return wrap(a.bits() ^ b.bits()); }
  friend Integer bit_not(Integer a) { return wrap(~a.bits()); }
  friend Integer shl(Integer a, Integer b) {
    return wrap(b.bits() < 64 ? a.bits() << b.bits() : 0);
  }
  friend Integer shr(Integer a, Integer b) {
    if (b.bits() >= 64) return {static_cast<T>(a.v < 0 ? -1 : 0)};
    return {static_cast<T>(a.v >> b.bits())};
  }
  /// Truncated towards zero where the exponent is negative.
  friend Integer pow(Integer a, Integer b) {
    if (b.v < 0) {
      if (a.v == 1) return a;
      if (kSigned && a.bits() == ~uint64_t{0}) return b.bits() & 1 ? a : -a;
      return {0};
    }
    Integer out{1};
    for (uint64_t e = b.bits(); e != 0; e >>= 1, a = a * a)
      if (e & 1) out = out * a;
    return out;
  }
  friend Truth eq(Integer a, Integer b) { return {a.v == b.v}; }
  friend Truth lt(Integer a, Integer b) { return {a.v < b.v}; }
  friend Truth le(Integer a, Integer b) { return {a.v <= b.v}; }
  friend Truth gt(Integer a, Integer b) { return {a.v > b.v}; }
  friend Truth ge(Integer a, Integer b) { return {a.v >= b.v}; }
};
using Int = Integer<int64_t>;
using UInt = Integer<uint64_t>;

/// A number of shape arithmetic; nullopt = not known. `real` marks an element of a float tensor,
/// where only exact operations are followed.
struct Sym {
  std::optional<Dim> v;
  bool real = false;
};
inline Sym unknown(const Sym& like) {
  return {std::nullopt, like.real};
}
template <class F>
Sym map(const Sym& a, const Sym& b, F&& f) {
  return a.v && b.v ? Sym{f(*a.v, *b.v), a.real} : unknown(a);
}
inline Sym like(const Sym& x, double v) {
  return {Dim(static_cast<int64_t>(v)), x.real};
}
inline Sym operator+(const Sym& a, const Sym& b) {
  return map(a, b, [](const Dim& x, const Dim& y) { return x + y; });
}
inline Sym operator-(const Sym& a, const Sym& b) {
  return map(a, b, [](const Dim& x, const Dim& y) { return x - y; });
}
inline bool at_least(const Sym& a, int64_t low) {
  const auto bound = a.v ? a.v->lower_bound() : std::nullopt;
  return bound && *bound >= low;
}
inline bool at_most(const Sym& a, int64_t high) {
  const auto bound = a.v ? a.v->upper_bound() : std::nullopt;
  return bound && *bound <= high;
}
inline bool is_not_zero(const Sym& a) {
  return at_least(a, 1) || at_most(a, -1);
}
/// A zero times a negative number is -0 in floats, which is no whole number.
inline Sym operator*(const Sym& a, const Sym& b) {
  const auto sign_stays = [](const Sym& x, const Sym& y) {
    return is_not_zero(x) || at_least(y, 0);
  };
  if (a.real && !(sign_stays(a, b) && sign_stays(b, a))) return unknown(a);
  return map(a, b, [](const Dim& x, const Dim& y) { return x * y; });
}
inline Sym operator-(const Sym& a) {
  if (a.real && !is_not_zero(a)) return unknown(a);
  return like(a, 0) - a;
}
/// Rounds down; integer division truncates, which is the same for non-negative operands.
inline Sym operator/(const Sym& a, const Sym& b) {
  if (!a.v || !b.v) return unknown(a);
  if (a.v->is_constant() && b.v->is_constant() && *b.v != Dim(0) && !a.real) {
    // The one quotient that overflows, which the processor answers with a trap.
    if (a.v->value() == INT64_MIN && b.v->value() == -1) return unknown(a);
    return {Dim(a.v->value() / b.v->value()), false};
  }
  // A divisor that is only known to be a size is zero in no run that gets here.
  if (b.v->is_constant() ? !at_least(b, 1) : !at_least(b, 0)) return unknown(a);
  if (a.real && modulo(*a.v, *b.v) != Dim(0)) return unknown(a);
  if (!a.real && !at_least(a, 0)) return unknown(a);
  return {floor_div(*a.v, *b.v), a.real};
}
inline Sym mod(const Sym& a, const Sym& b) {
  if (!a.v || !b.v || !at_least(b, 0)) return unknown(a);
  return {modulo(*a.v, *b.v), a.real};
}
inline Sym rem(const Sym& a, const Sym& b) {
  return at_least(a, 0) ? mod(a, b) : unknown(a);
}
inline Sym max(const Sym& a, const Sym& b) {
  return map(a, b, [](const Dim& x, const Dim& y) { return xc::max(x, y); });
}
inline Sym min(const Sym& a, const Sym& b) {
  return map(a, b, [](const Dim& x, const Dim& y) { return xc::min(x, y); });
}
inline Sym abs(const Sym& a) {
  return at_least(a, 0) ? a : max(a, like(a, 0) - a);
}
inline Sym sign(const Sym& a) {
  if (at_least(a, 1)) return like(a, 1);
  return a.v ? Sym{xc::max(Dim(-1), xc::min(Dim(1), *a.v)), a.real} : a;
}
inline Sym floor(const Sym& a) {
  return a;
}
inline Sym ceil(const Sym& a) {
  return a;
}
inline Sym round(const Sym& a) {
  return a;
}
inline Sym trunc(const Sym& a) {
  return a;
}
/// The sign of a - b where it is the same for all values of the symbols.
inline std::optional<int> compare(const Sym& a, const Sym& b) {
  if (!a.v || !b.v) return std::nullopt;
  if (*a.v == *b.v) return 0;
  const Dim d = *a.v - *b.v;
  if (const auto low = d.lower_bound(); low && *low > 0) return 1;
  if (const auto high = d.upper_bound(); high && *high < 0) return -1;
  return std::nullopt;
}
inline Sym truth(std::optional<bool> v) {
  return {v ? std::optional<Dim>(Dim(*v)) : std::nullopt};
}
/// 1 - a, of a truth.
inline Sym bit_not(const Sym& a) {
  return like(a, 1) - a;
}
inline Sym lt(const Sym& a, const Sym& b) {
  if (!a.v || !b.v) return truth({});
  if (const auto c = compare(a, b)) return truth(*c < 0);
  // Sizes or elements of inputs decide it: a number that is 0 or 1. Elements may be any number, the
  // difference of two need not be one: what stands beside a constant is cut to its neighbourhood.
  const auto x = a.v->constant(), y = b.v->constant();
  if (y) return {Dim(*y) - xc::max(xc::min(*a.v, *b.v), Dim(*y) - Dim(1))};
  if (x) return {xc::max(xc::min(*b.v, Dim(*x) + Dim(1)), *a.v) - Dim(*x)};
  if (!a.v->of_sizes() || !b.v->of_sizes()) return truth({});
  return {xc::max(Dim(0), xc::min(Dim(1), *b.v - *a.v))};
}
inline Sym eq(const Sym& a, const Sym& b) {
  if (const auto c = compare(a, b)) return truth(*c == 0);
  const Sym less = lt(a, b), greater = lt(b, a);
  if (!less.v || !greater.v) return truth({});
  return {xc::min(Dim(1) - *less.v, Dim(1) - *greater.v)};
}
inline Sym gt(const Sym& a, const Sym& b) {
  return lt(b, a);
}
inline Sym le(const Sym& a, const Sym& b) {
  if (a.v && b.v)
    if (const auto high = (*a.v - *b.v).upper_bound(); high && *high <= 0) return truth(true);
  const Sym greater = lt(b, a);
  return greater.v ? bit_not(greater) : greater;
}
inline Sym ge(const Sym& a, const Sym& b) {
  return le(b, a);
}
/// Logic on truths (0 or 1).
inline Sym bit_and(const Sym& a, const Sym& b) {
  return min(a, b);
}
inline Sym bit_or(const Sym& a, const Sym& b) {
  return max(a, b);
}
inline Sym bit_xor(const Sym& a, const Sym& b) {
  return map(a, b,
             [](const Dim& x, const Dim& y) { return xc::max(Dim(0), xc::max(x - y, y - x)); });
}
inline Sym pow(const Sym& a, const Sym& b) {
  if (!a.v || !b.v || !b.v->is_constant() || b.v->value() < 0 || b.v->value() > 4)
    return unknown(a);
  Sym out = like(a, 1);
  for (int64_t k = 0; k < b.v->value(); ++k) out = out * a;
  return out;
}
inline Sym select(const Sym& c, const Sym& a, const Sym& b) {
  if (a.v && b.v && *a.v == *b.v) return a;
  if (!c.v || !c.v->is_constant()) return unknown(a);
  return c.v->value() != 0 ? a : b;
}

}  // namespace xc::scalar

namespace xc::loop {

/// A constant of the type of `x`.
inline Expr like(const Expr& x, double v) {
  return constant(x.type(), v);
}
inline Expr one_plus_erf(const Expr& a) {
  return make_unary(Op::kOnePlusErf, a);
}

}  // namespace xc::loop
