#pragma once
// InstanceNormalization and GroupNormalization of values that lie channels-last.

#include <memory>

#include "backends/step.h"

namespace xc::cpu {

/// Null unless the input and the result lie channels-last. `groups` of channels are normalised
/// together.
std::shared_ptr<const BoundKernel> bind_pixel_norm(const StepSpec& spec, const BindContext& context,
                                                   int64_t groups, float epsilon);

}  // namespace xc::cpu
