#include "passes/typing.h"

#include "ops/registry.h"
#include "ops/transpose.h"

namespace xc {

std::optional<Inferred> infer_node(const Graph& graph, const Node& node, std::string* why) {
  if (node.op->control_flow) return std::nullopt;
  InferContext c;
  c.node = &node;
  for (ValueId id : node.inputs) {
    InferContext::Input input;
    if (id != kNone) {
      const Value& value = graph.value(id);
      input.type = &value.type;
      if (value.is_constant()) input.value = &value.constant;
      if (value.elements) input.elements = &*value.elements;
    }
    c.inputs.push_back(input);
  }
  c.outputs.resize(node.outputs.size());
  c.output_elements.resize(node.outputs.size());
  int64_t next = 0;
  c.fresh = [&](const std::string&) { return Dim::symbol(fmt::format("?{}", next++)); };
  try {
    check_node(node);
    node.op->infer(c);
  } catch (const Error& error) {
    if (why) *why = error.message();
    return std::nullopt;
  }
  return Inferred{std::move(c.outputs), std::move(c.output_elements)};
}

std::vector<ValueId> add_typed(Graph& graph, Patch& patch, Node node, uint32_t output_count) {
  Node shape = node;
  shape.subgraphs.clear();
  shape.outputs.assign(output_count, 0);
  const std::optional<Inferred> inferred = infer_node(graph, shape);
  std::vector<ValueId> outputs = patch.add_node(std::move(node), output_count);
  if (inferred)
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph.value(outputs[i]).type = inferred->types[i];
      graph.value(outputs[i]).elements = inferred->elements[i];
    }
  return outputs;
}

void put_in_place_of(Graph& graph, Patch& patch, NodeId old, Node now) {
  const std::vector<ValueId> outputs = graph.node(old).outputs;
  now.outputs.clear();
  for (ValueId output : outputs)
    now.outputs.push_back(output == kNone
                              ? kNone
                              : graph.add_value(graph.fresh_name(graph.value(output).name),
                                                graph.value(output).type));
  const auto made = patch.add_node(std::move(now), static_cast<uint32_t>(outputs.size()));
  for (size_t k = 0; k < outputs.size(); ++k)
    if (outputs[k] != kNone) patch.replace(outputs[k], made[k]);
  patch.remove(old);
}

ValueId add_copy(Graph& graph, Patch& patch, ValueId value, const std::string& name) {
  return add_typed(graph, patch, {.op = &get_op("Identity"), .name = name, .inputs = {value}},
                   1)[0];
}

std::optional<std::vector<size_t>> known_permutation(const Graph& graph, const Node& node) {
  const std::optional<SymDims>& dims = graph.value(node.inputs[0]).type.dims;
  if (!dims) return std::nullopt;
  try {
    return permutation(node, dims->size());
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::vector<int64_t>> shape_between(const SymDims& from, const SymDims& to) {
  std::vector<int64_t> out;
  bool copied = false, computed = false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_constant() && to[i].value() != 0) {
      out.push_back(to[i].value());
    } else if (i < from.size() && from[i] == to[i]) {
      out.push_back(0);
      copied = true;
    } else if (!computed) {
      out.push_back(-1);
      computed = true;
    } else {
      return std::nullopt;
    }
  }
  // What is copied may be 0; then -1 would be any number.
  return copied && computed ? std::nullopt : std::optional(out);
}

std::optional<double> scalar_constant(const Value& value) {
  const Tensor& t = value.constant;
  if (!t || t.count() != 1) return std::nullopt;
  const DTypeKind kind = info(t.dtype()).kind;
  if (kind == DTypeKind::kString || kind == DTypeKind::kComplex || kind == DTypeKind::kNone)
    return std::nullopt;
  return load_double(t.data(), t.dtype(), 0);
}

std::optional<std::vector<int64_t>> known_integers(const Value& value) {
  if (value.is_constant()) {
    const DType type = value.constant.dtype();
    if (!is_integer(type) && type != DType::kBool) return std::nullopt;
    if (value.constant.count() > kMaxKnownElements) return std::nullopt;
    return value.constant.to_int64s();
  }
  if (!value.elements) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& dim : *value.elements) {
    if (!dim.is_constant()) return std::nullopt;
    out.push_back(dim.value());
  }
  return out;
}

}  // namespace xc
