#include "ir/patch.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace xc {

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
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!alive[id]) {
      patch.remove(id);
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
