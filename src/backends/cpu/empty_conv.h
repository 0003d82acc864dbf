#pragma once
// Convolutions of f32 whose input turns out empty when they are bound: windows over padding alone.

#include <memory>

#include "backends/cpu/epilogue.h"
#include "backends/step.h"

namespace xc::cpu {

/// The bias, or zeros, and what follows it. `behind`: the step's post-ops.
std::shared_ptr<BoundKernel> bind_empty_conv(const StepSpec& spec, const BindContext& context,
                                             const Epilogue& behind);

}  // namespace xc::cpu
