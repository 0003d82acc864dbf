#include "backends/cpu/elementwise_builder.h"

#include <cstring>
#include <limits>
#include <unordered_map>

#include "backends/cpu/vector/casts_fn.h"
#include "loop/math.h"
#include "ops/elementwise_table.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

using Reg = ChunkProgram::Reg;

struct Row {
  std::string_view op;
  Fn fn;
  int arity;  ///< -1: fold of two
  bool to_bool = false;
  int params = 0;  ///< how many of read_params() the loop takes
};

// Ops whose whole meaning is one inner loop. Others are lowered from their scalar definition.
constexpr Row kRows[] = {
    {"Abs", Fn::kAbs, 1},
    {"Neg", Fn::kNeg, 1},
    {"Sign", Fn::kSign, 1},
    {"Floor", Fn::kFloor, 1},
    {"Ceil", Fn::kCeil, 1},
    {"Round", Fn::kRound, 1},
    {"Sqrt", Fn::kSqrt, 1},
    {"Reciprocal", Fn::kReciprocal, 1},
    {"Exp", Fn::kExp, 1},
    {"Log", Fn::kLog, 1},
    {"Tanh", Fn::kTanh, 1},
    {"Sigmoid", Fn::kSigmoid, 1},
    {"Erf", Fn::kErf, 1},
    {"Sin", Fn::kSin, 1},
    {"Cos", Fn::kCos, 1},
    {"Asin", Fn::kAsin, 1},
    {"Acos", Fn::kAcos, 1},
    {"Atan", Fn::kAtan, 1},
    {"Asinh", Fn::kAsinh, 1},
    {"Acosh", Fn::kAcosh, 1},
    {"Atanh", Fn::kAtanh, 1},
    {"Relu", Fn::kRelu, 1},
    {"LeakyRelu", Fn::kLeakyRelu, 1, false, 1},
    {"HardSigmoid", Fn::kHardSigmoid, 1, false, 2},
    {"HardSwish", Fn::kHardSwish, 1},
    {"Swish", Fn::kSwish, 1, false, 1},
    {"Elu", Fn::kElu, 1, false, 1},
    {"Softplus", Fn::kSoftplus, 1},
    {"Not", Fn::kNot, 1},
    {"BitwiseNot", Fn::kBitwiseNot, 1},
    {"IsNaN", Fn::kIsNan, 1, true},
    {"IsInf", Fn::kIsInf, 1, true, 2},
    {"Add", Fn::kAdd, 2},
    {"Sub", Fn::kSub, 2},
    {"Mul", Fn::kMul, 2},
    {"Div", Fn::kDiv, 2},
    {"Max", Fn::kMax, -1},
    {"Min", Fn::kMin, -1},
    {"Sum", Fn::kAdd, -1},
    {"Mean", Fn::kAdd, -1},
    {"PRelu", Fn::kPRelu, 2},
    {"And", Fn::kAnd, 2},
    {"Or", Fn::kOr, 2},
    {"Xor", Fn::kXor, 2},
    {"BitwiseAnd", Fn::kAnd, 2},
    {"BitwiseOr", Fn::kOr, 2},
    {"BitwiseXor", Fn::kXor, 2},
    {"Equal", Fn::kEqual, 2, true},
    {"Less", Fn::kLess, 2, true},
    {"LessOrEqual", Fn::kLessEqual, 2, true},
    {"Greater", Fn::kGreater, 2, true},
    {"GreaterOrEqual", Fn::kGreaterEqual, 2, true},
};

