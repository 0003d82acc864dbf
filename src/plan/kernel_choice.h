#pragma once
// Which implementation executes a step: the first of the backend's ordered list that takes it. The
// choice is for operands as they lie and changes nothing; copying them, or laying results out
// otherwise, is up to kernel_steps.h.

#include <vector>

#include "backends/backend.h"
#include "backends/step.h"
#include "plan/plan.h"
#include "plan/planner.h"

namespace xc {

/// A step of the node's operator without operands.
StepSpec spec_without_operands(const Node& node, const PlannerOptions& options);

/// Adds the operands of the spec's node, row-major. False: some dims are not known.
bool add_row_major_operands(const Graph& graph, StepSpec& spec);

/// The first implementation asked about the step that says yes; null: none does. `refused` (null:
/// not wanted) gets those in front of it with their reasons, behind what it holds. The reference
/// implementation is asked where `allow_reference`; where options.reference_only, it alone.
const Implementation* choose_kernel(const Backend& backend, const PlannerOptions& options,
                                    const StepSpec& spec, bool allow_reference,
                                    std::vector<Refusal>* refused);

/// Whether the node, a product that may round its operands to bf16, has an implementation that
/// takes operand 0, f32 in the graph, stored so; of another operator, its result too. Dims must be
/// known.
bool reads_bf16(const Backend& backend, const PlannerOptions& options, const Graph& graph,
                const Node& node);

/// Whether an implementation of this operator by name takes the step, the reference aside.
bool has_fast_kernel(const Backend& backend, const StepSpec& spec);

}  // namespace xc
