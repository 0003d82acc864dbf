// The elementwise table: arithmetic, comparisons, logic. It continues with transcendental functions
// and activations in elementwise_math.cpp; what has a rule of its own (Cast, Clip, Where) is in
// elementwise_special.cpp. How a row is read: elementwise_table.h.

#include "ops/elementwise_table.h"

namespace xc {

using namespace elementwise;

namespace {

constexpr auto kSum = [](auto a, const Params&) {
  auto out = a[0];
  for (size_t i = 1; i < a.size(); ++i) out = out + a[i];
  return out;
};
constexpr auto kMean = [](auto a, const Params& p) {
  return kSum(a, p) / static_cast<double>(a.size());
};
constexpr auto kMax = [](auto a, const Params&) {
  auto out = a[0];
  for (size_t i = 1; i < a.size(); ++i) out = max(out, a[i]);
  return out;
};
constexpr auto kMin = [](auto a, const Params&) {
  auto out = a[0];
  for (size_t i = 1; i < a.size(); ++i) out = min(out, a[i]);
  return out;
};

/// Does a type hold the exponent as it is?
bool holds_exponent(DType base, const loop::Expr& y) {
  if (elementwise::holds_exponents(base, y.type())) return true;
  return is_const(y) && static_cast<float>(const_as_double(*y)) == const_as_double(*y);
}

/// x to the power y as loop IR, with the dtype of x. Small constant exponents become products,
/// which are exact where a general power is not.
loop::Expr power(const loop::Expr& x, const loop::Expr& y, const Params&) {
  if (!is_float(x.type())) return {};
  const loop::Expr one = like(x, 1);
  if (is_const(y)) {
    const double e = const_as_double(*y);
    if (e == 1) return x;
    if (e == 2) return x * x;
    if (e == 3) return x * x * x;
    if (e == -1) return one / x;
    if (e == 0) return one;
  }
  const DType type = holds_exponent(x.type(), y) ? x.type() : DType::kF64;
  const auto as = [](DType to, const loop::Expr& e) { return e.type() == to ? e : cast(to, e); };
  return as(x.type(), pow(as(type, x), as(type, y)));
}
template <class X>
X power(const X& x, const X& y, const Params&) {
  return pow(x, y);
}

void register_arithmetic(OpList& ops) {
  constexpr unsigned kAll = kReal | kWhole | kSymbolic | kLoop;
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(number_binary("Add", [](auto x, auto y, auto&) { return x + y; }, true));
  add(number_binary("Sub", [](auto x, auto y, auto&) { return x - y; }));
  add(number_binary("Mul", [](auto x, auto y, auto&) { return x * y; }, true));
  add(row<kAll, kNumbers, 2>("Div", [](auto x, auto y, auto&) { return x / y; }, {4}));
  // The sign of the remainder follows the divisor, with fmod = 1 the dividend.
  add(row<kAll, kNumbers, 2>("Mod",
                             [](auto x, auto y, auto& p) {
                               if constexpr (std::is_same_v<decltype(x), loop::Expr>) {
                                 if (is_float(x.type())) return loop::Expr();
                               }
                               return p[0] != 0 ? rem(x, y) : mod(x, y);
                             },
                             {8, false, {int_attr("fmod", 0, 0, 1)}}));
  add(row<kAll, kNumbers, 2, Result::kSame, true>(
      "Pow", [](auto x, auto y, auto& p) { return power(x, y, p); }, {20}));
  add(row<kAll, kNumbers, -1>("Max", kMax, {1, true}));
  add(row<kAll, kNumbers, -1>("Min", kMin, {1, true}));
  add(row < kReal | kLoop, kFloats, -1 > ("Sum", kSum, {1, true}));
  add(row < kReal | kLoop, kFloats, -1 > ("Mean", kMean, {2, true}));
  add(number_unary("Abs", [](auto x, auto&) { return abs(x); }));
  add(row < kAll, kFloats | kSignedInts, 1 > ("Neg", [](auto x, auto&) { return -x; }));
  add(number_unary("Sign", [](auto x, auto&) { return sign(x); }));
}

/// No loop IR for the 8-bit floats.
template <int Arity, class F>
loop::Expr scalar_of_wide(const Node& node, std::span<const loop::Expr> args, DType result) {
  if (!is_float(args[0].type()) || !loop::is_value_type(args[0].type())) return {};
  return scalar_of<Arity, F>(node, args, result);
}

template <class F>
OpDef classification(std::string_view name, F f, Options options = {}) {
  OpDef op = row < kReal | kLoop, kFloats | kFloat8s, 1, Result::kBool > (name, f, options);
  op.scalar = scalar_of_wide<1, F>;
  return op;
}

void register_classes(OpList& ops) {
  ops.push_back(classification("IsNaN", [](auto x, auto&) { return is_nan(x); }));
  ops.push_back(classification(
      "IsInf",
      [](auto x, auto& p) {
        const auto inf = is_inf(x);
        const auto zero = like(x, 0);
        if (p[0] != 0 && p[1] != 0) return inf;
        if (p[0] != 0) return bit_and(inf, lt(x, zero));
        if (p[1] != 0) return bit_and(inf, gt(x, zero));
        return bit_and(inf, is_nan(x));  // neither: false
      },
      {1, false, {int_attr("detect_negative", 1, 0, 1), int_attr("detect_positive", 1, 0, 1)}}));
}

void register_comparisons(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(comparison("Greater", [](auto x, auto y, auto&) { return gt(x, y); }));
  add(comparison("Less", [](auto x, auto y, auto&) { return lt(x, y); }));
  add(comparison("GreaterOrEqual", [](auto x, auto y, auto&) { return ge(x, y); }));
  add(comparison("LessOrEqual", [](auto x, auto y, auto&) { return le(x, y); }));
  register_classes(ops);
}

void register_logic(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(logic("And", [](auto x, auto y, auto&) { return bit_and(x, y); }));
  add(logic("Or", [](auto x, auto y, auto&) { return bit_or(x, y); }));
  add(logic("Xor", [](auto x, auto y, auto&) { return bit_xor(x, y); }));
  add(row < kTruth | kSymbolic | kLoop, kBools,
      1 > ("Not", [](auto x, auto&) { return bit_not(x); }));
  add(bitwise("BitwiseAnd", [](auto x, auto y, auto&) { return bit_and(x, y); }));
  add(bitwise("BitwiseOr", [](auto x, auto y, auto&) { return bit_or(x, y); }));
  add(bitwise("BitwiseXor", [](auto x, auto y, auto&) { return bit_xor(x, y); }));
  add(row < kWhole | kLoop, kInts, 1 > ("BitwiseNot", [](auto x, auto&) { return bit_not(x); }));
  // By the width or more, or by a negative amount: all bits go; right shifts keep the sign.
  AttrSpec direction = choice_attr("direction", "LEFT|RIGHT");
  direction.required = true;
  add(row < kWhole | kLoop, kInts,
      2 > ("BitShift", [](auto x, auto y, auto& p) { return p[0] == 0 ? shl(x, y) : shr(x, y); },
           {1, false, {direction}}));
}

}  // namespace

void register_elementwise(OpList& ops) {
  register_arithmetic(ops);
  register_comparisons(ops);
  register_logic(ops);
}

}  // namespace xc
