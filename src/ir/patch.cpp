#include "ir/patch.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/op_ref.h"
#include "ir/place.h"
#include "ir/topology.h"

namespace xc {

/// What apply() will do, found before anything changes.
struct Patch::Plan {
  std::vector<ValueId> now;   ///< of every value; empty when nothing is replaced
  std::vector<bool> removed;  ///< of every node
  std::vector<NodeId> order;
  std::vector<std::pair<ValueId, ValueId>> names;  ///< old, new: the name moves along
  ValueId resolve(ValueId id) const { return now.empty() || id == kNone ? id : now[id]; }
};

Patch::~Patch() {
  drop();
}

void Patch::drop() {
  for (NodeId id : added_) {
    Node& node = graph_.node(id);
    for (ValueId output : node.outputs)
      if (output != kNone) graph_.value(output).producer = kNone;
    node = Node{};
    node.alive = false;
  }
  for (ValueId id : constants_) graph_.value(id).constant = Tensor();
  for (NodeId id : removed_) graph_.node(id).superseded = false;
  clear();
}

void Patch::clear() {
  added_.clear();
  constants_.clear();
  replaced_.clear();
  becomes_.clear();
  removed_.clear();
  dropped_.clear();
  taken_.clear();
}

ValueId Patch::add_constant(const std::string& stem, Tensor tensor) {
  const ValueId id = graph_.add_constant(graph_.fresh_name(stem), std::move(tensor));
  constants_.push_back(id);
  return id;
}

std::vector<ValueId> Patch::add_node(const OpDef& op, std::vector<ValueId> inputs,
                                     uint32_t output_count, Attrs attrs, const std::string& stem) {
  Node node;
  node.op = &op;
  node.name = stem;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  return add_node(std::move(node), output_count);
}

std::vector<ValueId> Patch::add_node(Node node, uint32_t output_count) {
  XC_CHECK(node.op);
  const std::string stem = node.name.empty() ? std::string(op_name(*node.op)) : node.name;
  if (node.outputs.empty())
    for (uint32_t i = 0; i < output_count; ++i)
      node.outputs.push_back(graph_.add_value(graph_.fresh_name(stem)));
  node.made_by = label_;
  node.alive = true;
  std::vector<ValueId> outputs = node.outputs;
  added_.push_back(graph_.new_node(std::move(node)));
  return outputs;
}

void Patch::replace(ValueId old, ValueId now) {
  XC_CHECK(old < graph_.value_count() && now < graph_.value_count());
  if (old == now) return;
  if (graph_.is_output(old) || taken_.count(old) != 0) taken_.insert(becomes(now));
  replaced_.emplace_back(old, now);
  becomes_.emplace(old, now);
}

ValueId Patch::becomes(ValueId value) const {
  // A circle of replacements ends too: apply() refuses it.
  for (size_t steps = 0; steps <= becomes_.size(); ++steps) {
    const auto it = becomes_.find(value);
    if (it == becomes_.end()) break;
    value = it->second;
  }
  return value;
}

bool Patch::can_replace(ValueId old, ValueId now) const {
  if (!graph_.is_output(old) && taken_.count(old) == 0) return true;
  now = becomes(now);
  return !(graph_.value(now).is_input || graph_.is_output(now) || taken_.count(now) != 0);
}

void Patch::remove(NodeId node) {
  removed_.push_back(node);
}

void Patch::supersede(NodeId node) {
  graph_.node(node).superseded = true;
  remove(node);
}

void Patch::drop_output(NodeId node, uint32_t index) {
  const ValueId output = graph_.node(node).outputs[index];
  if (output != kNone) dropped_.push_back(output);
}

void Patch::drop_constant(ValueId constant) {
  dropped_.push_back(constant);
}

void Patch::apply() {
  if (!empty()) commit(prepare());
}

Patch::Plan Patch::prepare() const {
  Plan plan;
  if (!replaced_.empty()) {
    resolve_replaced(plan);
    hand_on_names(plan);
  }
  plan.removed.resize(graph_.node_count());
  for (NodeId id : removed_) plan.removed[id] = true;
  std::vector<NodeId> nodes;
  nodes.reserve(graph_.order().size() + added_.size());
  for (NodeId id : graph_.order())
    if (!plan.removed[id]) nodes.push_back(id);
  for (NodeId id : added_)
    if (!plan.removed[id]) nodes.push_back(id);
  check_uses(plan, nodes);
  Topology sorted = topological_order(
      nodes, graph_.node_count(),
      [&](NodeId n) { return static_cast<uint32_t>(graph_.node(n).inputs.size()); },
      [&](NodeId n, uint32_t i) {
        const ValueId used = plan.resolve(graph_.node(n).inputs[i]);
        return used == kNone ? kNone : graph_.value(used).producer;
      });
  if (sorted.cycle != kNone)
    fail(Status::kInternal, "patch {} closes a cycle through {}", label_,
         node_place(graph_, graph_.node(sorted.cycle)));
  plan.order = std::move(sorted.order);
  return plan;
}

/// Sets Plan::now, through chains of replacements.
void Patch::resolve_replaced(Plan& plan) const {
  std::unordered_map<ValueId, ValueId> next;
  for (const auto& [old, now] : replaced_)
    if (!next.emplace(old, now).second)
      fail(Status::kInternal, "patch {} replaces value '{}' twice", label_, graph_.value(old).name);
  plan.now.resize(graph_.value_count());
  for (ValueId id = 0; id < plan.now.size(); ++id) plan.now[id] = id;
  std::vector<ValueId> path;
  for (const auto& [old, first] : replaced_) {
    path.clear();
    ValueId last = old;
    for (auto it = next.find(last); it != next.end(); it = next.find(last)) {
      path.push_back(last);
      last = it->second;
      if (path.size() > next.size())
        fail(Status::kInternal, "patch {} replaces value '{}' by itself", label_,
             graph_.value(old).name);
    }
    // Shortens the chain for those behind it.
    for (ValueId id : path) next[id] = plan.now[id] = last;
  }
}

/// Sets Plan::names. Outputs keep their names, so two of them cannot become one value.
void Patch::hand_on_names(Plan& plan) const {
  std::unordered_set<ValueId> taken;
  for (ValueId output : graph_.outputs)
    if (plan.now[output] == output) taken.insert(output);
  std::unordered_set<ValueId> seen;
  for (ValueId output : graph_.outputs) {
    const ValueId now = plan.now[output];
    if (now == output || !seen.insert(output).second) continue;
    if (graph_.value(now).is_input || !taken.insert(now).second)
      fail(Status::kInternal, "patch {}: '{}' cannot take over the name of graph output '{}'",
           label_, graph_.value(now).name, graph_.value(output).name);
    plan.names.emplace_back(output, now);
  }
  for (const auto& [old, first] : replaced_)
    if (const ValueId now = plan.now[old]; now >= first_value_ && taken.insert(now).second)
      plan.names.emplace_back(old, now);
}

/// What is removed or dropped, nobody reads; `nodes` are those that stay or come.
void Patch::check_uses(const Plan& plan, const std::vector<NodeId>& nodes) const {
  const std::unordered_set<ValueId> dropped(dropped_.begin(), dropped_.end());
  const auto check_use = [&](ValueId used, const std::string& user) {
    if (!dropped.empty() && dropped.count(used))
      fail(Status::kInternal, "patch {} drops value '{}', which {} still reads", label_,
           graph_.value(used).name, user);
    const NodeId producer = graph_.value(used).producer;
    if (producer != kNone && plan.removed[producer])
      fail(Status::kInternal, "patch {} removes node '{}', whose output '{}' {} still reads",
           label_, graph_.node(producer).name, graph_.value(used).name, user);
  };
  for (ValueId output : graph_.outputs) check_use(plan.resolve(output), "a graph output");
  for (NodeId id : nodes)
    for (ValueId input : graph_.node(id).inputs)
      if (const ValueId used = plan.resolve(input); used != kNone)
        check_use(used, graph_.node(id).name);
}

/// To what stands for their values now. One of another type is not what the operator read or gave;
/// of a new one the type may not be known yet.
void Patch::redirect_superseded(const Plan& plan) {
  const auto redirect = [&](ValueId& id) {
    const ValueId now = plan.resolve(id);
    if (now == id) return;
    const DType type = graph_.value(now).type.dtype;
    if (type == DType::kUndefined || type == graph_.value(id).type.dtype) id = now;
  };
  for (NodeId id : graph_.superseded()) {
    Node& node = graph_.node(id);
    std::for_each(node.inputs.begin(), node.inputs.end(), redirect);
    std::for_each(node.outputs.begin(), node.outputs.end(), redirect);
  }
}

void Patch::commit(Plan plan) {
  if (!plan.now.empty()) {
    for (NodeId id : plan.order)
      for (ValueId& input : graph_.node(id).inputs) input = plan.resolve(input);
    std::vector<ValueId> outputs = graph_.outputs;
    for (ValueId& output : outputs) output = plan.resolve(output);
    graph_.outputs = std::move(outputs);
    for (const auto& [old, now] : plan.names) {
      std::string kept = graph_.value(old).name;
      graph_.rename(old, graph_.fresh_name("replaced." + kept));
      graph_.rename(now, std::move(kept));
    }
  }
  for (NodeId id : removed_) {
    Node& node = graph_.node(id);
    for (ValueId output : node.outputs)
      if (output != kNone) {
        graph_.value(output).producer = kNone;
        graph_.value(output).elements.reset();
      }
    if (!node.superseded) node = Node{};
    node.alive = false;
  }
  if (!plan.now.empty()) redirect_superseded(plan);
  for (ValueId id : dropped_) {
    Value& value = graph_.value(id);
    if (value.producer != kNone) graph_.node(value.producer).outputs[value.output_index] = kNone;
    value.producer = kNone;
    value.constant = Tensor();
    value.elements.reset();
  }
  graph_.set_order(std::move(plan.order));
  clear();
}

}  // namespace xc
