#include "ops/input_types.h"

#include <algorithm>

namespace xc {

namespace {

constexpr size_t kMaxRank = 5;

/// Does inference get past the type of input `asked`? Of the other things it may refuse, rank and
/// attributes among them, nothing is known here, so several ranks are tried.
bool passes(const OpDef& op, const std::vector<DType>& types, size_t asked) {
  Node node;
  node.op = &op;
  for (size_t i = 0; i < types.size(); ++i) node.inputs.push_back(static_cast<ValueId>(i));
  const auto outputs = static_cast<size_t>(std::max(op.min_outputs, 1));
  for (size_t rank = 0; rank <= kMaxRank; ++rank) {
    std::vector<Type> inputs;
    for (const DType t : types) {
      SymDims dims;
      for (size_t axis = 0; axis < rank; ++axis)
        dims.push_back(Dim::symbol(fmt::format("d{}", axis)));
      inputs.push_back(Type::tensor(t, dims));
    }
    InferContext context;
    context.node = &node;
    for (const Type& type : inputs) context.inputs.push_back({&type, nullptr, nullptr});
    context.outputs.resize(outputs);
    size_t fresh = 0;
    context.fresh = [&](const std::string&) { return Dim::symbol(fmt::format("f{}", fresh++)); };
    try {
      op.infer(context);
    } catch (const WrongDType& error) {
      if (error.input == asked) return false;
    } catch (const Error&) {
      continue;
    }
  }
  return true;
}

}  // namespace

std::vector<TypeSet> input_types(const OpDef& op) {
  if (op.control_flow || op.evaluate || !op.infer || op.min_inputs == 0) return {};
  std::vector<TypeSet> out;
  std::vector<DType> first;  // the first type of each input so far
  for (size_t asked = 0; asked < static_cast<size_t>(op.min_inputs); ++asked) {
    TypeSet taken = 0;
    for (int k = 1; k < static_cast<int>(DType::kTensor); ++k) {
      const auto type = static_cast<DType>(k);
      std::vector<DType> types(static_cast<size_t>(op.min_inputs), type);
      for (size_t i = 0; i < asked; ++i)
        if (!contains(out[i], type)) types[i] = first[i];
      if (passes(op, types, asked)) taken |= type_set({type});
    }
    out.push_back(taken);
    DType one = DType::kF32;
    for (int k = 1; k < static_cast<int>(DType::kTensor); ++k)
      if (!contains(taken, one)) one = static_cast<DType>(k);
    first.push_back(one);
  }
  return out;
}

}  // namespace xc
