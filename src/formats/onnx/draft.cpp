#include "formats/onnx/draft.h"

#include "ops/op.h"
#include "ops/registry.h"

namespace xc::onnx {

Attrs with(std::string name, Attr value) {
  Attrs out;
  out.set(std::move(name), std::move(value));
  return out;
}

std::optional<Attr> Draft::take(std::string_view attribute) {
  const Attr* found = attrs.find(attribute);
  if (!found) return std::nullopt;
  std::optional<Attr> out = *found;
  attrs.erase(attribute);
  return out;
}

std::optional<std::vector<int64_t>> Draft::take_ints(std::string_view attribute) {
  if (!attrs.has(attribute)) return std::nullopt;
  auto out = attrs.get_ints(attribute);
  attrs.erase(attribute);
  return out;
}

int64_t Draft::take_int(std::string_view attribute, int64_t otherwise) {
  const int64_t out = attrs.get_int(attribute, otherwise);
  attrs.erase(attribute);
  return out;
}

double Draft::take_float(std::string_view attribute, double otherwise) {
  const double out = attrs.get_float(attribute, otherwise);
  attrs.erase(attribute);
  return out;
}

ValueId Draft::constant(Tensor tensor) {
  return graph.add_constant(graph.fresh_name(name + ".const"), std::move(tensor));
}

ValueId Draft::scalar_like(double value, ValueId like) {
  const DType dtype = hints.dtype(like);
  if (dtype == DType::kUndefined)
    return emit("CastLike", {constant(Tensor::scalar(static_cast<float>(value))), like});
  Tensor tensor(dtype, {});
  store_double(tensor.data(), dtype, 0, value);
  return constant(std::move(tensor));
}

ValueId Draft::emit(std::string_view op_name, std::vector<ValueId> node_inputs, Attrs node_attrs) {
  const ValueId out = graph.add_value(graph.fresh_name(name + "." + std::string(op_name)));
  Node node;
  node.op = &get_op(op_name);
  node.name = graph.value(out).name;
  node.inputs = std::move(node_inputs);
  node.outputs = {out};
  node.attrs = std::move(node_attrs);
  graph.add_node(std::move(node));
  return out;
}

void Draft::finish(std::string_view op_name, std::vector<ValueId> node_inputs, Attrs node_attrs,
                   std::vector<ValueId> node_outputs) {
  Node node;
  node.op = &get_op(op_name);
  node.name = name;
  node.inputs = std::move(node_inputs);
  node.outputs = std::move(node_outputs);
  node.attrs = std::move(node_attrs);
  graph.add_node(std::move(node));
  finished = true;
}

std::vector<ValueId> Draft::emit_self() {
  std::vector<ValueId> out;
  for (const ValueId id : outputs)
    out.push_back(id == kNone ? kNone : graph.add_value(graph.fresh_name(name + "." + op)));
  Node node;
  node.op = &get_op(op, domain);
  node.name = name;
  node.inputs = inputs;
  node.outputs = out;
  node.attrs = attrs;
  node.subgraphs = subgraphs;
  node.capture_count = capture_count;
  graph.add_node(std::move(node));
  finished = true;
  return out;
}

void Draft::unsupported(std::string_view what) const {
  const std::string cure = newer == 0
                               ? ""
                               : fmt::format("; re-export the model with opset {} of {} or newer",
                                             newer, domain.empty() ? "ai.onnx" : domain);
  fail(Status::kUnsupported, "{} version {}: {}{}", op, version, what, cure);
}

}  // namespace xc::onnx
