#include "ops/input_types.h"

#include <algorithm>

namespace xc {

namespace {

constexpr size_t kMaxRank = 5;

/// What is tried: a type per input, kUndefined = absent, and the ranks of the required inputs and
/// of the optional ones.
struct Attempt {
  const OpDef& op;
  const std::vector<DType>& types;
  size_t required_rank, optional_rank;

  void infer() const {
    Node node;
    node.op = &op;
    std::vector<Type> types_of_inputs;
    for (size_t i = 0; i < types.size(); ++i) {
      const bool present = types[i] != DType::kUndefined;
      node.inputs.push_back(present ? static_cast<ValueId>(i) : kNone);
      SymDims dims;
      const bool required = i < static_cast<size_t>(op.min_inputs);
      for (size_t axis = 0; axis < (required ? required_rank : optional_rank); ++axis)
        dims.push_back(Dim::symbol(fmt::format("d{}", axis)));
      types_of_inputs.push_back(Type::tensor(types[i], dims));
    }
    InferContext context;
    context.node = &node;
    for (size_t i = 0; i < types.size(); ++i)
      context.inputs.push_back(
          {node.inputs[i] == kNone ? nullptr : &types_of_inputs[i], nullptr, nullptr});
    context.outputs.resize(static_cast<size_t>(std::max(op.min_outputs, 1)));
    size_t fresh = 0;
    context.fresh = [&](const std::string&) { return Dim::symbol(fmt::format("f{}", fresh++)); };
    op.infer(context);
  }
};

/// Does inference get past the type of input `asked`? Of the other things it may refuse, rank and
/// attributes among them, nothing is known here, so several ranks are tried.
bool passes(const OpDef& op, const std::vector<DType>& types, size_t asked) {
  const bool only_required = types.size() == static_cast<size_t>(op.min_inputs);
  for (size_t rank = 0; rank <= kMaxRank; ++rank)
    for (const size_t optional_rank : {rank, size_t{0}, size_t{1}}) {
      if (only_required && optional_rank != rank) continue;
      try {
        Attempt{op, types, rank, optional_rank}.infer();
      } catch (const WrongDType& error) {
        if (error.input == asked) return false;
      } catch (const Error&) {
        // Of other things than types.
      }
    }
  return true;
}

}  // namespace

std::vector<TypeSet> input_types(const OpDef& op) {
  if (op.control_flow || (op.evaluate && !op.reference) || !op.infer || op.min_inputs == 0)
    return {};
  std::vector<TypeSet> out;
  std::vector<DType> first;  // the first type of each required input so far
  const auto required = static_cast<size_t>(op.min_inputs);
  const auto count = std::max(required, static_cast<size_t>(std::max(op.max_inputs, 0)));
  for (size_t asked = 0; asked < count; ++asked) {
    TypeSet taken = 0;
    for (int k = 1; k < kDTypeCount; ++k) {
      const auto type = static_cast<DType>(k);
      if (type == DType::kTensor) continue;
      std::vector<DType> types(std::max(required, asked + 1), DType::kUndefined);
      types[asked] = type;
      for (size_t i = 0; i < required; ++i) {
        if (i == asked) continue;
        types[i] = i < out.size() && !contains(out[i], type) ? first[i] : type;
      }
      if (passes(op, types, asked)) taken |= type_set({type});
    }
    out.push_back(taken);
    DType one = DType::kF32;
    for (int k = 1; k < kDTypeCount; ++k)
      if (!contains(taken, one)) one = static_cast<DType>(k);
    if (asked < required) first.push_back(one);
  }
  return out;
}

}  // namespace xc
