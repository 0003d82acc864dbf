#pragma once
// ConvTranspose with constant weights, phase by phase of its strides, part of "xc.conv_transpose".

#include <memory>

#include "backends/step.h"

namespace xc::cpu {

Verdict supports_phase_conv_transpose(const StepSpec& spec);
std::unique_ptr<Kernel> create_phase_conv_transpose(const StepSpec& spec);

}  // namespace xc::cpu
