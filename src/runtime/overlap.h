#pragma once
// Memory that a caller gives for results.

#include <span>

#include "runtime/tensor_handle.h"

namespace xc {

/// Fails with kInvalidArgument when a given output (not null) shares memory with an input or with
/// another output: a run writes results while it still reads inputs.
void check_apart(std::span<const TensorView> inputs, std::span<xc_tensor* const> outputs);

}  // namespace xc
