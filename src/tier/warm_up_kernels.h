#pragma once
// What is compiled for its side effects, before a process compiles its first region: LLVM's tables
// are set up, and what the code generator keeps is there (src/codegen/library.h).

#include <string>

#include "loop/kernel.h"
#include "loop/schedule.h"

namespace xc {

/// A softmax has what most kernels are made of: rows, reductions, masks, a math function.
loop::Kernel softmax_of_rows();

/// Text of a kernel of what blocks call the code generator's library for: a transposing copy,
/// products of rows in lanes, from 0 and added to what is there.
std::string products();

}  // namespace xc
