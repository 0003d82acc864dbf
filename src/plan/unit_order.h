#pragma once
// In which order a plan makes its steps when regions stand for several nodes each: the graph's
// order, with the nodes of a region side by side at a place where all it reads is there.

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "plan/planner.h"

namespace xc {

inline constexpr uint32_t kNoRegion = UINT32_MAX;

struct UnitOrder {
  std::vector<NodeId> nodes;        ///< all of the graph, in the order to plan them
  std::vector<uint32_t> region_of;  ///< per node (slot): its region, or kNoRegion
  std::vector<uint32_t> runs_at;    ///< per node (slot): the region it is the last of, or kNoRegion
};

/// A topological order of the graph with regions contracted. Ties keep the graph's order, in which
/// a region stands where its last node does. Fails (kInternal) when the regions overlap or are not
/// convex.
UnitOrder order_units(const Graph& graph, std::span<const PlannedRegion> regions);

}  // namespace xc
