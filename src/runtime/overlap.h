#pragma once
// Memory that a caller gives for results.

#include <span>

#include "runtime/tensor_handle.h"

namespace xc {

/// Whether a given output (not null) lies exactly where a row-major input does. Fails with
/// kInvalidArgument when one shares memory with an input otherwise, with strings, or with another
/// output: a run writes results while it still reads inputs.
bool shares_inputs(std::span<const TensorView> inputs, std::span<xc_tensor* const> outputs);

}  // namespace xc
