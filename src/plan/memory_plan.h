#pragma once
// Offsets of arena buffers from their lifetimes.

#include <vector>

#include "plan/bound.h"

namespace xc {

struct ArenaRequest {
  uint32_t buffer;
  int64_t bytes;
  uint32_t first_step, last_step;  ///< inclusive
};

/// Places every request so that buffers alive at the same step do not overlap; 64-byte aligned.
/// Greedy by size, first fit: within a few per cent of the lower bound on inference graphs
/// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Returns
/// the arena size.
int64_t plan_memory(const std::vector<ArenaRequest>& requests, std::vector<ArenaSlot>& out);

}  // namespace xc
