// Executable specification: runs a kernel, statement by statement, from xc_kargs. Slow, obvious.
#pragma once

#include "loop/kernel.h"
#include "loop/math.h"
#include "xc/kernel_abi.h"

namespace xc::loop {

// Returns what a compiled kernel returns. Results have the same bits as generated code for a target
// with the same `math` (NaN payloads aside).
int32_t interpret(const Kernel& kernel, const xc_kargs& args, MathLevel math = MathLevel::kFma);

}  // namespace xc::loop
