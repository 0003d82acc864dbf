#include "loop/expr.h"

#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "loop/typing.h"

namespace xc::loop {

namespace {

constexpr std::array kOps = {
    OpInfo{Op::kConst, "const", nullptr, 0},
    OpInfo{Op::kLoad, "load", nullptr, 0},
    OpInfo{Op::kReg, "reg", nullptr, 0},
    OpInfo{Op::kAccValue, "value", nullptr, 0},
    OpInfo{Op::kAccIndex, "index", nullptr, 0},
    OpInfo{Op::kLoopVar, "var", nullptr, 0},
    OpInfo{Op::kDim, "dim", nullptr, 0},
    OpInfo{Op::kAdd, "add", "+", 2},
    OpInfo{Op::kSub, "sub", "-", 2},
    OpInfo{Op::kMul, "mul", "*", 2},
    OpInfo{Op::kDiv, "div", "/", 2},
    OpInfo{Op::kMod, "mod", nullptr, 2},
    OpInfo{Op::kRem, "rem", nullptr, 2},
    OpInfo{Op::kNeg, "neg", nullptr, 1},
    OpInfo{Op::kAbs, "abs", nullptr, 1},
    OpInfo{Op::kMin, "min", nullptr, 2},
    OpInfo{Op::kMax, "max", nullptr, 2},
    OpInfo{Op::kSign, "sign", nullptr, 1},
    OpInfo{Op::kFma, "fma", nullptr, 3},
    OpInfo{Op::kFloor, "floor", nullptr, 1},
    OpInfo{Op::kCeil, "ceil", nullptr, 1},
    OpInfo{Op::kRound, "round", nullptr, 1},
    OpInfo{Op::kTrunc, "trunc", nullptr, 1},
    OpInfo{Op::kSqrt, "sqrt", nullptr, 1},
    OpInfo{Op::kScale, "scale", nullptr, 2},
    OpInfo{Op::kIsNan, "is_nan", nullptr, 1},
    OpInfo{Op::kIsInf, "is_inf", nullptr, 1},
    OpInfo{Op::kRoundF16, "round_f16", nullptr, 1},
    OpInfo{Op::kRoundBf16, "round_bf16", nullptr, 1},
    OpInfo{Op::kRsqrt, "rsqrt", nullptr, 1},
    OpInfo{Op::kReciprocal, "reciprocal", nullptr, 1},
    OpInfo{Op::kExp, "exp", nullptr, 1},
    OpInfo{Op::kExpNormal, "exp_normal", nullptr, 1},
    OpInfo{Op::kExp2, "exp2", nullptr, 1},
    OpInfo{Op::kExpm1, "expm1", nullptr, 1},
    OpInfo{Op::kLog, "log", nullptr, 1},
    OpInfo{Op::kLog1p, "log1p", nullptr, 1},
    OpInfo{Op::kTanh, "tanh", nullptr, 1},
    OpInfo{Op::kErf, "erf", nullptr, 1},
    OpInfo{Op::kSigmoid, "sigmoid", nullptr, 1},
    OpInfo{Op::kOnePlusTanh, "one_plus_tanh", nullptr, 1},
    OpInfo{Op::kOnePlusErf, "one_plus_erf", nullptr, 1},
    OpInfo{Op::kSin, "sin", nullptr, 1},
    OpInfo{Op::kCos, "cos", nullptr, 1},
    OpInfo{Op::kPow, "pow", nullptr, 2},
    OpInfo{Op::kEq, "eq", "==", 2},
    OpInfo{Op::kNe, "ne", "!=", 2},
    OpInfo{Op::kLt, "lt", "<", 2},
    OpInfo{Op::kLe, "le", "<=", 2},
    OpInfo{Op::kGt, "gt", ">", 2},
    OpInfo{Op::kGe, "ge", ">=", 2},
    OpInfo{Op::kAnd, "and", "&", 2},
    OpInfo{Op::kOr, "or", "|", 2},
    OpInfo{Op::kXor, "xor", "^", 2},
    OpInfo{Op::kNot, "not", nullptr, 1},
    OpInfo{Op::kShl, "shl", "<<", 2},
    OpInfo{Op::kShr, "shr", ">>", 2},
    OpInfo{Op::kSelect, "select", nullptr, 3},
    OpInfo{Op::kCast, "cast", nullptr, 1},
    OpInfo{Op::kBitcast, "bitcast", nullptr, 1},
};

Expr make(Node node) {
  const std::string problem = type_problem(node);
  if (!problem.empty()) fail(Status::kInvalidArgument, "loop expression: {}", problem);
  return Expr(std::make_shared<const Node>(std::move(node)));
}

Expr make_op(Op op, std::vector<Expr> args) {
  for (const Expr& arg : args)
    if (!arg)
      fail(Status::kInvalidArgument, "loop expression: an operand of {} is absent",
           op_info(op).name);
  Node node{.op = op, .type = DType::kUndefined};
  node.args = std::move(args);
  node.type = result_type(node);
  return make(std::move(node));
}

uint64_t width_mask(DType type) {
  const int bits = type == DType::kBool ? 1 : info(type).bits;
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

}  // namespace

const OpInfo& op_info(Op op) {
  return kOps[static_cast<size_t>(op)];
}

bool is_math(Op op) {
  return op >= Op::kRsqrt && op <= Op::kPow;
}

DType value_type(DType stored) {
  return stored == DType::kF16 || stored == DType::kBF16 ? DType::kF32 : stored;
}

bool is_value_type(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBool ||
         (type >= DType::kI8 && type <= DType::kU64);
}

Expr::Expr(DimParam dim) : Expr(dim_value(dim)) {}

DType Expr::type() const {
  return node_->type;
}

Expr constant_bits(DType type, uint64_t bits) {
  Node node{.op = Op::kConst, .type = type};
  node.bits = bits & width_mask(type);
  return make(std::move(node));
}

Expr constant_int(DType type, int64_t value) {
  if (type == DType::kBool) return constant_bits(type, value != 0 ? 1 : 0);
  if (is_float(type)) return constant(type, static_cast<double>(value));
  return constant_bits(type, static_cast<uint64_t>(value));
}

Expr constant(DType type, double value) {
  if (type == DType::kF32)
    return constant_bits(type, std::bit_cast<uint32_t>(static_cast<float>(value)));
  if (type == DType::kF64) return constant_bits(type, std::bit_cast<uint64_t>(value));
  if (type == DType::kBool) return constant_bits(type, value != 0 ? 1 : 0);
  if (std::isnan(value)) return constant_bits(type, 0);
  const int bits = info(type).bits;
  if (is_signed(type)) {
    const double low = -std::ldexp(1.0, bits - 1), high = std::ldexp(1.0, bits - 1);
    if (value <= low) return constant_bits(type, uint64_t{1} << (bits - 1));
    if (value >= high) return constant_bits(type, (uint64_t{1} << (bits - 1)) - 1);
    return constant_bits(type, static_cast<uint64_t>(static_cast<int64_t>(value)));
  }
  if (value <= 0) return constant_bits(type, 0);
  if (value >= std::ldexp(1.0, bits)) return constant_bits(type, ~uint64_t{0});
  return constant_bits(type, static_cast<uint64_t>(value));
}

Expr boolean(bool v) {
  return constant_bits(DType::kBool, v ? 1 : 0);
}

Expr loop_var(Var var) {
  Node node{.op = Op::kLoopVar, .type = DType::kI64};
  node.id = var.id;
  return make(std::move(node));
}

Expr dim_value(DimParam dim) {
  Node node{.op = Op::kDim, .type = DType::kI64};
  node.id = dim.id;
  return make(std::move(node));
}

Expr affine_value(const Affine& affine) {
  Expr sum;
  for (const Affine::Term& term : affine.terms()) {
    Expr part = term.is_dim ? dim_value(DimParam{term.id}) : loop_var(Var{term.id});
    if (term.coefficient != 1) part = part * i64(term.coefficient);
    sum = sum ? sum + part : part;
  }
  if (!sum) return i64(affine.constant());
  return affine.constant() == 0 ? sum : sum + i64(affine.constant());
}

Expr make_unary(Op op, Expr a) {
  return make_op(op, {std::move(a)});
}
Expr make_binary(Op op, Expr a, Expr b) {
  return make_op(op, {std::move(a), std::move(b)});
}

Expr make_node(Op op, DType type, std::vector<Expr> args) {
  Node node{.op = op, .type = type};
  node.args = std::move(args);
  return Expr(std::make_shared<const Node>(std::move(node)));
}

Expr with_args(const Expr& e, std::vector<Expr> args) {
  Node node = *e;
  node.args = std::move(args);
  return Expr(std::make_shared<const Node>(std::move(node)));
}

Expr operator+(Expr a, Expr b) {
  return make_binary(Op::kAdd, std::move(a), std::move(b));
}
Expr operator-(Expr a, Expr b) {
  return make_binary(Op::kSub, std::move(a), std::move(b));
}
Expr operator*(Expr a, Expr b) {
  return make_binary(Op::kMul, std::move(a), std::move(b));
}
Expr operator/(Expr a, Expr b) {
  return make_binary(Op::kDiv, std::move(a), std::move(b));
}
Expr operator-(Expr a) {
  return make_unary(Op::kNeg, std::move(a));
}
Expr operator+(Expr a, double b) {
  return a + constant(a.type(), b);
}
Expr operator-(Expr a, double b) {
  return a - constant(a.type(), b);
}
Expr operator*(Expr a, double b) {
  return a * constant(a.type(), b);
}
Expr operator/(Expr a, double b) {
  return a / constant(a.type(), b);
}
Expr operator+(double a, Expr b) {
  return constant(b.type(), a) + b;
}
Expr operator-(double a, Expr b) {
  return constant(b.type(), a) - b;
}
Expr operator*(double a, Expr b) {
  return constant(b.type(), a) * b;
}
Expr operator/(double a, Expr b) {
  return constant(b.type(), a) / b;
}

Expr mod(Expr a, Expr b) {
  return make_binary(Op::kMod, std::move(a), std::move(b));
}
Expr rem(Expr a, Expr b) {
  return make_binary(Op::kRem, std::move(a), std::move(b));
}
Expr abs(Expr a) {
  return make_unary(Op::kAbs, std::move(a));
}
Expr min(Expr a, Expr b) {
  return make_binary(Op::kMin, std::move(a), std::move(b));
}
Expr max(Expr a, Expr b) {
  return make_binary(Op::kMax, std::move(a), std::move(b));
}
Expr sign(Expr a) {
  return make_unary(Op::kSign, std::move(a));
}
Expr fma(Expr a, Expr b, Expr c) {
  return make_op(Op::kFma, {std::move(a), std::move(b), std::move(c)});
}
Expr floor(Expr a) {
  return make_unary(Op::kFloor, std::move(a));
}
Expr ceil(Expr a) {
  return make_unary(Op::kCeil, std::move(a));
}
Expr round(Expr a) {
  return make_unary(Op::kRound, std::move(a));
}
Expr trunc(Expr a) {
  return make_unary(Op::kTrunc, std::move(a));
}
Expr sqrt(Expr a) {
  return make_unary(Op::kSqrt, std::move(a));
}
Expr scale(Expr a, Expr k) {
  return make_binary(Op::kScale, std::move(a), std::move(k));
}
Expr is_nan(Expr a) {
  return make_unary(Op::kIsNan, std::move(a));
}
Expr is_inf(Expr a) {
  return make_unary(Op::kIsInf, std::move(a));
}
Expr round_f16(Expr a) {
  return make_unary(Op::kRoundF16, std::move(a));
}
Expr round_bf16(Expr a) {
  return make_unary(Op::kRoundBf16, std::move(a));
}
Expr rsqrt(Expr a) {
  return make_unary(Op::kRsqrt, std::move(a));
}
Expr reciprocal(Expr a) {
  return make_unary(Op::kReciprocal, std::move(a));
}
Expr exp(Expr a) {
  return make_unary(Op::kExp, std::move(a));
}
Expr exp_normal(Expr a) {
  return make_unary(Op::kExpNormal, std::move(a));
}
Expr exp2(Expr a) {
  return make_unary(Op::kExp2, std::move(a));
}
Expr expm1(Expr a) {
  return make_unary(Op::kExpm1, std::move(a));
}
Expr log(Expr a) {
  return make_unary(Op::kLog, std::move(a));
}
Expr log1p(Expr a) {
  return make_unary(Op::kLog1p, std::move(a));
}
Expr tanh(Expr a) {
  return make_unary(Op::kTanh, std::move(a));
}
Expr erf(Expr a) {
  return make_unary(Op::kErf, std::move(a));
}
Expr sigmoid(Expr a) {
  return make_unary(Op::kSigmoid, std::move(a));
}
Expr sin(Expr a) {
  return make_unary(Op::kSin, std::move(a));
}
Expr cos(Expr a) {
  return make_unary(Op::kCos, std::move(a));
}
Expr pow(Expr a, Expr b) {
  return make_binary(Op::kPow, std::move(a), std::move(b));
}
Expr eq(Expr a, Expr b) {
  return make_binary(Op::kEq, std::move(a), std::move(b));
}
Expr ne(Expr a, Expr b) {
  return make_binary(Op::kNe, std::move(a), std::move(b));
}
Expr lt(Expr a, Expr b) {
  return make_binary(Op::kLt, std::move(a), std::move(b));
}
Expr le(Expr a, Expr b) {
  return make_binary(Op::kLe, std::move(a), std::move(b));
}
Expr gt(Expr a, Expr b) {
  return make_binary(Op::kGt, std::move(a), std::move(b));
}
Expr ge(Expr a, Expr b) {
  return make_binary(Op::kGe, std::move(a), std::move(b));
}
Expr bit_and(Expr a, Expr b) {
  return make_binary(Op::kAnd, std::move(a), std::move(b));
}
Expr bit_or(Expr a, Expr b) {
  return make_binary(Op::kOr, std::move(a), std::move(b));
}
Expr bit_xor(Expr a, Expr b) {
  return make_binary(Op::kXor, std::move(a), std::move(b));
}
Expr bit_not(Expr a) {
  return make_unary(Op::kNot, std::move(a));
}
Expr shl(Expr a, Expr b) {
  return make_binary(Op::kShl, std::move(a), std::move(b));
}
Expr shr(Expr a, Expr b) {
  return make_binary(Op::kShr, std::move(a), std::move(b));
}
Expr select(Expr condition, Expr if_true, Expr if_false) {
  return make_op(Op::kSelect, {std::move(condition), std::move(if_true), std::move(if_false)});
}

Expr cast(DType type, Expr a) {
  if (a.type() == type) return a;
  Node node{.op = Op::kCast, .type = type};
  node.args = {std::move(a)};
  return make(std::move(node));
}

Expr bitcast(DType type, Expr a) {
  if (a.type() == type) return a;
  Node node{.op = Op::kBitcast, .type = type};
  node.args = {std::move(a)};
  return make(std::move(node));
}

bool is_const(const Expr& e) {
  return e && e->op == Op::kConst;
}

double const_as_double(const Node& node) {
  if (node.type == DType::kF32) return std::bit_cast<float>(static_cast<uint32_t>(node.bits));
  if (node.type == DType::kF64) return std::bit_cast<double>(node.bits);
  if (node.type == DType::kU64) return static_cast<double>(node.bits);
  return static_cast<double>(const_as_int(node));
}

int64_t const_as_int(const Node& node) {
  if (is_signed(node.type)) {
    const int shift = 64 - info(node.type).bits;
    return static_cast<int64_t>(node.bits << shift) >> shift;
  }
  return static_cast<int64_t>(node.bits);
}

bool same_expr(const Expr& a, const Expr& b) {
  if (a.get() == b.get()) return true;
  if (!a || !b) return false;
  const Node &x = *a, &y = *b;
  if (x.op != y.op || x.type != y.type || x.id != y.id || x.bits != y.bits ||
      x.args.size() != y.args.size() || x.indices.size() != y.indices.size())
    return false;
  for (size_t i = 0; i < x.args.size(); ++i)
    if (!same_expr(x.args[i], y.args[i])) return false;
  for (size_t i = 0; i < x.indices.size(); ++i)
    if (!(x.indices[i].affine == y.indices[i].affine) ||
        !same_expr(x.indices[i].checked, y.indices[i].checked) ||
        !same_expr(x.indices[i].extent, y.indices[i].extent))
      return false;
  return same_expr(x.guard, y.guard);
}

}  // namespace xc::loop
