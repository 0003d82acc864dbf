#pragma once
// Which equations between sizes a run has to be asked about: those that operators need and type
// inference could not prove, because they are about numbers that only a run gives (the elements of
// an input that is a shape among them).

#include <span>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace xc {

/// The checks of a graph, in the order of its nodes. Bind evaluates them (Plan::size_checks).
std::vector<Plan::SizeCheck> size_checks(const Graph& graph);

/// Those of the nodes that inference has no proof of (proof_of_sizes()).
UnprovenNodes unproven_nodes(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace xc
