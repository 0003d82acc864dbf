#pragma once
// Which nodes one step executes: a node alone, or an anchor and the chain of elementwise nodes
// behind it that a kernel applies to the anchor's result before it is stored (PostOp).

#include <functional>
#include <vector>

#include "backends/step.h"
#include "ir/graph.h"

namespace xc {

/// What becomes one step.
struct Unit {
  std::vector<NodeId> nodes;     ///< anchor, then post-ops
  std::vector<ValueId> inputs;   ///< operands of the step, as in StepSpec::inputs
  std::vector<PostOp> post_ops;  ///< of the nodes behind the anchor
  std::vector<ValueId> outputs;  ///< of the last node
};

Unit single_unit(const Graph& graph, NodeId node);

/// The anchor with as many of the elementwise nodes behind it as a kernel takes. A node is absorbed
/// when it alone reads the chain's result so far and keeps its dims and its type (the last may
/// store f32 in halves), is not `taken` by another unit, and the unit with it `has_kernel`, which
/// is asked once per node, in order, until it says no. No graph output lies inside.
Unit with_post_ops(const Graph& graph, const std::vector<std::vector<NodeId>>& users, NodeId anchor,
                   const std::function<bool(NodeId)>& taken,
                   const std::function<bool(const Unit&)>& has_kernel);

}  // namespace xc
