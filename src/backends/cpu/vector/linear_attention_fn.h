#pragma once
// The recurrence of LinearAttention over some columns of one head's state, which never meet those
// beside them.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Per step t, with S the state [rows, columns] and steps between rows in elements:
///   S = keep[t] S + key[t] x change,  change = rate[t] (value[t] - (keep[t] S)^T key[t])
///   y[t] = scale * S^T query[t], for each head of a group of queries
/// Without `delta` the subtrahend and the rate fall away.
struct StateWalk {
  int64_t steps, rows, columns;
  const float* query;  ///< `rows` of each head of the group, one behind the other
  int64_t query_step, group;
  const float* key;
  int64_t key_step;
  const float* value;
  int64_t value_step;
  float* y;
  int64_t y_step, y_head;  ///< from step to step, from head to head of the group
  /// Logarithms of what is kept; null: all is. One per step, or one per row.
  const float* decay;
  int64_t decay_step;
  bool decay_per_row;
  bool delta;
  const float* rate;
  int64_t rate_step;
  float scale;
  // The state before the first step and behind the last one, which may be the same; null: zeros,
  // not wanted.
  const float* past;
  float* present;
  int64_t state_step;
  float* room;  ///< aligned to 64; LinearAttentionFns::room() of them
};
struct LinearAttentionFns {
  void (*walk)(const StateWalk&);
  int64_t columns;                ///< at most, of a walk
  int64_t (*room)(int64_t rows);  ///< elements
};
const LinearAttentionFns& linear_attention_fns(Isa isa);

namespace baseline {
const LinearAttentionFns& linear_attention_fns();
}
namespace avx2 {
const LinearAttentionFns& linear_attention_fns();
}
namespace avx512 {
const LinearAttentionFns& linear_attention_fns();
}

}  // namespace xc::cpu
