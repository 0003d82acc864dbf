#include <unordered_set>

#include "ir/captures.h"
#include "passes/passes.h"

namespace xc {
namespace {

std::unordered_set<ValueId> values_read(const Graph& graph) {
  std::unordered_set<ValueId> out(graph.outputs.begin(), graph.outputs.end());
  for (NodeId id : graph.order())
    out.insert(graph.node(id).inputs.begin(), graph.node(id).inputs.end());
  return out;
}

}  // namespace

bool sink_constants(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.capture_count == 0) continue;
    std::vector<bool> drop(node.capture_count, true);
    for (const auto& body : node.subgraphs) {
      const std::unordered_set<ValueId> read = values_read(*body);
      const size_t first = body->inputs.size() - node.capture_count;
      for (size_t k = 0; k < drop.size(); ++k)
        if (read.count(body->inputs[first + k])) drop[k] = false;
    }
    int64_t dropped = 0;
    for (size_t k = 0; k < drop.size(); ++k) {
      const ValueId captured = node.inputs[node.inputs.size() - drop.size() + k];
      if (graph.value(captured).is_constant()) drop[k] = true;
      dropped += drop[k];
    }
    if (dropped == 0) continue;
    drop_captures(graph, id, drop);
    context.count("sink-constants", dropped);
    changed = true;
  }
  return changed;
}

}  // namespace xc
