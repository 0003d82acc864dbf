// The rules every kernel keeps; each has its name in the message (tests reject each rule).
// Level kBuilt (after build and between schedule steps):
//   types      operand and result types of every operation as in expr.h
//   names      parameters, variables, registers, accumulators: one namespace, unique identifiers
//   handles    every id exists; buffers: parameters first, then scratch (rank 1, stride 1)
//   scope      loop variables, registers and accumulators are used only where visible; a register
//   or
//              accumulator is defined once, a loop variable belongs to one loop
//   rank       as many indices as the buffer has dimensions
//   bounds     loop bounds are i64 over constants, dims, outer loop variables with + - * / min max;
//              scratch sizes the same over dims
//   access     no store to an `in` buffer, no load from an `out` buffer that the kernel has not
//   stored parallel   at most one parallel loop, outermost, and nothing but registers beside it acc
//   accumulate only inside a loop within its declaration's block; read only after the last
//              accumulate, never inside a loop that accumulates it; index given iff arg-reduction
//   vector     lanes in {4, 8, 16, 32, 64}; no loop between iterations of a vector loop: what is
//              stored there depends on its variable, and is loaded there only at the same indices;
//              no vector or parallel loop inside; bounds of inner loops do not depend on its
//              variable
//   limits     at most 64 buffers and as many pieces of scratch, 10 000 nodes, 64 levels of loops,
//              expressions 2 000 deep, factors <= 64
// Level kScheduled (what code generation accepts), in addition:
//   lanes      every accumulate of order lanes is directly in a vector(16) loop's body, with its
//              accumulator declared outside; accumulators declared inside vector loops are
//              sequential
#pragma once

#include "loop/kernel.h"

namespace xc::loop {

enum class Level : uint8_t { kBuilt, kScheduled };

constexpr size_t kMaxNodes = 10'000;
constexpr size_t kMaxExprDepth = 2'000;  // of an expression, subscripts and guards included

// Throws xc::Error naming the rule, the place and the offending text.
void verify(const Kernel& kernel, Level level = Level::kBuilt);

}  // namespace xc::loop
