// Schedule primitives: functions Kernel -> Kernel that keep every result bit. Each throws xc::Error
// with the reason when it would not be legal. Loops are named by their variable.
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

// v -> v_o over blocks of `factor` iterations (0 .. ceil), v inside; the last block is shorter. Not
// for loops that accumulate with order lanes (the reduction order would change).
Kernel split(Kernel kernel, std::string_view var, int64_t factor);
// Runs iterations in groups of `lanes`, the tail masked.
Kernel vectorize(Kernel kernel, std::string_view var, int lanes = kReductionLanes);
Kernel unroll(Kernel kernel, std::string_view var, int copies);
// Makes the outermost loop the task loop.
Kernel parallelize(Kernel kernel, std::string_view var);
// Joins two adjacent loops of equal range (the second follows the first in one block).
Kernel fuse(Kernel kernel, std::string_view first, std::string_view second);
// Runs `copies` iterations side by side (unroll and jam): every statement of the body is written
// for each, a loop inside is one loop whose body serves all of them and shares what they load.
// Iterations left over follow in a loop of their own. The loop starts at 0; at most 64 copies.
Kernel jam(Kernel kernel, std::string_view var, int copies);
// Swaps a loop with the single loop that is its whole body.
Kernel reorder(Kernel kernel, std::string_view outer);

// What the default schedule may know of the target.
struct TargetWidth {
  int lanes = 16;         // vector lanes of elementwise loops
  int registers = 32;     // vectors of that many f32 the registers hold
  int64_t grain = 16384;  // iterations per task when a flat loop is cut for parallel tasks
  // Has the code generator a function for products of f32 written as plain loops: rows in lanes,
  // one column after the other?
  bool multiplies = true;
  // And for such with accumulators that need matrix units (needs_matrix_units())?
  bool matrix_units = false;
  int64_t near_bytes = 32 << 10;  // data cache of a core, the first level
};
// Scalar loop nests in, scheduled kernel out: innermost loops become vector loops where legal, the
// outermost loop is parallel where its iterations are independent (a flat loop is split first).
Kernel schedule_default(Kernel kernel, TargetWidth width);

}  // namespace xc::loop
