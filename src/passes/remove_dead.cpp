#include <algorithm>
#include <string>
#include <vector>

#include "ir/patch.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace xc {
namespace {

/// Nodes of which only the sizes were read, which are known, but that a run would refuse for some
/// sizes. Where checks of the model stay, they stay as records of what they ask. Of sizes that are
/// not the inputs' nothing is known any more once the nodes are gone.
class Asking {
 public:
  explicit Asking(const Graph& graph) : graph_(graph) {
    for (const ValueId id : graph.inputs)
      if (const auto& dims = graph.value(id).type.dims)
        for (const Dim& d : *dims) d.collect_symbols(symbols_);
  }

  bool operator()(const Node& node) const {
    const auto known = [&](ValueId id) { return id == kNone || is_known(graph_.value(id)); };
    return !node.op->control_flow && std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
           !sizes_are_proven(graph_, node);
  }

 private:
  /// A value that stays, of sizes that the inputs tell.
  bool is_known(const Value& value) const {
    if (value.is_constant()) return true;
    if (!value.type.dims) return false;
    std::vector<std::string> used;
    for (const Dim& d : *value.type.dims) d.collect_symbols(used);
    return std::all_of(used.begin(), used.end(), [&](const std::string& symbol) {
      return std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end();
    });
  }

  const Graph& graph_;
  std::vector<std::string> symbols_;
};

}  // namespace

bool remove_dead(Graph& graph, PassContext& context) {
  std::vector<bool> needed(graph.value_count());
  std::vector<bool> alive(graph.node_count());
  std::vector<ValueId> work = graph.outputs;
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    if (id == kNone || needed[id]) continue;
    needed[id] = true;
    const NodeId producer = graph.value(id).producer;
    if (producer == kNone || alive[producer]) continue;
    alive[producer] = true;
    const Node& node = graph.node(producer);
    work.insert(work.end(), node.inputs.begin(), node.inputs.end());
  }

  Patch patch(graph, "remove-dead");
  const Asking asks(graph);
  const auto keep_constants = [&](const Node& node) {
    for (const ValueId v : node.inputs)
      if (v != kNone && graph.value(v).is_constant() &&
          graph.value(v).constant.count() <= kMaxKnownElements)
        needed[v] = true;
  };
  if (!context.options.tolerant)
    for (const NodeId id : graph.superseded()) keep_constants(graph.node(id));
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!alive[id]) {
      if (!context.options.tolerant && asks(node)) {
        keep_constants(node);
        patch.supersede(id);
      } else {
        patch.remove(id);
      }
      context.count("remove-dead");
      continue;
    }
    // The number of outputs of Split and its like means something: those stay.
    if (node.op->max_outputs < 0) continue;
    for (size_t i = static_cast<size_t>(node.op->min_outputs); i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone && !needed[node.outputs[i]])
        patch.drop_output(id, static_cast<uint32_t>(i));
  }
  for (ValueId id = 0; id < graph.value_count(); ++id)
    if (graph.value(id).is_constant() && !needed[id]) patch.drop_constant(id);
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
