#pragma once
// InstanceNormalization and GroupNormalization of values whose channels lie side by side.

#include <memory>

#include "backends/cpu/epilogue.h"
#include "backends/step.h"

namespace xc::cpu {

/// `groups` of channels are normalised together.
struct PixelNorm {
  int64_t groups;
  float epsilon;
  const Epilogue& behind;  ///< of the step
};

/// Null unless pixels of the input and of the result lie at one distance each, their channels side
/// by side: channels-last, or so between other channels.
std::shared_ptr<const BoundKernel> bind_pixel_norm(const StepSpec& spec, const BindContext& context,
                                                   const PixelNorm& norm);

}  // namespace xc::cpu
