#pragma once
// What the kernels of Resize share: which elements of an axis make which, in which order axes are
// walked.

#include <vector>

#include "backends/cpu/control_inputs.h"
#include "ops/resize_axis.h"

namespace xc::cpu {

/// The axes of `y` from the largest stride to the smallest: walked so, the result is written in the
/// order of its memory, row-major or channels-last.
std::vector<size_t> memory_order(const OperandView& y);

/// Of a vector or a span, as a vector.
template <class Values>
auto permuted(const Values& values, const std::vector<size_t>& order) {
  std::vector<typename Values::value_type> out;
  for (size_t i : order) out.push_back(values[i]);
  return out;
}

/// Whether the samples are known only in a run: scales are operands of it. Sizes are those of the
/// result.
bool resized_by_run(const StepSpec& spec);
/// Samples of every axis; empty where the axis is kept.
std::vector<ResizeSamples> resize_axes(const StepSpec& spec, const OperandViews& views,
                                       const ControlInputs& control);

/// Of a step that resizes by nearest elements, or by any other mode.
Verdict supports_resize(const StepSpec& spec, bool nearest);

}  // namespace xc::cpu