const Row* find_row(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

class Builder {
 public:
  Builder(ChunkProgram& program, Isa isa, std::string& reason)
      : program_(program), isa_(isa), reason_(reason) {}

  std::optional<Reg> no(std::string reason) {
    reason_ = std::move(reason);
    return std::nullopt;
  }

  std::optional<Reg> call(Fn fn, DType type, DType result, std::initializer_list<Reg> args,
                          std::array<float, 2> params = {}) {
    const ElementwiseFn loop = elementwise_fn(fn, type, isa_);
    if (!loop) return no(fmt::format("no inner loop for elements of type {}", name(type)));
    return program_.emit(loop, result, args, params);
  }

  std::optional<Reg> cast(Reg value, DType to) {
    const DType from = program_.dtype(value);
    if (from == to) return value;
    if (const ElementwiseFn loop = cast_fn(from, to, isa_)) return program_.emit(loop, to, {value});
    // The 16-bit floats go through f32.
    const DType middle = DType::kF32;
    const ElementwiseFn first = cast_fn(from, middle, isa_), second = cast_fn(middle, to, isa_);
    if (from == middle || to == middle || !first || !second)
      return no(fmt::format("no conversion from {} to {}", name(from), name(to)));
    return program_.emit(second, to, {program_.emit(first, middle, {value})});
  }

  /// The row's loop over arguments of one compute type.
  std::optional<Reg> from_row(const Row& row, const OpDef& op, const Attrs& attrs,
                              std::span<const Reg> args, DType type) {
    std::array<float, 2> params{};
    if (row.params > 0) {
      Node node;
      node.op = &op;
      node.attrs = attrs;
      const auto values = elementwise::read_params(node);
      for (size_t i = 0; i < static_cast<size_t>(row.params); ++i)
        params[i] = static_cast<float>(values[i]);
    }
    const DType result = row.to_bool ? DType::kBool : type;
    if (row.arity == 1) return call(row.fn, type, result, {args[0]}, params);
    if (row.arity == 2) return call(row.fn, type, result, {args[0], args[1]}, params);
    Reg value = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      const auto next = call(row.fn, type, result, {value, args[i]});
      if (!next) return next;
      value = *next;
    }
    if (row.op == "Mean" && args.size() > 1)
      return call(Fn::kDiv, type, type,
                  {value, program_.constant(type, static_cast<double>(args.size()))});
    return value;
  }

  /// The scalar definition, node by node; arguments are kReg leaves numbered by position.
  std::optional<Reg> from_expr(const loop::Expr& e, std::span<const Reg> args) {
    if (const auto known = done_.find(e.get()); known != done_.end()) return known->second;
    const auto made = lower(e, args);
    if (made) done_.emplace(e.get(), *made);
    return made;
  }

 private:
  std::optional<Reg> lower(const loop::Expr& e, std::span<const Reg> args);

  ChunkProgram& program_;
  Isa isa_;
  std::string& reason_;
  std::unordered_map<const loop::Node*, Reg> done_;  ///< by address: composed_ keeps what we made
  std::vector<loop::Expr> composed_;
};

