#pragma once
// Which steps only the run can size, and where segments end: behind a step that finds out sizes
// that were not known (plan.h).

#include <memory>

#include "ir/graph.h"
#include "plan/plan.h"
#include "plan/plan_symbols.h"
#include "plan/plan_values.h"

namespace xc {

/// Appends a step to the last segment of a plan under construction.
void append_step(Plan& plan, std::shared_ptr<const Step> step);

/// Sequences, optionals and maps are objects, not elements in memory.
bool is_container(const Value& value);

/// Whether the executor has to run a node on whole tensors: output sizes that only values tell,
/// operands whose rank is not known before the run, and strings and containers, which are objects
/// that no arena holds.
bool needs_values(const Plan& plan, const Node& node, const PlanSymbols& symbols,
                  const PlanValues& values);

/// Appends such a step, or one of control flow, with its results. New symbols in the dims of its
/// results end the segment.
void add_whole_tensor_step(Plan& plan, NodeId id, Step::Kind kind, PlanSymbols& symbols,
                           PlanValues& values);

}  // namespace xc
