#pragma once
// The graph of a row-block region as its lowering wants it: composites expanded, rows of a softmax
// divided where fewer columns are left of them, operands of half types read as they lie.

#include "ir/graph.h"

namespace xc::fusion {

/// Rewrites the graph of one region in place, with the types of what is new inferred. Inputs and
/// constants keep their ids; nodes and the ids of outputs may change. False when a composite cannot
/// be expanded.
bool prepare_block_graph(Graph& graph);

}  // namespace xc::fusion
