// GroupQueryAttention of com.microsoft: attention with a cache of keys and values, as exporters of
// generative models write it. New keys are put into the cache behind those a sample has, queries
// look at what is not behind them.

#include "ops/checks.h"
#include "ops/elementwise_table.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

enum : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};

struct Heads {
  int64_t q, kv;
};
Heads heads_of(const Node& node) {
  return {node.attrs.get_int("num_heads", 1), node.attrs.get_int("kv_num_heads", 1)};
}

/// Size of a head: packed, the query holds keys and values too.
Dim head_of(const Node& node, const Dim& size, bool packed) {
  const Heads h = heads_of(node);
  return floor_div(size, packed ? h.q + 2 * h.kv : h.q);
}

bool is_causal(const Node& node) {
  return node.attrs.get_int("causal", 1) != 0;
}

void refuse_what_is_not_there(const InferContext& ctx) {
  microsoft::refuse_input(ctx, kKeyScale, "k_scale: a quantised cache");
  microsoft::refuse_input(ctx, kValueScale, "v_scale: a quantised cache");
  microsoft::refuse_output(ctx, 3, "output_qk");
  for (const char* name : {"kv_cache_bit_width", "qk_output", "sliding_window_cache"})
    if (ctx.attrs().get_int(name, 0) > 0)
      fail(Status::kUnsupported, "unsupported: attribute '{}' = {}", name,
           ctx.attrs().get_int(name, 0));
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (const auto type = ctx.attrs().get_string(name, "NONE"); type != "NONE")
      fail(Status::kUnsupported, "unsupported: attribute '{}' = '{}'", name, type);
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kQuery, type_set({DType::kF32, DType::kF16, DType::kBF16}));
  for (size_t i :
       {kKey, kValue, kPastKey, kPastValue, kCos, kSin, kBias, kSink, kQueryNorm, kKeyNorm})
    require_same_dtype(ctx, i);
  check_dtype(ctx, kLengths, type_set({DType::kI32}));
  check_dtype(ctx, kTotal, type_set({DType::kI32}));
  check_dtype(ctx, kPositions, type_set({DType::kI64}));
  refuse_what_is_not_there(ctx);
  const Heads h = heads_of(*ctx.node);
  if (h.q % h.kv != 0) ctx.error("{} query heads for {} heads of keys", h.q, h.kv);
  require_rank(ctx, kQuery, 3);
  const SymDims& q = ctx.dims(kQuery);
  const bool packed = !ctx.has(kKey);
  if (ctx.has(kKey) != ctx.has(kValue)) ctx.error("key and value come together or not at all");
  const int64_t parts = packed ? h.q + 2 * h.kv : h.q;
  if (const auto size = q[2].constant(); size && (*size == 0 || *size % parts != 0))
    ctx.error("a query of size {} does not divide into {} heads", *size, parts);
  const Dim head = head_of(*ctx.node, q[2], packed);
  for (size_t i : {kKey, kValue})
    if (ctx.has(i)) require_dims(ctx, i, {q[0], q[1], Dim(h.kv) * head});
  if (ctx.has(kPastKey) != ctx.has(kPastValue))
    ctx.error("past_key and past_value come together or not at all");
  // The cache grows to what there is in total; a larger one stays as it is.
  require_scalar(ctx, kTotal);
  const auto total = ctx.elements(kTotal);
  Dim length = total && total->size() == 1 ? (*total)[0] : ctx.fresh("the total sequence length");
  if (ctx.has(kPastKey)) {
    require_rank(ctx, kPastKey, 4);
    const Dim past = ctx.dims(kPastKey)[2];
    for (size_t i : {kPastKey, kPastValue}) require_dims(ctx, i, {q[0], h.kv, past, head});
    if (past != Dim(0)) length = max(past, length);
  }
  if (ctx.rank(kLengths) == 2)
    require_dims(ctx, kLengths, {q[0], 1});
  else
    require_vector(ctx, kLengths, q[0]);
  if (ctx.attrs().get_int("do_rotary", 0) != 0)
    for (size_t i : {kCos, kSin}) {
      if (!ctx.has(i)) ctx.error("attribute 'do_rotary' without cos_cache and sin_cache");
      require_rank(ctx, i, 2);
      require_dims(ctx, i, ctx.dims(kCos));
      if (const auto spare = (head - Dim(2) * ctx.dims(i)[1]).upper_bound(); spare && *spare < 0)
        ctx.error("caches have {} columns for heads of {}", ctx.dims(i)[1].text(), head.text());
    }
  if (ctx.has(kPositions)) require_dims(ctx, kPositions, {q[0], q[1]});
  if (ctx.has(kBias)) {
    require_rank(ctx, kBias, 4);
    const SymDims& bias = ctx.dims(kBias);
    require_dims(
        ctx, kBias,
        {bias[0] == Dim(1) ? Dim(1) : q[0], bias[1] == Dim(1) ? Dim(1) : Dim(h.q), q[1], bias[3]});
  }
  if (ctx.has(kSink)) require_vector(ctx, kSink, h.q);
  if (ctx.has(kQueryNorm) != ctx.has(kKeyNorm))
    ctx.error("q_norm_weight and k_norm_weight come together or not at all");
  for (size_t i : {kQueryNorm, kKeyNorm})
    if (ctx.has(i)) require_vector(ctx, i, head);
  if (!is_causal(*ctx.node) && ctx.attrs().get_int("local_window_size", -1) >= 0)
    ctx.error("attribute 'local_window_size' where all keys are seen ('causal' = 0)");
  ctx.set(0, ctx.dtype(kQuery), {q[0], q[1], Dim(h.q) * head});
  for (size_t k : {1u, 2u}) ctx.set(k, ctx.dtype(kQuery), {q[0], h.kv, length, head});
}

