#pragma once
// The one edit that is no patch: captured inputs of a node and the inputs of its bodies change
// together, in place.

#include <vector>

#include "ir/graph.h"

namespace xc {

/// Drops those captured inputs of the node for which `drop` (one per capture) says so, and the
/// matching input of each of its bodies. Where the captured value is a constant, the body's input
/// becomes a constant of the body (tensors are shared); otherwise no body may read it (kInternal).
void drop_captures(Graph& graph, NodeId node, const std::vector<bool>& drop);

}  // namespace xc
