#pragma once
// Execution orders, written once for Graph::sort() and Patch::apply(). Private to src/ir.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace xc {

struct Topology {
  std::vector<NodeId> order;
  NodeId cycle = kNone;  ///< a node on a cycle; `order` is then incomplete
};

/// Orders `nodes` so that producers come first, otherwise keeping their sequence. `producer(n, i)`
/// is the node that defines input i of node n, kNone when that is no node; producers outside
/// `nodes` are taken along. Depth first with an own stack: chains may be long.
template <class InputCount, class Producer>
Topology topological_order(const std::vector<NodeId>& nodes, uint32_t slots,
                           const InputCount& input_count, const Producer& producer) {
  enum : uint8_t { kNew, kOpen, kDone };
  Topology out;
  out.order.reserve(nodes.size());
  std::vector<uint8_t> state(slots, kNew);
  std::vector<std::pair<NodeId, uint32_t>> stack;  // node, next input to look at
  for (NodeId root : nodes) {
    if (state[root] != kNew) continue;
    state[root] = kOpen;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      const NodeId node = stack.back().first;
      if (stack.back().second == input_count(node)) {
        state[node] = kDone;
        out.order.push_back(node);
        stack.pop_back();
        continue;
      }
      const NodeId before = producer(node, stack.back().second++);
      if (before == kNone || state[before] == kDone) continue;
      if (state[before] == kOpen) {
        out.cycle = before;
        return out;
      }
      state[before] = kOpen;
      stack.emplace_back(before, 0);
    }
  }
  return out;
}

}  // namespace xc
