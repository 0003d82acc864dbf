#pragma once
// What is compiled for its side effects, before a process compiles its first region: LLVM's tables
// are set up, and what the code generator keeps is there (src/codegen/library.h).

#include <string>

#include "loop/kernel.h"
#include "loop/schedule.h"

namespace xc {

/// A softmax has what most kernels are made of: rows, reductions, masks, a math function.
loop::Kernel softmax_of_rows();

/// Text of a kernel of a transposing copy and the register tiles in which blocks multiply: those of
/// loop::product_tile, and of one column, whole and of what is left of the rows.
std::string product_tiles(const loop::TargetWidth& width);

}  // namespace xc
