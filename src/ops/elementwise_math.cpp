// The elementwise table: rounding, transcendental functions, activations. Weights are costs
// relative to an addition, in vectorised code. Definitions avoid cancellation where the plain
// formula loses more than a few ULP in f32.

#include "ops/checks.h"
#include "ops/elementwise_table.h"

namespace xc {

using namespace elementwise;

namespace {

using scalar::Real;

void register_rounding(OpList& ops) {
  constexpr unsigned kRound = kReal | kSymbolic | kLoop;
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(row<kRound, kFloats, 1>("Floor", [](auto x, auto&) { return floor(x); }));
  add(row<kRound, kFloats, 1>("Ceil", [](auto x, auto&) { return ceil(x); }));
  add(row<kRound, kFloats, 1>("Round", [](auto x, auto&) { return round(x); }));
  // What QuantizeLinear does first: one function, which needs no division where y is known.
  OpDef quotient = row<kRound, kFloats, 2>("RoundedQuotient",
                                           [](auto x, auto y, auto&) { return round(x / y); }, {4});
  quotient.domain = "xc";
  add(std::move(quotient));
}

void register_functions(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(real_unary("Sqrt", 6, [](auto x, auto&) { return sqrt(x); }));
  add(real_unary("Reciprocal", 4, [](auto x, auto&) { return like(x, 1) / x; }));
  add(real_unary("Exp", 12, [](auto x, auto&) { return exp(x); }));
  // What softmax divides, of numbers that are at most 0: its result is a normal number or 0, since
  // arithmetic on denormal ones, of which masks make many, takes processors many times as long.
  OpDef exp_normal_op = real_unary("ExpNormal", 12, [](auto x, auto&) { return exp_normal(x); });
  exp_normal_op.domain = "xc";
  add(std::move(exp_normal_op));
  add(real_unary("Log", 15, [](auto x, auto&) { return log(x); }));
  add(real_unary("Sin", 15, [](auto x, auto&) { return sin(x); }));
  add(real_unary("Cos", 15, [](auto x, auto&) { return cos(x); }));
  add(real_unary("Tan", 32, [](auto x, auto&) { return sin(x) / cos(x); }));
  add(real_unary("Tanh", 18, [](auto x, auto&) { return tanh(x); }));
  add(real_unary("Erf", 20, [](auto x, auto&) { return erf(x); }));
  // cosh = (h^2 + h^-2) / 2 with h = e^(|x|/2), which overflows no earlier than the result.
  add(real_unary("Cosh", 22, [](auto x, auto&) {
    const auto h = exp(abs(x) * 0.5);
    return (h * 0.5) * h + (0.5 / h) / h;
  }));
  // sinh = tanh(x/2) (cosh x + 1): no cancellation near zero. x itself where x/2 may be denormal.
  add(real_unary("Sinh", 40, [](auto x, auto&) {
    const auto h = exp(abs(x) * 0.5);
    const auto t = tanh(x * 0.5);
    const auto sinh = (t * h * 0.5) * h + t * ((0.5 / h) / h + 1.0);
    return select(lt(abs(x), like(x, 0x1p-28)), x, sinh);
  }));
  add(real_unary_host("Asin", 30, [](auto x, auto&) { return Real{std::asin(x.v)}; }));
  add(real_unary_host("Acos", 30, [](auto x, auto&) { return Real{std::acos(x.v)}; }));
  add(real_unary_host("Atan", 25, [](auto x, auto&) { return Real{std::atan(x.v)}; }));
  add(real_unary_host("Asinh", 30, [](auto x, auto&) { return Real{std::asinh(x.v)}; }));
  add(real_unary_host("Acosh", 30, [](auto x, auto&) { return Real{std::acosh(x.v)}; }));
  add(real_unary_host("Atanh", 30, [](auto x, auto&) { return Real{std::atanh(x.v)}; }));
}

/// e^x - 1 for the negative branch of an activation, 0 for the other.
constexpr auto kNegativeExpm1 = [](auto x) { return expm1(min(x, like(x, 0))); };
constexpr auto kSoftplus = [](auto x) { return max(x, like(x, 0)) + log1p(exp(-abs(x))); };

void register_rectifiers(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(row < kReal | kWhole | kSymbolic | kLoop, kFloats | kSignedInts,
      1 > ("Relu", [](auto x, auto&) { return max(x, like(x, 0)); }));
  add(real_unary("LeakyRelu", 2,
                 [](auto x, auto& p) { return select(lt(x, like(x, 0)), x * p[0], x); },
                 {float_attr("alpha", 0.01f)}));
  add(row < kReal | kWhole | kLoop, kNumbers,
      2 > ("PRelu", [](auto x, auto y, auto&) { return select(lt(x, like(x, 0)), x * y, x); },
           {2}));
  add(real_unary("ThresholdedRelu", 1,
                 [](auto x, auto& p) { return select(gt(x, like(x, p[0])), x, like(x, 0)); },
                 {float_attr("alpha", 1)}));
  add(real_unary(
      "Elu", 20,
      [](auto x, auto& p) { return select(lt(x, like(x, 0)), kNegativeExpm1(x) * p[0], x); },
      {float_attr("alpha", 1)}));
  add(real_unary("Selu", 20,
                 [](auto x, auto& p) {
                   return select(gt(x, like(x, 0)), x * p[1], kNegativeExpm1(x) * p[0] * p[1]);
                 },
                 {float_attr("alpha", 1.67326319217681884765625),
                  float_attr("gamma", 1.05070102214813232421875)}));
  add(real_unary("Celu", 22,
                 [](auto x, auto& p) {
                   // A negative alpha turns the exponent round: no bound for it then.
                   const auto below = p[0] < 0 ? expm1(x / p[0]) : kNegativeExpm1(x / p[0]);
                   return select(lt(x, like(x, 0)), below * p[0], x);
                 },
                 {float_attr("alpha", 1)}));
}

void register_sigmoids(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  add(real_unary("Sigmoid", 15, [](auto x, auto&) { return sigmoid(x); }));
  add(real_unary("HardSigmoid", 3,
                 [](auto x, auto& p) { return max(min(x * p[0] + p[1], like(x, 1)), like(x, 0)); },
                 {float_attr("alpha", 0.2f), float_attr("beta", 0.5)}));
  add(real_unary("HardSwish", 4, [](auto x, auto&) {
    return x * max(min(x * (1.0 / 6) + 0.5, like(x, 1)), like(x, 0));
  }));
  add(real_unary("Softplus", 28, [](auto x, auto&) { return kSoftplus(x); }));
  add(real_unary("Softsign", 6, [](auto x, auto&) { return x / (abs(x) + 1.0); }));
  // x tanh(softplus(x)), with tanh(log(1 + e)) = n / (n + 2), n = e (e + 2), e = exp(x). Beyond x =
  // 20 the factor is 1 in every type.
  add(real_unary("Mish", 20, [](auto x, auto&) {
    const auto e = exp(min(x, like(x, 20)));
    const auto n = e * (e + 2.0);
    return x * (n / (n + 2.0));
  }));
  add(real_unary("Swish", 16, [](auto x, auto& p) { return x * sigmoid(p[0] == 1 ? x : x * p[0]); },
                 {float_attr("alpha", 1)}));
  add(real_unary("Gelu", 24,
                 [](auto x, auto& p) {
                   constexpr double kSqrtHalf = 0.70710678118654752440,
                                    kSqrt2OverPi = 0.79788456080286535588;
                   if (p[0] == 0) return (x * 0.5) * one_plus_erf(x * kSqrtHalf);
                   return (x * 0.5) * (tanh((x + x * x * x * 0.044715) * kSqrt2OverPi) + 1.0);
                 },
                 {choice_attr("approximate", "none|tanh")}));
}

/// A gate and what it lets through have one shape: nothing is broadcast.
void infer_gated(InferContext& c) {
  infer_broadcast(c, kFloats, false, Result::kSame);
  require_dims(c, 1, c.dims(0));
}

void register_gated(OpList& ops) {
  OpDef swiglu = row < kReal | kLoop, kFloats,
        2 > ("SwiGLU",
             [](auto x, auto y, auto& p) { return x * sigmoid(p[0] == 1 ? x : x * p[0]) * y; },
             {17, false, {float_attr("alpha", 1)}});
  swiglu.infer = infer_gated;
  ops.push_back(std::move(swiglu));
}

}  // namespace

void register_elementwise_math(OpList& ops) {
  register_rounding(ops);
  register_functions(ops);
  register_rectifiers(ops);
  register_sigmoids(ops);
  register_gated(ops);
}

}  // namespace xc
