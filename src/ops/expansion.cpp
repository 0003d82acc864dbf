#include "ops/expansion.h"

#include <map>

#include "ops/checks.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace xc {

namespace {

Tensor copy_of(const TensorView& view) {
  Tensor out(view.dtype, Dims(view.dims.begin(), view.dims.end()));
  copy_elements(view, out.view());
  return out;
}

}  // namespace

std::optional<int64_t> Expansion::rank(size_t i) const {
  if (!type(i).dims) return std::nullopt;
  return static_cast<int64_t>(type(i).dims->size());
}

namespace {

/// An operator of ONNX, or of our own.
const OpDef& op_named(std::string_view name) {
  const OpDef* own = find_op(name, "xc");
  return own ? *own : get_op(name);
}

}  // namespace

ValueId Expansion::add(std::string_view op, std::vector<ValueId> inputs, const AttrList& attrs) {
  Attrs all;
  for (const auto& [name, value] : attrs) all.set(name, value);
  return patch_.add_node(op_named(op), std::move(inputs), 1, std::move(all), node_.name)[0];
}

std::vector<ValueId> Expansion::add(std::string_view op, std::vector<ValueId> inputs,
                                    uint32_t outputs, const AttrList& attrs) {
  Attrs all;
  for (const auto& [name, value] : attrs) all.set(name, value);
  return patch_.add_node(op_named(op), std::move(inputs), outputs, std::move(all), node_.name);
}

ValueId Expansion::product(ValueId left, ValueId right) {
  AttrList held;
  if (dtype(0) != working()) held.emplace_back(kHeldIn.name, onnx_number(dtype(0)));
  return add("MatMul", {left, right}, held);
}

ValueId Expansion::reduce(std::string_view op, ValueId data, std::vector<int64_t> axes) {
  return add(op, {data, ints(std::move(axes))}, {{"keepdims", int64_t{1}}});
}

ValueId Expansion::scalar(double value) {
  return scalar(value, working());
}

ValueId Expansion::scalar(double value, DType type) {
  Tensor tensor(type, {});
  store_double(tensor.data(), type, 0, value);
  return constant(std::move(tensor));
}

ValueId Expansion::constant(Tensor tensor) {
  return patch_.add_constant(node_.name + "_constant", std::move(tensor));
}

ValueId Expansion::integer(int64_t value) {
  return patch_.add_constant(node_.name + "_integer", Tensor::scalar(value));
}

ValueId Expansion::ints(std::vector<int64_t> values) {
  return patch_.add_constant(node_.name + "_ints", Tensor::of(values));
}

ValueId Expansion::size(ValueId value, int64_t axis) {
  return add("Shape", {value}, {{"start", axis}, {"end", axis + 1}});
}

ValueId Expansion::count_up(ValueId size) {
  return add("Range", {integer(0), add("Squeeze", {size, ints({0})}), integer(1)});
}

ValueId Expansion::transposed(ValueId value, std::vector<int64_t> perm) {
  return add("Transpose", {value}, {{"perm", std::move(perm)}});
}

ValueId Expansion::not_from_end(ValueId indices, DType type, ValueId data) {
  const ValueId whole = cast(indices, type, DType::kI64);
  return add("Where", {add("Less", {whole, integer(0)}), size(data, 0), whole});
}

ValueId Expansion::below(ValueId numbers, DType type, ValueId size) {
  const ValueId all = count_up(size);
  return add("Gather", {all, not_from_end(numbers, type, all)}, {{"axis", int64_t{0}}});
}

DType Expansion::working() const {
  return loop::value_type(dtype(0));
}

ValueId Expansion::cast(ValueId value, DType from, DType to) {
  if (from == to) return value;
  return add("Cast", {value}, {{"to", onnx_number(to)}});
}

void reference_by_expansion(const ReferenceContext& ctx) {
  check_shapes(ctx);
  Graph graph;
  Node node = *ctx.node;
  for (size_t i = 0; i < ctx.inputs.size(); ++i)
    node.inputs[i] =
        ctx.inputs[i] ? graph.add_constant(fmt::format("x{}", i), copy_of(ctx.inputs[i])) : kNone;
  for (size_t k = 0; k < ctx.outputs.size(); ++k)
    node.outputs[k] = ctx.outputs[k] ? graph.add_value(fmt::format("y{}", k)) : kNone;
  std::vector<ValueId> results;
  {
    Patch patch(graph, "reference");
    results = node.op->expand(graph, node, patch);
    if (results.empty()) fail(Status::kUnsupported, "unsupported: {} of this form", node.op->name);
    patch.apply();
  }
  std::map<ValueId, Tensor> values;
  const auto value_of = [&](ValueId id) {
    if (id == kNone) return Tensor{};
    const Tensor& constant = graph.value(id).constant;
    return constant ? constant : values.at(id);
  };
  for (const NodeId id : graph.order()) {
    const Node& step = graph.node(id);
    std::vector<Tensor> inputs;
    for (const ValueId in : step.inputs) inputs.push_back(value_of(in));
    std::vector<Tensor> outputs = run_reference(step, inputs);
    for (size_t k = 0; k < outputs.size(); ++k) values[step.outputs[k]] = std::move(outputs[k]);
  }
  for (size_t k = 0; k < ctx.outputs.size(); ++k)
    if (ctx.outputs[k]) copy_row_major(value_of(results.at(k)).view(), ctx.outputs[k]);
}

}  // namespace xc
