// Are the iterations of a loop independent of each other?
#pragma once

#include <string>

#include "loop/kernel.h"

namespace xc::loop {

// Empty when no two iterations of `loop` touch the same element with at least one of them storing
// it, and no sequential accumulator from outside is updated; else the reason. Scratch rows count
// only when `with_scratch` (a vector loop shares them between iterations, a parallel loop does
// not). Relies on the contract that the index maps of stored buffers are injective.
std::string iteration_dependence(const Kernel& kernel, const For& loop, bool with_scratch);

// The same for memory alone, scratch included.
std::string memory_dependence(const Kernel& kernel, const For& loop);

}  // namespace xc::loop
