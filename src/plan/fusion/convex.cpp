#include "plan/fusion/convex.h"

#include <algorithm>

namespace xc {

bool is_convex(const Graph& graph, std::span<const uint32_t> position,
               const std::unordered_set<NodeId>& inside, std::span<const NodeId> heads) {
  uint32_t first = UINT32_MAX;
  for (NodeId n : inside) first = std::min(first, position[n]);
  std::vector<NodeId> stack;
  std::unordered_set<NodeId> seen;
  const auto push_producers = [&](NodeId n) {
    for (ValueId v : graph.node(n).inputs) {
      if (v == kNone || graph.value(v).producer == kNone) continue;
      const NodeId p = graph.value(v).producer;
      if (position[p] > first && !inside.count(p) && seen.insert(p).second) stack.push_back(p);
    }
  };
  for (NodeId n : heads) push_producers(n);
  while (!stack.empty()) {
    const NodeId n = stack.back();
    stack.pop_back();
    for (ValueId v : graph.node(n).inputs)
      if (v != kNone && graph.value(v).producer != kNone && inside.count(graph.value(v).producer))
        return false;
    push_producers(n);
  }
  return true;
}

}  // namespace xc
