#pragma once
// What the parts of Attention share: inputs and sizes.

#include <cmath>
#include <limits>
#include <vector>

#include "ops/op.h"

namespace xc::attention {

// Inputs: Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen.
inline constexpr size_t kQ = 0, kK = 1, kV = 2, kMask = 3, kPastKey = 4, kPastValue = 5, kValid = 6;
inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Sizes, concrete or symbolic. Operands of rank 3 hold their heads inside the last axis.
template <class Size>
struct Sizes {
  Size batch, q_heads, kv_heads, queries, keys, past, head, value_head;
  bool split = false;  ///< rank 4: [batch, heads, sequence, head]
  Size total() const { return past + keys; }
};

/// From the dims of Q, K, V and the past key (empty when absent).
template <class Size, class DimsT>
Sizes<Size> sizes_of(const Node& node, const DimsT& q, const DimsT& k, const DimsT& v,
                     const DimsT& past) {
  Sizes<Size> s;
  s.split = q.size() == 4;
  s.batch = q[0];
  s.past = past.empty() ? Size(0) : Size(past[2]);
  if (s.split) {
    s.q_heads = q[1];
    s.kv_heads = k[1];
    s.queries = q[2];
    s.keys = k[2];
    s.head = q[3];
    s.value_head = v[3];
    return s;
  }
  const int64_t q_heads = node.attrs.get_int("q_num_heads", 0);
  const int64_t kv_heads = node.attrs.get_int("kv_num_heads", 0);
  s.q_heads = q_heads;
  s.kv_heads = kv_heads;
  s.queries = q[1];
  s.keys = k[1];
  s.head = floor_div(Size(q[2]), Size(q_heads));
  s.value_head = floor_div(Size(v[2]), Size(kv_heads));
  return s;
}

/// What scores are multiplied by, for heads of this size.
inline double scale_of(const Node& node, double head) {
  return node.attrs.get_float("scale", 1 / std::sqrt(head));
}

/// OpDef::expand.
std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch);

}  // namespace xc::attention
