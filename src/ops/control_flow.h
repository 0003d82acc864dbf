#pragma once
// What the body of a loop tells about its iterations.

#include "ir/graph.h"

namespace xc {

/// True when the condition that a Loop's body gives can only be the one it was given, or the
/// constant true.
bool condition_stays(const Graph& body);
/// Dims of what the body of a Loop is given as the number of the iteration (input 0) and as the
/// condition (1): a scalar, or a vector of one element where the body declares one, as exporters
/// do.
SymDims loop_scalar_dims(const Graph& body, size_t input);

}  // namespace xc
