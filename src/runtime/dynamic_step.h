#pragma once
// Steps whose output sizes only values tell: inferred on actual tensors, then run by the best
// kernel for the sizes found.

#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "runtime/program.h"

namespace xc {

/// What is made is charged to `budget`, unless that is null.
std::vector<Tensor> run_dynamic_step(Program& program, const Node& node,
                                     const std::vector<Tensor>& inputs, MemoryBudget* budget);

/// The same, without inference or kernel, for an operator with concrete views: a copy of each. None
/// where run_dynamic_step() has to do it.
std::vector<Tensor> copy_views(const Engine& engine, const Node& node,
                               std::span<const TensorView> inputs, MemoryBudget* budget);

}  // namespace xc
