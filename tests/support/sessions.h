#pragma once
// Whole sessions in tests: run one on tensors, and numbers to feed it.

#include <vector>

#include "runtime/session.h"

namespace xc::testing {

/// Runs with inputs in graph order; copies of the outputs.
std::vector<Tensor> run(Session& session, const std::vector<Tensor>& inputs);

/// sin(0.37 i + shift) * scale as f32.
Tensor ramp(Dims dims, double scale, double shift);

}  // namespace xc::testing
