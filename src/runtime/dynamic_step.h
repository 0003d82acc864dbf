#pragma once
// Steps whose output sizes only values tell: inferred on actual tensors, then run by the best
// kernel for the sizes found.

#include <vector>

#include "base/memory_budget.h"
#include "runtime/program.h"

namespace xc {

/// What is made is charged to `budget`, unless that is null.
std::vector<Tensor> run_dynamic_step(Program& program, const Node& node,
                                     const std::vector<Tensor>& inputs, MemoryBudget* budget);

}  // namespace xc
