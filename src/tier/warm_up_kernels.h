#pragma once
// What is compiled for its side effects, before a process compiles its first region: LLVM's tables
// are set up. Before the first one with products: what the code generator keeps is there
// (src/codegen/library.h).

#include <string>

#include "loop/kernel.h"

namespace xc {

/// As little as there can be: twice a vector.
loop::Kernel vector_doubled();

/// Text of a kernel of what blocks call the code generator's library for: a transposing copy,
/// products of rows in lanes, from 0 and added to what is there.
std::string products_of_rows();

}  // namespace xc
