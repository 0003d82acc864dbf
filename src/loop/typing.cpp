#include "loop/typing.h"

#include <fmt/format.h>

namespace xc::loop {

namespace {

bool is_compute_float(DType type) {
  return type == DType::kF32 || type == DType::kF64;
}
bool is_number(DType type) {
  return is_compute_float(type) || is_integer(type);
}

bool is_comparison(Op op) {
  return op >= Op::kEq && op <= Op::kGe;
}

enum class Operands { kNumber, kFloat, kInteger, kBits, kAny, kF32 };

Operands operands_of(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
      return Operands::kNumber;
    case Op::kMin:
    case Op::kMax:
    case Op::kEq:
    case Op::kNe:
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kSelect:
    case Op::kCast:
      return Operands::kAny;
    case Op::kMod:
    case Op::kRem:
    case Op::kShl:
    case Op::kShr:
      return Operands::kInteger;
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kNot:
      return Operands::kBits;
    case Op::kBitcast:
      return Operands::kNumber;
    case Op::kRoundF16:
    case Op::kRoundBf16:
      return Operands::kF32;
    default:
      return Operands::kFloat;
  }
}

std::string operand_problem(Operands kind, DType type) {
  switch (kind) {
    case Operands::kNumber:
      return is_number(type) ? "" : "a number";
    case Operands::kFloat:
      return is_compute_float(type) ? "" : "f32 or f64";
    case Operands::kInteger:
      return is_integer(type) ? "" : "an integer";
    case Operands::kBits:
      return is_integer(type) || type == DType::kBool ? "" : "integer or bool";
    case Operands::kAny:
      return "";
    case Operands::kF32:
      return type == DType::kF32 ? "" : "f32";
  }
  return "";
}

std::string index_problem(const Index& index) {
  if (index.is_affine()) return "";
  if (index.checked.type() != DType::kI64 && index.checked.type() != DType::kI32)
    return fmt::format("a checked index is i32 or i64, not {}", name(index.checked.type()));
  if (!index.extent || index.extent.type() != DType::kI64)
    return "the extent of a checked index is an i64";
  return "";
}

}  // namespace

DType result_type(const Node& node) {
  if (is_comparison(node.op) || node.op == Op::kIsNan || node.op == Op::kIsInf) return DType::kBool;
  if (node.op == Op::kCast || node.op == Op::kBitcast || node.args.empty()) return node.type;
  return node.op == Op::kSelect ? node.args[1].type() : node.args[0].type();
}

std::string type_problem(const Node& node) {
  const OpInfo& op = op_info(node.op);
  if (static_cast<int>(node.args.size()) != op.arity)
    return fmt::format("{} takes {} operands, not {}", op.name, op.arity, node.args.size());
  for (const Expr& arg : node.args)
    if (!arg) return fmt::format("an operand of {} is absent", op.name);
  if (!is_value_type(node.type))
    return fmt::format("{} of type {}, which is not a value type", op.name, name(node.type));
  if (node.op == Op::kLoad) {
    for (const Index& index : node.indices)
      if (std::string problem = index_problem(index); !problem.empty()) return problem;
    if (node.guard && node.guard.type() != DType::kBool) return "the guard of a load is a bool";
    return "";
  }
  const bool is_i64_leaf =
      node.op == Op::kLoopVar || node.op == Op::kDim || node.op == Op::kAccIndex;
  if (is_i64_leaf && node.type != DType::kI64) return fmt::format("{} is an i64", op.name);
  if (op.arity == 0) return "";
  const DType first = node.op == Op::kSelect ? node.args[1].type() : node.args[0].type();
  if (node.op == Op::kSelect && node.args[0].type() != DType::kBool)
    return fmt::format("the condition of select is a bool, not {}", name(node.args[0].type()));
  for (size_t i = node.op == Op::kSelect ? 2 : 1; i < node.args.size(); ++i)
    if (node.args[i].type() != first)
      return fmt::format("{} of {} and {}: operands have one type", op.name, name(first),
                         name(node.args[i].type()));
  if (std::string wanted = operand_problem(operands_of(node.op), first); !wanted.empty())
    return fmt::format("{} wants {}, not {}", op.name, wanted, name(first));
  if (node.op == Op::kBitcast && info(node.type).bits != info(first).bits)
    return fmt::format("bitcast from {} to {}: widths differ", name(first), name(node.type));
  if (node.type != result_type(node))
    return fmt::format("{} gives {}, not {}", op.name, name(result_type(node)), name(node.type));
  return "";
}

}  // namespace xc::loop
