#pragma once
// Which nodes are no step: shape arithmetic, whose numbers are known once sizes are, and views,
// whose results are their operand's elements with other strides. Both depend on what the plan knows
// where the node stands.

#include "ir/graph.h"
#include "plan/plan.h"
#include "plan/plan_symbols.h"
#include "plan/plan_values.h"

namespace xc {

/// Shape arithmetic needs no step: the Bound holds the numbers. Adds the node's results and returns
/// true, or false and adds nothing when some symbol of theirs is not known.
bool place_sizes(const Plan& plan, const Node& node, const PlanSymbols& symbols,
                 PlanValues& values);

/// The results of a view, in the buffer of its operand. False when the operator is none for these
/// strides, or sizes are not known; then only the operand may have been added (a constant).
bool place_view(const Plan& plan, const Node& node, const PlanSymbols& symbols, PlanValues& values);

}  // namespace xc
