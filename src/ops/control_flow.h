#pragma once
// What the body of a loop tells about its iterations.

#include "ir/graph.h"

namespace xc {

/// True when the condition that a Loop's body gives can only be the one it was given, or the
/// constant true.
bool condition_stays(const Graph& body);

}  // namespace xc
