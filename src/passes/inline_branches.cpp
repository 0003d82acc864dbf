#include <unordered_map>

#include "ir/patch.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Copies the branch into the graph around it; the If's outputs become what the branch gives.
class Inliner {
 public:
  Inliner(Graph& graph, Patch& patch) : graph_(graph), patch_(patch) {}

  void run(const Node& node, Graph& branch) {
    now_.clear();
    const size_t first = node.inputs.size() - node.capture_count;
    for (size_t i = 0; i < branch.inputs.size(); ++i)
      now_[branch.inputs[i]] = node.inputs[first + i];
    for (NodeId id : branch.order()) copy(branch, branch.node(id));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId old = node.outputs[i];
      if (old == kNone) continue;
      ValueId result = resolve(branch, branch.outputs[i]);
      if (!patch_.can_replace(old, result)) result = add_copy(graph_, patch_, result, node.name);
      patch_.replace(old, result);
    }
  }

 private:
  ValueId resolve(const Graph& branch, ValueId id) {
    if (id == kNone) return kNone;
    const auto [it, added] = now_.emplace(id, kNone);
    if (added) {  // everything but constants was mapped before
      const Value& value = branch.value(id);
      XC_CHECK(value.is_constant());
      it->second = patch_.add_constant(value.name, value.constant);
    }
    return it->second;
  }

  void copy(const Graph& branch, const Node& from) {
    Node node;
    node.op = from.op;
    node.name = from.name;
    node.attrs = from.attrs;
    node.capture_count = from.capture_count;
    // The branch goes away with its If, so its own bodies can move.
    node.subgraphs = from.subgraphs;
    for (ValueId input : from.inputs) node.inputs.push_back(resolve(branch, input));
    for (ValueId output : from.outputs) {
      if (output == kNone) {
        node.outputs.push_back(kNone);
        continue;
      }
      const Value& value = branch.value(output);
      const ValueId id = graph_.add_value(graph_.fresh_name(value.name), value.type);
      graph_.value(id).elements = value.elements;
      node.outputs.push_back(id);
      now_[output] = id;
    }
    const auto count = static_cast<uint32_t>(node.outputs.size());
    patch_.add_node(std::move(node), count);
  }

  Graph& graph_;
  Patch& patch_;
  std::unordered_map<ValueId, ValueId> now_;  // of the branch -> of the graph
};

}  // namespace

bool inline_branches(Graph& graph, PassContext& context) {
  Patch patch(graph, "inline-branches");
  Inliner inliner(graph, patch);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "If") || node.subgraphs.size() != 2) continue;
    const auto condition = known_integers(graph.value(node.inputs[0]));
    if (!condition || condition->size() != 1) continue;
    Graph& branch = *node.subgraphs[condition->front() != 0 ? 0 : 1];
    if (branch.inputs.size() != node.capture_count || branch.outputs.size() < node.outputs.size())
      continue;  // not an If that infers; said elsewhere
    inliner.run(node, branch);
    patch.remove(id);
    context.count("inline-branches");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
