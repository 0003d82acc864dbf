#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// No path leaves the set and comes back. `position`: of each node in the graph's order; `heads`:
/// the nodes of the set into which such a path could lead.
bool is_convex(const Graph& graph, std::span<const uint32_t> position,
               const std::unordered_set<NodeId>& inside, std::span<const NodeId> heads);

}  // namespace xc