/// The inner loop of a loop IR operation, where the two mean the same on `type`.
std::optional<Fn> fn_of(loop::Op op, DType type) {
  switch (op) {
    case loop::Op::kAdd:
      return Fn::kAdd;
    case loop::Op::kSub:
      return Fn::kSub;
    case loop::Op::kMul:
      return Fn::kMul;
    case loop::Op::kDiv:
      return Fn::kDiv;
    case loop::Op::kMod:
      return Fn::kMod;
    case loop::Op::kRem:
      return Fn::kFmod;
    case loop::Op::kNeg:
      return Fn::kNeg;
    case loop::Op::kAbs:
      return Fn::kAbs;
    case loop::Op::kMin:
      return Fn::kMin;
    case loop::Op::kMax:
      return Fn::kMax;
    case loop::Op::kSign:
      return Fn::kSign;
    case loop::Op::kFma:
      return Fn::kFma;
    case loop::Op::kFloor:
      return Fn::kFloor;
    case loop::Op::kCeil:
      return Fn::kCeil;
    case loop::Op::kRound:
      return Fn::kRound;
    case loop::Op::kTrunc:
      return Fn::kTrunc;
    case loop::Op::kSqrt:
      return Fn::kSqrt;
    case loop::Op::kIsNan:
      return Fn::kIsNan;
    case loop::Op::kReciprocal:
      return Fn::kReciprocal;
    case loop::Op::kExp:
      return Fn::kExp;
    case loop::Op::kExpm1:
      return Fn::kExpm1;
    case loop::Op::kLog:
      return Fn::kLog;
    case loop::Op::kLog1p:
      return Fn::kLog1p;
    case loop::Op::kTanh:
      return Fn::kTanh;
    case loop::Op::kErf:
      return Fn::kErf;
    case loop::Op::kSigmoid:
      return Fn::kSigmoid;
    case loop::Op::kSin:
      return Fn::kSin;
    case loop::Op::kCos:
      return Fn::kCos;
    case loop::Op::kPow:
      return is_float(type) ? std::optional(Fn::kPow) : std::nullopt;
    case loop::Op::kEq:
      return Fn::kEqual;
    case loop::Op::kNe:
      return Fn::kNotEqual;
    case loop::Op::kLt:
      return Fn::kLess;
    case loop::Op::kLe:
      return Fn::kLessEqual;
    case loop::Op::kGt:
      return Fn::kGreater;
    case loop::Op::kGe:
      return Fn::kGreaterEqual;
    case loop::Op::kAnd:
      return Fn::kAnd;
    case loop::Op::kOr:
      return Fn::kOr;
    case loop::Op::kXor:
      return Fn::kXor;
    case loop::Op::kNot:
      return type == DType::kBool ? Fn::kNot : Fn::kBitwiseNot;
    case loop::Op::kShl:
      return Fn::kShiftLeft;
    case loop::Op::kShr:
      return Fn::kShiftRight;
    default:
      return std::nullopt;
  }
}

/// Functions without an inner loop of their own, by those that have one; null for the others.
loop::Expr composed(const loop::Expr& e) {
  using namespace loop;
  const auto c = [&](double v) { return constant(e.type(), v); };
  const Expr& x = e->args[0];
  switch (e->op) {
    case Op::kExpNormal:
      return select(lt(x, c(least_normal_power(e.type()))), c(0), exp(x));
    case Op::kExp2:
      return pow(c(2), x);
    case Op::kOnePlusTanh:
      return tanh(x) + c(1);
    case Op::kOnePlusErf:
      return select(lt(x, c(least_one_plus_erf(e.type()))), c(0), erf(x) + c(1));
    case Op::kExpm1:  // tanh(x/2) = (e^x - 1) / (e^x + 1): no cancellation
      if (e.type() == DType::kF32) return {};
      return tanh(x * c(0.5)) * (exp(x) + c(1));
    case Op::kLog1p: {  // Kahan's correction of the rounded sum
      if (e.type() == DType::kF32) return {};
      const Expr w = x + c(1);
      return select(eq(w, c(1)), x, log(w) * (x / (w - c(1))));
    }
    default:
      return {};
  }
}

