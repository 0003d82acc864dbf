// A unit is a region or a node outside of all. Units are taken as soon as those they read from are
// there, the one that stands first in the graph's order before the others.
#include "plan/unit_order.h"

#include <set>
#include <utility>

#include "base/error.h"

namespace xc {
namespace {

void assign_regions(const Graph& graph, std::span<const PlannedRegion> regions, UnitOrder& out) {
  out.region_of.assign(graph.node_count(), kNoRegion);
  out.runs_at.assign(graph.node_count(), kNoRegion);
  std::vector<uint32_t> position(graph.node_count(), 0);
  for (uint32_t k = 0; k < graph.order().size(); ++k) position[graph.order()[k]] = k;
  for (uint32_t r = 0; r < regions.size(); ++r) {
    NodeId last = regions[r].region.nodes.front();
    for (NodeId n : regions[r].region.nodes) {
      XC_CHECK(out.region_of[n] == kNoRegion);
      out.region_of[n] = r;
      if (position[n] > position[last]) last = n;
    }
    out.runs_at[last] = r;
  }
}

/// The graph with one vertex per unit: nodes by their ids, then regions.
struct Units {
  std::vector<std::vector<NodeId>> members;
  std::vector<uint32_t> rank;     // position in the graph's order; a region ranks by its last node
  std::vector<uint32_t> waiting;  // for so many values of other units
  std::vector<std::vector<uint32_t>> followers;  // a unit for each value it reads
};

Units contract(const Graph& graph, const std::vector<uint32_t>& region_of, size_t region_count) {
  const auto unit_of = [&](NodeId n) {
    return region_of[n] == kNoRegion ? n : graph.node_count() + region_of[n];
  };
  const size_t count = graph.node_count() + region_count;
  Units units;
  units.members.resize(count);
  units.rank.assign(count, UINT32_MAX);
  units.waiting.assign(count, 0);
  units.followers.resize(count);
  uint32_t position = 0;
  for (NodeId n : graph.order()) {
    const uint32_t unit = unit_of(n);
    units.members[unit].push_back(n);
    units.rank[unit] = position++;
    for (ValueId v : graph.node(n).inputs) {
      if (v == kNone || graph.value(v).producer == kNone) continue;
      const uint32_t from = unit_of(graph.value(v).producer);
      if (from == unit) continue;
      units.followers[from].push_back(unit);
      ++units.waiting[unit];
    }
  }
  return units;
}

}  // namespace

UnitOrder order_units(const Graph& graph, std::span<const PlannedRegion> regions) {
  UnitOrder out;
  assign_regions(graph, regions, out);
  if (regions.empty()) {
    out.nodes = graph.order();
    return out;
  }
  Units units = contract(graph, out.region_of, regions.size());
  std::set<std::pair<uint32_t, uint32_t>> ready;  // by rank
  for (uint32_t unit = 0; unit < units.members.size(); ++unit)
    if (!units.members[unit].empty() && units.waiting[unit] == 0)
      ready.emplace(units.rank[unit], unit);
  while (!ready.empty()) {
    const uint32_t unit = ready.begin()->second;
    ready.erase(ready.begin());
    out.nodes.insert(out.nodes.end(), units.members[unit].begin(), units.members[unit].end());
    for (uint32_t next : units.followers[unit])
      if (--units.waiting[next] == 0) ready.emplace(units.rank[next], next);
  }
  if (out.nodes.size() != graph.order().size())
    fail(Status::kInternal, "the fused regions are not convex");
  return out;
}

}  // namespace xc
