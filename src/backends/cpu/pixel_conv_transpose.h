#pragma once
// ConvTranspose of f32 by pixels: a row of the product is all that one pixel adds to the result,
// and lies there channel by channel, so that it is added a row of channels at a time. For constant
// weights; data and result row-major or, without any transposition, channels-last.

#include <memory>

#include "backends/step.h"

namespace xc::cpu {

/// ok() where the step has that form and channels enough.
Verdict supports_pixel_conv_transpose(const StepSpec& spec);

/// Copies the weights into the order it wants.
std::unique_ptr<Kernel> create_pixel_conv_transpose(const StepSpec& spec);

}  // namespace xc::cpu