std::optional<Reg> Builder::lower(const loop::Expr& e, std::span<const Reg> args) {
  if (e->op == loop::Op::kConst) return program_.constant_bits(e->type, e->bits);
  if (e->op == loop::Op::kReg) return args[e->id];
  if (!e->args.empty())
    if (const loop::Expr simpler = composed(e))
      return from_expr(composed_.emplace_back(simpler), args);
  std::array<Reg, 3> a{};
  if (e->args.size() > a.size()) return no("an expression of more than three arguments");
  for (size_t i = 0; i < e->args.size(); ++i) {
    const auto arg = from_expr(e->args[i], args);
    if (!arg) return arg;
    a[i] = *arg;
  }
  const DType type = e->args.empty() ? e->type : e->args[0].type();
  if (e->op == loop::Op::kCast) return cast(a[0], e->type);
  if (e->op == loop::Op::kSelect) return call(Fn::kWhere, e->type, e->type, {a[0], a[1], a[2]});
  if (e->op == loop::Op::kBitcast)
    return program_.emit(elementwise_fn(Fn::kCopy, type, isa_), e->type, {a[0]});
  if (e->op == loop::Op::kRsqrt) {
    const auto root = call(Fn::kSqrt, type, type, {a[0]});
    return root ? call(Fn::kReciprocal, type, type, {*root}) : root;
  }
  if (e->op == loop::Op::kIsInf) return call(Fn::kIsInf, type, e->type, {a[0]}, {1, 1});
  if (e->op == loop::Op::kRoundF16 || e->op == loop::Op::kRoundBf16) {
    const auto half = cast(a[0], e->op == loop::Op::kRoundF16 ? DType::kF16 : DType::kBF16);
    return half ? cast(*half, DType::kF32) : half;
  }
  const auto fn = fn_of(e->op, type);
  if (!fn) return no(fmt::format("no inner loop for {}", loop::op_info(e->op).name));
  switch (e->args.size()) {
    case 1:
      return call(*fn, type, e->type, {a[0]});
    case 2:
      return call(*fn, type, e->type, {a[0], a[1]});
    case 3:
      return call(*fn, type, e->type, {a[0], a[1], a[2]});
    default:
      return no(fmt::format("no inner loop for {}", loop::op_info(e->op).name));
  }
}

loop::Expr argument_leaf(DType type, uint32_t index) {
  auto node = std::make_shared<loop::Node>();
  node->op = loop::Op::kReg;
  node->type = type;
  node->id = index;
  return loop::Expr(std::shared_ptr<const loop::Node>(std::move(node)));
}

double type_limit(DType type, bool highest) {
  if (is_float(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return highest ? infinity : -infinity;
  }
  // store_double() saturates.
  return highest ? 1e300 : -1e300;
}

}  // namespace

DType compute_type(DType type) {
  return loop::value_type(type);
}

bool commutes_with_rounding(const PostOp& post) {
  return post.op->name == "Relu";
}

std::optional<Reg> build_cast(ChunkProgram& program, Reg value, DType to, Isa isa) {
  std::string reason;
  return Builder(program, isa, reason).cast(value, to);
}