struct Grouped {
  Expansion& e;
  const Node& node;
  int64_t head;
  ValueId batch, queries, total;  ///< i64 of rank 1
  ValueId starts;                 ///< where the new keys of each sample go, [batch]
  ValueId positions;              ///< of the new tokens, [batch, queries]

  Grouped(Expansion& expansion, const Node& n, int64_t size) : e(expansion), node(n), head(size) {
    batch = e.size(e.in(kQuery), 0);
    queries = e.size(e.in(kQuery), 1);
    total = e.add("Reshape", {e.cast(e.in(kTotal), DType::kI32, DType::kI64), e.ints({1})});
    // seqlens_k has one less than a sample has keys. Padded prompts begin at 0.
    const ValueId last =
        e.add("Reshape", {e.below(e.in(kLengths), DType::kI32, total), e.ints({-1})});
    const ValueId before = e.add("Sub", {e.add("Add", {last, e.integer(1)}), queries});
    starts = e.add("Max", {before, e.integer(0)});
    positions = e.add("Add", {e.add("Unsqueeze", {starts, e.ints({1})}), e.count_up(queries)});
  }

  /// [batch, sequence, heads * head] with the heads before the sequence.
  ValueId by_heads(ValueId x, int64_t heads) {
    return e.transposed(e.add("Reshape", {x, e.ints({0, 0, heads, head})}), {0, 2, 1, 3});
  }

  /// [batch, heads, sequence, head] with each head normalised, where the node has weights for that.
  ValueId normed(ValueId x, size_t weights) {
    if (!e.has(weights)) return x;
    return e.add(
        "RMSNormalization", {x, e.in(weights)},
        {{"axis", int64_t{-1}}, {"epsilon", node.attrs.get_float("qk_norm_epsilon", 1e-6f)}});
  }

  ValueId rotated(ValueId x) {
    if (node.attrs.get_int("do_rotary", 0) == 0) return x;
    const auto half = (*e.type(kCos).dims)[1].constant();
    const int64_t size = half ? 2 * *half : head;
    return e.add("RotaryEmbedding",
                 {x, e.in(kCos), e.in(kSin), e.has(kPositions) ? e.in(kPositions) : positions},
                 {{"interleaved", node.attrs.get_int("rotary_interleaved", 0)},
                  {"rotary_embedding_dim", size == head ? int64_t{0} : size}});
  }

  /// The cache with new entries of each sample, [batch, heads, length, head].
  ValueId cached(size_t past, ValueId now, int64_t heads) {
    ValueId cache = kNone;
    if (e.has(past)) {
      cache = e.in(past);
    } else {
      const ValueId none =
          e.add("Concat", {batch, e.ints({heads, 0, head})}, {{"axis", int64_t{0}}});
      Tensor zero(e.dtype(kQuery), {1});
      store_double(zero.data(), zero.dtype(), 0, 0);
      cache = e.add("ConstantOfShape", {none}, {{"value", std::move(zero)}});
    }
    return e.add("UpdateCache", {cache, now, starts, total}, {{"axis", int64_t{2}}});
  }

  /// Zero where query i of a sample may look at key j of `keys`, minus infinity elsewhere; the bias
  /// added.
  ValueId score_bias(ValueId keys) {
    const ValueId key = e.count_up(e.size(keys, 2));
    const ValueId query = e.add("Unsqueeze", {positions, e.ints({1, 3})});
    ValueId last = query;
    if (!is_causal(node))
      last = e.add("Unsqueeze", {e.add("Add", {starts, e.add("Sub", {queries, e.integer(1)})}),
                                 e.ints({1, 2, 3})});
    ValueId seen = e.add("LessOrEqual", {key, last});
    if (const int64_t window = node.attrs.get_int("local_window_size", -1); window >= 0)
      seen =
          e.add("And", {seen, e.add("Greater", {key, e.add("Sub", {query, e.integer(window)})})});
    const ValueId out =
        e.add("Where", {seen, e.scalar(0), e.scalar(-std::numeric_limits<double>::infinity())});
    return e.has(kBias) ? e.add("Add", {out, e.widened(kBias)}) : out;
  }

