#pragma once
// Structure checks of a graph, before anything else touches it and, in debug, after each pass.

#include "ir/graph.h"

namespace xc {

/// Checks the invariants of graph.h for this graph and its subgraphs; fails with kInvalidModel
/// (for a front end's graph) naming the value or node. `max_depth` bounds subgraph nesting.
void verify(const Graph& graph, int max_depth = 16);

}  // namespace xc
