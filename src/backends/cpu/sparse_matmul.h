#pragma once
// The product of a step whose left side holds mostly zeros ("xc.matmul of nonzeros").

#include <memory>

#include "backends/cpu/gemm_step.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// A kernel for the same step that leaves out the zeros of its left side; null where there is none.
/// Where the right side has infinities or NaN nothing is left out, so results are those of the
/// whole product but for rounding. `packed`: the step's weights, read instead of what was packed.
std::shared_ptr<Kernel> create_sparse_matmul(const StepSpec& spec, const MatMulSettings& settings,
                                             std::shared_ptr<const PackedWeights> packed);

}  // namespace xc::cpu
