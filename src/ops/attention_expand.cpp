// Attention in simpler ops: products, a bias from masks and positions, softmax.

#include "ops/attention.h"
#include "ops/expansion.h"

namespace xc::attention {

namespace {

/// Input i as [batch, heads, sequence, size] in the working type.
ValueId heads_first(Expansion& e, size_t i, bool split, int64_t heads, int64_t size) {
  const ValueId x = e.widened(i);
  if (split) return x;
  const ValueId apart = e.add("Reshape", {x, e.ints({0, 0, heads, size})});
  return e.add("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

/// Each head `group` times, as exporters write it: [batch, kv_heads, total, size] to [batch,
/// kv_heads * group, total, size]. A pass reads the heads once for all (passes/share_heads.cpp).
ValueId repeated(Expansion& e, ValueId x, int64_t kv_heads, int64_t group) {
  if (group == 1) return x;
  const ValueId dims =
      e.add("Concat", {e.size(x, 0), e.ints({kv_heads * group}), e.size(x, 2), e.size(x, 3)},
            {{"axis", int64_t{0}}});
  const ValueId wide =
      e.add("Expand", {e.add("Unsqueeze", {x, e.ints({2})}), e.ints({1, 1, group, 1, 1})});
  return e.add("Reshape", {wide, dims}, {{"allowzero", int64_t{1}}});
}

/// 0, 1, ... along axis 2 of x, as integers.
ValueId positions(Expansion& e, ValueId x) {
  const ValueId size = e.add("Shape", {x}, {{"start", int64_t{2}}, {"end", int64_t{3}}});
  return e.add("Range", {e.integer(0), e.add("Squeeze", {size, e.ints({0})}), e.integer(1)});
}

/// Zero where query i may look at key j by causality, windows and cache length, minus infinity
/// elsewhere; kNone when nothing bounds it. q and k are [batch, heads, sequence, size].
ValueId position_bias(Expansion& e, const Node& node, ValueId q, ValueId k) {
  const bool causal = node.attrs.get_int("is_causal", 0) != 0;
  const int64_t left = node.attrs.get_int("left_window_size", -1);
  const int64_t right = node.attrs.get_int("right_window_size", -1);
  const bool by_position = causal || left >= 0 || right >= 0;
  if (!by_position && !e.has(kValid)) return kNone;
  const auto length = [&](ValueId x) {
    return e.add("Shape", {x}, {{"start", int64_t{2}}, {"end", int64_t{3}}});
  };
  const ValueId key = positions(e, k);
  ValueId allowed = kNone;
  const auto require = [&](ValueId condition) {
    allowed = allowed == kNone ? condition : e.add("And", {allowed, condition});
  };
  ValueId valid = kNone;
  if (e.has(kValid)) {
    const ValueId counts = e.add("Add", {length(k), e.ints({1})});
    valid = e.add("Unsqueeze", {e.below(e.in(kValid), DType::kI64, counts), e.ints({1, 2, 3})});
    require(e.add("Less", {key, valid}));
  }
  if (by_position) {
    ValueId query = e.add("Unsqueeze", {positions(e, q), e.ints({1})});
    if (valid != kNone)
      query = e.add("Add", {query, e.add("Sub", {valid, length(q)})});
    else if (e.has(kPastKey))
      query = e.add("Add", {query, length(e.in(kPastKey))});
    if (causal) require(e.add("LessOrEqual", {key, query}));
    if (left >= 0) require(e.add("GreaterOrEqual", {key, e.add("Sub", {query, e.integer(left)})}));
    if (right >= 0) require(e.add("LessOrEqual", {key, e.add("Add", {query, e.integer(right)})}));
  }
  return e.add("Where", {allowed, e.scalar(0), e.scalar(kMinusInfinity)});
}

/// The mask as something to add; kNone when there is none.
ValueId mask_bias(Expansion& e) {
  if (!e.has(kMask)) return kNone;
  if (e.dtype(kMask) == DType::kBool)
    return e.add("Where", {e.in(kMask), e.scalar(0), e.scalar(kMinusInfinity)});
  return e.cast(e.in(kMask), e.dtype(kMask), e.working());
}

/// Softmax whose rows without any key to look at are zero instead of NaN.
ValueId guarded_softmax(Expansion& e, ValueId scores, ValueId bias) {
  const ValueId weights = e.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (bias == kNone) return weights;
  const ValueId best = e.reduce("ReduceMax", bias, {-1});
  const ValueId blind = e.add("Equal", {best, e.scalar(kMinusInfinity)});
  return e.add("Where", {blind, e.scalar(0), weights});
}

}  // namespace

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  for (size_t i : {kQ, kK, kV})
    if (!e.rank(i)) return {};
  const SymDims past =
      e.has(kPastKey) && e.type(kPastKey).dims ? *e.type(kPastKey).dims : SymDims{};
  if (e.dtype(kV) != e.dtype(kQ) || (e.has(kPastKey) && past.size() != 4)) return {};
  const auto s = sizes_of<Dim>(node, *e.type(kQ).dims, *e.type(kK).dims, *e.type(kV).dims, past);
  const auto q_heads = s.q_heads.constant(), kv_heads = s.kv_heads.constant();
  const auto head = s.head.constant(), value_head = s.value_head.constant();
  if (!q_heads || !kv_heads || !head || !value_head || *head == 0 || *value_head == 0) return {};
  if (e.has(kMask)) {  // a shorter mask needs padding
    const auto& mask = e.type(kMask).dims;
    if (!mask || mask->empty() || !(mask->back() == s.total())) return {};
  }

  const ValueId q = heads_first(e, kQ, s.split, *q_heads, *head);
  ValueId k = heads_first(e, kK, s.split, *kv_heads, *head);
  ValueId v = heads_first(e, kV, s.split, *kv_heads, *value_head);
  if (e.has(kPastKey)) {
    k = e.add("Concat", {e.widened(kPastKey), k}, {{"axis", int64_t{2}}});
    v = e.add("Concat", {e.widened(kPastValue), v}, {{"axis", int64_t{2}}});
  }
  const int64_t group = *q_heads / *kv_heads;
  const ValueId keys = e.add("Transpose", {repeated(e, k, *kv_heads, group)},
                             {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  const double scale = scale_of(node, static_cast<double>(*head));
  const ValueId raw = e.product(e.add("Mul", {q, e.scalar(scale)}), keys);
  ValueId capped = raw;
  if (const double cap = node.attrs.get_float("softcap", 0); cap > 0) {
    const ValueId bent = e.add("Tanh", {e.add("Div", {raw, e.scalar(cap)})});
    capped = e.add("Mul", {bent, e.scalar(cap)});
  }
  ValueId bias = mask_bias(e);
  if (const ValueId bounds = position_bias(e, node, q, k); bounds != kNone)
    bias = bias == kNone ? bounds : e.add("Add", {bias, bounds});
  const ValueId biased = bias == kNone ? capped : e.add("Add", {capped, bias});
  const ValueId weights = guarded_softmax(e, biased, bias);
  ValueId y = e.product(weights, repeated(e, v, *kv_heads, group));
  if (!s.split) {
    y = e.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    y = e.add("Reshape", {y, e.ints({0, 0, *q_heads * *value_head})});
  }
  const ValueId stages[] = {raw, capped, biased, weights};
  std::vector<ValueId> out{e.narrowed(y)};
  const size_t wanted = node.outputs.size();
  if (wanted > 1) out.push_back(e.narrowed(k));
  if (wanted > 2) out.push_back(e.narrowed(v));
  if (wanted > 3)
    out.push_back(e.narrowed(stages[node.attrs.get_int("qk_matmul_output_mode", 0) & 3]));
  return out;
}

}  // namespace xc::attention
