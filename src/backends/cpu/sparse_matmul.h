#pragma once
// The product of a step whose left side holds mostly zeros.

#include <memory>

#include "backends/cpu/gemm_step.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

/// A kernel for the same step that leaves out the zeros of its left side; null where there is none.
/// Where the right side has infinities or NaN nothing is left out, so results are those of the
/// whole product but for rounding. `packed`: the step's weights; null: read as they lie.
std::shared_ptr<Kernel> create_sparse_matmul(const StepSpec& spec, const MatMulSettings& settings,
                                             std::shared_ptr<const PackedWeights> packed);

}  // namespace xc::cpu