std::optional<Reg> build_elementwise(ChunkProgram& program, const OpDef& op, const Attrs& attrs,
                                     std::span<const Reg> args, DType result, Isa isa,
                                     std::string& reason) {
  Builder builder(program, isa, reason);
  if (op.name == "Where") {
    // Moves bits, whatever the type.
    return builder.call(Fn::kWhere, result, result, {args[0], args[1], args[2]});
  }
  if (op.name == "Cast" || op.name == "CastLike") return builder.cast(args[0], result);
  if (op.name == "Identity") return args[0];

  if (op.name == "Relu" && program.dtype(args[0]) == result && compute_type(result) != result)
    return builder.call(Fn::kRelu, result, result, {args[0]});

  std::vector<Reg> wide;
  for (Reg arg : args) {
    if (arg == kNoReg) {
      wide.push_back(kNoReg);
      continue;
    }
    const auto widened = builder.cast(arg, compute_type(program.dtype(arg)));
    if (!widened) return widened;
    wide.push_back(*widened);
  }
  const DType type = program.dtype(wide[0]);
  const DType wide_result = compute_type(result);
  const auto narrowed = [&](std::optional<Reg> value) -> std::optional<Reg> {
    if (!value) return value;
    return builder.cast(*value, result);
  };

  if (op.name == "Clip") {
    const auto bound = [&](size_t i) {
      return i < wide.size() && wide[i] != kNoReg
                 ? wide[i]
                 : program.constant(type, type_limit(type, i == 2));
    };
    return narrowed(builder.call(Fn::kClip, type, type, {wide[0], bound(1), bound(2)}));
  }
  if (op.name == "Pow") {
    // The root of an integer is no power with an integer exponent: the reference has it.
    if (!is_float(type) && is_float(program.dtype(wide[1]))) return std::nullopt;
    const bool held = elementwise::holds_exponents(type, program.dtype(args[1]));
    const DType computed = type == DType::kF32 && !held ? DType::kF64 : type;
    const auto base = builder.cast(wide[0], computed);
    const auto exponent = builder.cast(wide[1], computed);
    if (!base || !exponent) return std::nullopt;
    return narrowed(builder.call(Fn::kPow, computed, computed, {*base, *exponent}));
  }
  if (op.name == "Mod") {
    const bool fmod = attrs.get_int("fmod", 0) != 0;
    return narrowed(builder.call(fmod ? Fn::kFmod : Fn::kMod, type, type, {wide[0], wide[1]}));
  }
  if (op.name == "BitShift") {
    const bool left = attrs.get_string("direction", "LEFT") == "LEFT";
    return narrowed(
        builder.call(left ? Fn::kShiftLeft : Fn::kShiftRight, type, type, {wide[0], wide[1]}));
  }
  if (op.name == "Gelu" && type == DType::kF32) {
    const bool tanh = attrs.get_string("approximate", "none") == "tanh";
    return narrowed(builder.call(tanh ? Fn::kGeluTanh : Fn::kGelu, type, type, {wide[0]}));
  }
  if (const Row* row = find_row(op.name)) {
    if (const auto value = builder.from_row(*row, op, attrs, wide, type)) return narrowed(value);
  }
  if (!op.scalar) return builder.no(fmt::format("{} has no scalar definition", op.name));
  Node node;
  node.op = &op;
  node.attrs = attrs;
  std::vector<loop::Expr> leaves;
  for (size_t i = 0; i < wide.size(); ++i)
    leaves.push_back(wide[i] == kNoReg
                         ? loop::Expr()
                         : argument_leaf(program.dtype(wide[i]), static_cast<uint32_t>(i)));
  const loop::Expr value = op.scalar(node, leaves, wide_result);
  if (!value) return builder.no(fmt::format("{} has no scalar form for these types", op.name));
  return narrowed(builder.from_expr(value, wide));
}

namespace {

/// The element of a scalar: 64-bit integers as they are, halves in the type they are computed in.
Reg scalar_register(ChunkProgram& program, const Tensor& scalar, DType type) {
  if (scalar.dtype() != type)
    return program.constant(type, load_double(scalar.data(), scalar.dtype(), 0));
  uint64_t bits = 0;
  std::memcpy(&bits, scalar.data(), static_cast<size_t>(scalar.byte_size()));
  return program.constant_bits(type, bits);
}

}  // namespace

std::optional<Reg> build_post_ops(ChunkProgram& program, std::span<const PostOp> post_ops,
                                  Reg value, DType type, Isa isa,
                                  FunctionRef<std::optional<Reg>(uint32_t)> operand,
                                  std::string& reason) {
  for (const PostOp& post : post_ops) {
    if (post.op->name == "Cast") {
      reason = "the result is stored in another type";
      return std::nullopt;
    }
    std::vector<Reg> args{value};
    if (post.kind == PostOp::Kind::kBinary) {
      const auto other = operand(post.operand);
      if (!other) {
        reason = fmt::format("post-op {} cannot take operand {}", post.op->name, post.operand);
        return std::nullopt;
      }
      args.insert(post.anchor_first ? args.end() : args.begin(), *other);
    } else {
      for (const Tensor& constant : post.constants)
        args.push_back(constant ? scalar_register(program, constant, type) : kNoReg);
    }
    const auto next = build_elementwise(program, *post.op, post.attrs, args, type, isa, reason);
    if (!next) return std::nullopt;
    if (program.dtype(*next) != type) {
      reason = fmt::format("post-op {} changes the type", post.op->name);
      return std::nullopt;
    }
    value = *next;
  }
  return value;
}

}  // namespace xc::cpu
