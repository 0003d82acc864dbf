#include "formats/onnx/type_hints.h"

#include "ops/op.h"

namespace xc::onnx {

const Type& TypeHints::of(ValueId id) {
  static const Type unknown;
  if (id == kNone) return unknown;
  update();
  if (const Value& value = graph_.value(id); value.is_constant())
    types_[id] = Type::tensor(value.constant.dtype(), to_symbolic(value.constant.dims()));
  return types_[id];
}

std::optional<int64_t> TypeHints::rank(ValueId id) {
  const Type& type = of(id);
  if (!type.dims) return std::nullopt;
  return static_cast<int64_t>(type.dims->size());
}

void TypeHints::update() {
  for (size_t id = types_.size(); id < graph_.value_count(); ++id) {
    const Value& value = graph_.value(static_cast<ValueId>(id));
    // What a file declares of values inside of a graph is often wrong; only inputs are taken.
    types_.push_back(value.is_input ? value.type : Type{});
    elements_.emplace_back();
  }
  for (; next_node_ < graph_.node_count(); ++next_node_) infer(graph_.node(next_node_));
}

void TypeHints::infer(const Node& node) {
  InferContext c;
  c.node = &node;
  for (const ValueId id : node.inputs) {
    InferContext::Input input;
    if (id != kNone) {
      const Value& value = graph_.value(id);
      if (value.is_constant()) {
        input.value = &value.constant;
        types_[id] = Type::tensor(value.constant.dtype(), to_symbolic(value.constant.dims()));
      }
      input.type = &types_[id];
      if (elements_[id]) input.elements = &*elements_[id];
    }
    c.inputs.push_back(input);
  }
  c.outputs.resize(node.outputs.size());
  c.output_elements.resize(node.outputs.size());
  c.fresh = [this](const std::string&) { return Dim::symbol("?" + std::to_string(fresh_++)); };
  c.infer_subgraph = [](size_t, const std::vector<Type>&) -> std::vector<Type> {
    fail(Status::kUnsupported, "not known yet");
  };
  try {
    check_node(node);
    node.op->infer(c);
  } catch (const Error&) {
    return;  // told with its place when the whole graph is inferred
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] == kNone) continue;
    types_[node.outputs[k]] = std::move(c.outputs[k]);
    elements_[node.outputs[k]] = std::move(c.output_elements[k]);
  }
}

}  // namespace xc::onnx
