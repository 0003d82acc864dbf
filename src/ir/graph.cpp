#include "ir/graph.h"

#include "base/error.h"
#include "ir/op_ref.h"
#include "ir/place.h"
#include "ir/topology.h"

namespace xc {

std::string Type::text() const {
  switch (kind) {
    case Kind::kTensor: {
      std::string out(dtype == DType::kUndefined ? "?" : xc::name(dtype));
      return out + (dims ? to_text(*dims) : "[*]");
    }
    case Kind::kSequence:
      return "seq(" + (element ? element->text() : "?[*]") + ")";
    case Kind::kOptional:
      return "opt(" + (element ? element->text() : "?[*]") + ")";
    case Kind::kMap:
      return "map(" + std::string(dtype == DType::kUndefined ? "?" : xc::name(dtype)) + ", " +
             (element ? element->text() : "?[*]") + ")";
  }
  return "?";
}

bool operator==(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.dims != b.dims) return false;
  if (a.element == b.element) return true;
  return a.element && b.element && *a.element == *b.element;
}

// ---- construction -------------------------------------------------------------------------------

ValueId Graph::new_value(std::string value_name, Type type) {
  const auto id = static_cast<ValueId>(values_.size());
  if (id == kNone) fail(Status::kLimit, "too many values in graph '{}'", name);
  if (value_name.empty()) value_name = fresh_name("v");
  if (!by_name_.emplace(value_name, id).second)
    fail(Status::kInvalidModel, "value '{}' is defined twice", value_name);
  Value& value = values_.emplace_back();
  value.name = std::move(value_name);
  value.type = std::move(type);
  return id;
}

ValueId Graph::add_input(std::string value_name, Type type) {
  const ValueId id = new_value(std::move(value_name), std::move(type));
  values_[id].is_input = true;
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string value_name, Tensor tensor) {
  XC_CHECK(tensor);
  Type type = Type::tensor(tensor.dtype(), to_symbolic(tensor.dims()));
  const ValueId id = new_value(std::move(value_name), std::move(type));
  values_[id].constant = std::move(tensor);
  return id;
}

ValueId Graph::add_value(std::string value_name, Type type) {
  return new_value(std::move(value_name), std::move(type));
}

NodeId Graph::new_node(Node node) {
  const auto id = static_cast<NodeId>(nodes_.size());
  if (id == kNone) fail(Status::kLimit, "too many nodes in graph '{}'", name);
  for (uint32_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    if (node.outputs[i] >= values_.size())
      fail(Status::kInvalidModel, "node '{}' defines value {}, which does not exist", node.name,
           node.outputs[i]);
    Value& value = values_[node.outputs[i]];
    if (value.producer != kNone || value.is_input || value.is_constant())
      fail(Status::kInvalidModel, "value '{}' is defined twice", value.name);
    value.producer = id;
    value.output_index = i;
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::add_node(Node node) {
  const NodeId id = new_node(std::move(node));
  order_.push_back(id);
  return id;
}

NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> node_inputs, uint32_t output_count,
                       Attrs attrs, std::string node_name) {
  Node node;
  node.op = &op;
  const std::string stem = node_name.empty() ? std::string(op_name(op)) : node_name;
  node.name = std::move(node_name);
  node.inputs = std::move(node_inputs);
  node.attrs = std::move(attrs);
  for (uint32_t i = 0; i < output_count; ++i) node.outputs.push_back(add_value(fresh_name(stem)));
  return add_node(std::move(node));
}

// ---- questions ----------------------------------------------------------------------------------

std::vector<NodeId> Graph::superseded() const {
  std::vector<NodeId> out;
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (!nodes_[id].alive && nodes_[id].superseded) out.push_back(id);
  return out;
}

std::optional<ValueId> Graph::find_value(std::string_view value_name) const {
  const auto it = by_name_.find(value_name);
  return it == by_name_.end() ? std::nullopt : std::optional(it->second);
}

void Graph::rename(ValueId id, std::string value_name) {
  Value& value = values_[id];
  if (value.name == value_name) return;
  if (!by_name_.emplace(value_name, id).second)
    fail(Status::kInvalidModel, "value '{}' is defined twice", value_name);
  if (const auto it = by_name_.find(value.name); it != by_name_.end() && it->second == id)
    by_name_.erase(it);
  value.name = std::move(value_name);
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> out(values_.size());
  for (NodeId id : order_)
    for (ValueId input : nodes_[id].inputs)
      if (input != kNone) out[input].push_back(id);
  return out;
}

std::string Graph::fresh_name(const std::string& stem) {
  if (!stem.empty() && by_name_.find(stem) == by_name_.end()) return stem;
  uint64_t& next = next_suffix_[stem];
  for (;;) {
    std::string candidate = stem + "." + std::to_string(++next);
    if (by_name_.find(candidate) == by_name_.end()) return candidate;
  }
}

// ---- order and copies ---------------------------------------------------------------------------

void Graph::sort() {
  Topology sorted = topological_order(
      order_, node_count(),
      [&](NodeId n) { return static_cast<uint32_t>(nodes_[n].inputs.size()); },
      [&](NodeId n, uint32_t i) {
        const ValueId input = nodes_[n].inputs[i];
        return input == kNone ? kNone : values_[input].producer;
      });
  if (sorted.cycle != kNone) {
    fail(Status::kInvalidModel, "the graph has a cycle through {}",
         node_place(*this, nodes_[sorted.cycle]));
  }
  order_ = std::move(sorted.order);
}

Graph Graph::clone() const {
  Graph out;
  out.name = name;
  out.inputs = inputs;
  out.outputs = outputs;
  out.values_ = values_;
  out.nodes_ = nodes_;
  out.order_ = order_;
  out.by_name_ = by_name_;
  out.next_suffix_ = next_suffix_;
  for (Node& node : out.nodes_)
    for (std::shared_ptr<Graph>& subgraph : node.subgraphs)
      if (subgraph) subgraph = std::make_shared<Graph>(subgraph->clone());
  return out;
}

}  // namespace xc
