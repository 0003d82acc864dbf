#include "backends/step.h"

#include <algorithm>

#include "backends/backend.h"

namespace xc {

bool Operand::contiguous() const {
  if (strides.size() != dims.size()) return false;
  Dim expected(1);
  for (size_t axis = dims.size(); axis-- > 0;) {
    // The stride of a dim of size 1 is never used.
    if (!(dims[axis] == Dim(1)) && !(strides[axis] == expected)) return false;
    expected = expected * dims[axis];
  }
  return true;
}

std::optional<double> PostOp::number(size_t k) const {
  if (k >= constants.size() || !constants[k]) return std::nullopt;
  return load_double(constants[k].data(), constants[k].dtype(), 0);
}

bool StepSpec::narrows() const {
  return !post_ops.empty() && post_ops.back().op->name == "Cast";
}

std::span<const PostOp> StepSpec::functions() const {
  return std::span(post_ops).first(post_ops.size() - (narrows() ? 1 : 0));
}

StepSpec StepSpec::without_cast() const {
  StepSpec out = *this;
  if (!narrows()) return out;
  out.post_ops.pop_back();
  out.outputs[0].dtype = DType::kF32;
  return out;
}

namespace {

DType held_in(const Node& node, Numerics numerics) {
  if (numerics == Numerics::kStrict) return DType::kUndefined;
  return dtype_from_onnx_number(node.attrs.get_int(kHeldIn.name, 0)).value_or(DType::kUndefined);
}

}  // namespace

DType StepSpec::held_in() const {
  return xc::held_in(*node, numerics);
}

DType StepSpec::multiplied_as() const {
  if (numerics == Numerics::kFast) return DType::kBF16;
  const DType held = held_in();
  return held != DType::kUndefined ? held : inputs[0].dtype;
}

bool rounds_to_bf16(const Node& product, Numerics numerics) {
  return numerics == Numerics::kFast || held_in(product, numerics) == DType::kBF16;
}

namespace {

bool takes(const Implementation& row, const StepSpec& spec) {
  return asked_for(row.op, *spec.op) && row.asked_about(spec) && row.supports(spec).yes();
}

bool is_for_many(const Implementation& row) {
  return row.op == "*" || row.op == "::";
}

}  // namespace

const Implementation* first_to_support(const Backend& backend, const StepSpec& spec) {
  const auto rows = backend.implementations();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Implementation& r) { return takes(r, spec); });
  return row == rows.end() ? nullptr : &*row;
}

RowsByOperator::RowsByOperator(const Backend& backend) {
  for (const Implementation& row : backend.implementations())
    if (!is_for_many(row)) by_name_[row.op];
  for (const Implementation& row : backend.implementations()) {
    if (!is_for_many(row)) {
      by_name_[row.op].push_back(&row);
      continue;
    }
    others_.push_back(&row);
    for (auto& [name, rows] : by_name_) rows.push_back(&row);
  }
}

const std::vector<const Implementation*>& RowsByOperator::of(const OpDef& op) const {
  const auto it = by_name_.find(op.name);
  return it == by_name_.end() ? others_ : it->second;
}

const Implementation* first_to_support(const RowsByOperator& rows, const StepSpec& spec) {
  const auto& asked = rows.of(*spec.op);
  const auto row = std::find_if(asked.begin(), asked.end(),
                                [&](const Implementation* r) { return takes(*r, spec); });
  return row == asked.end() ? nullptr : *row;
}

}  // namespace xc