  /// Does something without a value take part in the softmax, with a score per head or of 0?
  bool has_sink() const { return e.has(kSink) || node.attrs.get_int("smooth_softmax", 0) == 1; }
  /// Keys or values and one of zeros, with which every query has a score of 0.
  ValueId with_zeros(ValueId x, int64_t heads) {
    const ValueId dims = e.add("Concat", {batch, e.ints({heads, 1, head})}, {{"axis", int64_t{0}}});
    return e.add("Concat", {x, e.add("Expand", {e.scalar(0, e.dtype(kQuery)), dims})},
                 {{"axis", int64_t{2}}});
  }
  /// The bias of the scores and that of the sink.
  ValueId with_sink(ValueId bias, int64_t heads) {
    const ValueId dims =
        e.add("Concat", {batch, e.ints({heads}), queries, e.ints({1})}, {{"axis", int64_t{0}}});
    const ValueId sink =
        e.has(kSink) ? e.add("Unsqueeze", {e.widened(kSink), e.ints({0, 2, 3})}) : e.scalar(0);
    return e.add("Concat", {e.add("Expand", {bias, dims}), e.add("Expand", {sink, dims})},
                 {{"axis", int64_t{3}}});
  }
};

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(kQuery) || (e.has(kCos) && !e.rank(kCos))) return {};
  const bool packed = !e.has(kKey);
  const auto head = head_of(node, (*e.type(kQuery).dims)[2], packed).constant();
  if (!head) return {};
  const Heads h = heads_of(node);
  Grouped g(e, node, *head);
  std::vector<ValueId> parts;
  if (packed)
    parts = e.add("Split", {e.in(kQuery), e.ints({h.q * *head, h.kv * *head, h.kv * *head})}, 3,
                  {{"axis", int64_t{-1}}});
  else
    parts = {e.in(kQuery), e.in(kKey), e.in(kValue)};
  const ValueId q = g.rotated(g.normed(g.by_heads(parts[0], h.q), kQueryNorm));
  const ValueId new_keys = g.rotated(g.normed(g.by_heads(parts[1], h.kv), kKeyNorm));
  const ValueId k = g.cached(kPastKey, new_keys, h.kv);
  const ValueId v = g.cached(kPastValue, g.by_heads(parts[2], h.kv), h.kv);
  const auto used = [&](ValueId x) {
    return e.add("Slice", {x, e.ints({0}), g.total, e.ints({2})});
  };
  Expansion::AttrList attrs{{"softcap", node.attrs.get_float("softcap", 0)}};
  if (const double scale = node.attrs.get_float("scale", 0); scale != 0)
    attrs.emplace_back("scale", scale);
  ValueId keys = used(k), values = used(v), bias = g.score_bias(keys);
  if (g.has_sink()) {
    keys = g.with_zeros(keys, h.kv);
    values = g.with_zeros(values, h.kv);
    bias = g.with_sink(bias, h.q);
  }
  const ValueId y = e.add("Attention", {q, keys, values, bias}, attrs);
  const ValueId joined =
      e.add("Reshape", {e.transposed(y, {0, 2, 1, 3}), e.ints({0, 0, h.q * *head})});
  std::vector<ValueId> out{joined, k, v};
  out.resize(node.outputs.size(), kNone);
  return out;
}

}  // namespace

void register_microsoft_grouped(OpList& ops) {
  OpDef op = microsoft::op("com.microsoft::GroupQueryAttention", 1, 16, infer, expand,
                           {microsoft::flag("causal"),
                            microsoft::flag("do_rotary"),
                            {"k_quant_type", AttrKind::kString},
                            {"kv_cache_bit_width", AttrKind::kInt},
                            {"kv_num_heads", AttrKind::kInt, true, 1, INT32_MAX},
                            {"local_window_size", AttrKind::kInt, false, -1, INT32_MAX},
                            {"num_heads", AttrKind::kInt, true, 1, INT32_MAX},
                            {"qk_norm_epsilon", AttrKind::kFloat},
                            {"qk_output", AttrKind::kInt},
                            microsoft::flag("rotary_interleaved"),
                            {"scale", AttrKind::kFloat},
                            {"sliding_window_cache", AttrKind::kInt},
                            {"smooth_softmax", AttrKind::kInt, false, -1, 1},
                            {"softcap", AttrKind::kFloat},
                            {"v_quant_type", AttrKind::kString}});
  op.max_outputs = 4;
  ops.push_back(std::move(op));
}

}  // namespace xc
