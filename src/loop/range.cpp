#include "loop/range.h"

#include <algorithm>
#include <cmath>

namespace xc::loop {
namespace {

bool same(const Expr& a, const Expr& b) {
  return a.get() == b.get() || (a->op == Op::kReg && b->op == Op::kReg && a->id == b->id);
}

/// Rounded as the operation rounds, which keeps the order; nothing where a bound is infinite.
KnownRange rounded(DType type, double low, double high, bool number) {
  if (type == DType::kF32) {
    low = static_cast<float>(low);
    high = static_cast<float>(high);
  }
  if (!number || !std::isfinite(low) || !std::isfinite(high)) return {};
  return {low, high, true};
}

KnownRange product(DType type, const KnownRange& a, const KnownRange& b) {
  const auto [low, high] =
      std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  const bool finite = std::isfinite(a.low) && std::isfinite(a.high) && std::isfinite(b.low) &&
                      std::isfinite(b.high);
  return finite ? rounded(type, low, high, a.number && b.number) : KnownRange{};
}

}  // namespace

KnownRange known_range(DType type) {
  const int bits = 8 * static_cast<int>(element_size(type));
  return {is_signed(type) ? -std::ldexp(1, bits - 1) : 0,
          std::ldexp(1, is_signed(type) ? bits - 1 : bits) - 1, true};
}

KnownRange known_range(const Expr& e, const std::function<KnownRange(uint32_t)>& reg, int depth) {
  if (depth == 0 || !is_float(e.type())) return {};
  const auto arg = [&](size_t k) { return known_range(e->args[k], reg, depth - 1); };
  switch (e->op) {
    case Op::kConst: {
      const double v = const_as_double(*e);
      return v == v ? KnownRange{v, v, true} : KnownRange{};
    }
    case Op::kReg:
      return reg ? reg(e->id) : KnownRange{};
    case Op::kCast: {
      const DType from = e->args[0].type();
      return is_integer(from) && element_size(from) <= 2 ? known_range(from) : KnownRange{};
    }
    case Op::kAdd: {
      const KnownRange a = arg(0), b = arg(1);
      return rounded(e.type(), a.low + b.low, a.high + b.high, a.number && b.number);
    }
    case Op::kSub: {
      const KnownRange a = arg(0), b = arg(1);
      return rounded(e.type(), a.low - b.high, a.high - b.low, a.number && b.number);
    }
    case Op::kMul:
      return product(e.type(), arg(0), arg(1));
    case Op::kMin: {
      const KnownRange a = arg(0), b = arg(1);
      return {std::min(a.low, b.low), std::min(a.high, b.high), a.number && b.number};
    }
    case Op::kMax: {
      const KnownRange a = arg(0), b = arg(1);
      return {std::max(a.low, b.low), std::max(a.high, b.high), a.number && b.number};
    }
    case Op::kSelect: {
      // v > least ? v : least, which NaN makes `least`.
      const Expr &condition = e->args[0], &value = e->args[1], &least = e->args[2];
      if (condition->op != Op::kGt || !is_const(least) || !same(condition->args[0], value) ||
          !is_const(condition->args[1]) ||
          const_as_double(*condition->args[1]) != const_as_double(*least))
        return {};
      const double low = const_as_double(*least);
      return {low, std::max(arg(1).high, low), true};
    }
    default:
      return {};
  }
}

}  // namespace xc::loop
