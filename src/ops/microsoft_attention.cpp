// Attention, QAttention and MultiHeadAttention of com.microsoft, as the standard's Attention: their
// masks become a bias that is added to the scores, their packed operands are taken apart.

#include <limits>

#include "base/checked.h"
#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

constexpr TypeSet kMaskType = type_set({DType::kI32});

// ---- what both share ----------------------------------------------------------------------------

constexpr size_t kNowhere = SIZE_MAX;

struct Masking {
  size_t mask, bias;  ///< inputs: of keys, and what is added to scores
};

/// Does a mask of one axis say where the keys of a sample begin, behind where they end?
bool has_begins(const Dim& mask, const Dim& batch) {
  return mask == Dim(2) * batch && mask != batch;
}

/// A mask of keys: their number per sample [batch], or those and then where they begin [2 * batch],
/// or 0 where they are padding, [batch, total] or [batch, queries, total]. A bias: [1 or batch, 1
/// or heads, queries, total].
void check_masks(const InferContext& ctx, const Masking& at, const Dim& batch, const Dim& queries,
                 const Dim& total) {
  if (ctx.has(at.mask)) {
    const size_t rank = ctx.rank(at.mask);
    if (rank == 4) fail(Status::kUnsupported, "unsupported: a mask of rank 4");
    if (rank == 1 && !has_begins(ctx.dims(at.mask)[0], batch)) require_vector(ctx, at.mask, batch);
    if (rank == 2) require_dims(ctx, at.mask, {batch, total});
    if (rank == 3) require_dims(ctx, at.mask, {batch, queries, total});
  }
  if (!ctx.has(at.bias)) return;
  require_rank(ctx, at.bias, 4);
  const int64_t heads = ctx.attrs().get_int("num_heads", 1);
  const SymDims& bias = ctx.dims(at.bias);
  require_dims(ctx, at.bias,
               {bias[0] == Dim(1) ? Dim(1) : batch, bias[1] == Dim(1) ? Dim(1) : Dim(heads),
                queries, total});
}

/// The mask and the bias as one summand of the scores, in the `working` type; kNone without both.
/// `total`: how many keys there are, an i64 of rank 1.
ValueId score_bias(Expansion& e, const Node& node, const Masking& at, ValueId total,
                   DType working) {
  ValueId out = e.has(at.bias) ? e.cast(e.in(at.bias), e.dtype(at.bias), working) : ValueId{kNone};
  if (!e.has(at.mask)) return out;
  const double filter = node.attrs.get_float("mask_filter_value", -10000);
  const ValueId mask = e.cast(e.in(at.mask), DType::kI32, DType::kI64);
  ValueId seen = kNone;
  switch (*e.rank(at.mask)) {
    case 1: {
      const ValueId batch = e.size(e.in(0), 0);
      const ValueId places = e.count_up(total);
      const auto per_sample = [&](ValueId vector) {
        return e.add("Unsqueeze", {vector, e.ints({1, 2, 3})});
      };
      const Dim &length = (*e.type(at.mask).dims)[0], &samples = (*e.type(0).dims)[0];
      if (length == samples ||
          (length.is_constant() && samples.is_constant() && !has_begins(length, samples))) {
        // Reshape holds it to one per sample: of one sample it would broadcast otherwise.
        seen = e.add("Less", {places, per_sample(e.add("Reshape", {mask, batch}))});
        break;
      }
      ValueId ends = kNone, begins = kNone;
      if (has_begins(length, samples)) {
        const auto both =
            e.add("Split", {mask}, 2, {{"axis", int64_t{0}}, {"num_outputs", int64_t{2}}});
        ends = both[0], begins = both[1];
      } else {
        // A run tells which it is: behind the ends alone come places to begin at 0.
        const ValueId zeros = e.add("Expand", {e.integer(0), batch});
        const ValueId all = e.add("Concat", {mask, zeros}, {{"axis", int64_t{0}}});
        const ValueId twice = e.add("Add", {batch, batch});
        ends = e.add("Slice", {all, e.ints({0}), batch});
        begins = e.add("Slice", {all, batch, twice});
      }
      seen = e.add("And", {e.add("Less", {places, per_sample(ends)}),
                           e.add("GreaterOrEqual", {places, per_sample(begins)})});
      break;
    }
    case 2:
      seen = e.add("Unsqueeze", {e.add("Greater", {mask, e.integer(0)}), e.ints({1, 2})});
      break;
    default:
      seen = e.add("Unsqueeze", {e.add("Greater", {mask, e.integer(0)}), e.ints({1})});
  }
  const ValueId hidden = e.add("Where", {seen, e.scalar(0, working), e.scalar(filter, working)});
  return out == kNone ? hidden : e.add("Add", {out, hidden});
}

bool is_unidirectional(const Node& node) {
  return node.attrs.get_int("unidirectional", 0) != 0;
}

Expansion::AttrList attention_attrs(const Node& node, bool heads_inside, bool causal) {
  Expansion::AttrList out{{"is_causal", int64_t{causal}}};
  if (const double scale = node.attrs.get_float("scale", 0); scale != 0)
    out.emplace_back("scale", scale);
  const int64_t heads = node.attrs.get_int("num_heads", 1);
  if (heads_inside) {
    out.emplace_back("q_num_heads", heads);
    out.emplace_back("kv_num_heads", heads);
  }
  return out;
}

void require_heads(const InferContext& ctx, const Dim& size, int64_t heads) {
  if (const auto n = size.constant(); n && *n % heads != 0)
    ctx.error("a size of {} does not divide into {} heads", *n, heads);
}

// ---- MultiHeadAttention -------------------------------------------------------------------------

namespace multi_head {

enum : size_t {
  kQuery,
  kKey,
  kValue,
  kBias,
  kMask,
  kScoreBias,
  kPastKey,
  kPastValue,
  kPastLength,
  kBeams
};
constexpr Masking kMasking{kMask, kScoreBias};

/// How the operands come: [batch, sequence, size] each; keys and values as [batch, heads, sequence,
/// head]; keys and values in one [batch, sequence, heads, 2, head]; all in one.
enum class Form : uint8_t { kApart, kKeysByHead, kPackedKeys, kPackedAll };

struct Sizes {
  Dim batch, queries, keys, head, value_head;
};

Form form_of(const InferContext& ctx) {
  const size_t rank = ctx.rank(kQuery);
  if (!ctx.has(kKey)) {
    if (ctx.has(kValue)) ctx.error("a value without a key");
    if (rank != 5) ctx.error("query has rank {}, expected 5 without a key", rank);
    return Form::kPackedAll;
  }
  require_rank(ctx, kQuery, 3);
  const size_t keys = ctx.rank(kKey);
  if (!ctx.has(kValue)) {
    if (keys != 5) ctx.error("key has rank {}, expected 5 without a value", keys);
    return Form::kPackedKeys;
  }
  if (keys != 3 && keys != 4) ctx.error("key has rank {}, expected 3 or 4", keys);
  require_rank(ctx, kValue, keys);
  return keys == 4 ? Form::kKeysByHead : Form::kApart;
}

Sizes sizes_of(const InferContext& ctx, Form form) {
  const int64_t heads = ctx.attrs().get_int("num_heads", 1);
  const SymDims& q = ctx.dims(kQuery);
  if (form == Form::kPackedAll) {
    require_dims(ctx, kQuery, {q[0], q[1], heads, 3, q[4]});
    return {q[0], q[1], q[1], q[4], q[4]};
  }
  require_heads(ctx, q[2], heads);
  Sizes s{q[0], q[1], 0, floor_div(q[2], heads), floor_div(q[2], heads)};
  const SymDims& k = ctx.dims(kKey);
  if (form == Form::kPackedKeys) {
    s.keys = k[1];
    require_dims(ctx, kKey, {s.batch, s.keys, heads, 2, s.head});
    return s;
  }
  const SymDims& v = ctx.dims(kValue);
  if (form == Form::kKeysByHead) {
    s.keys = k[2];
    s.value_head = v[3];
    require_dims(ctx, kKey, {s.batch, heads, s.keys, s.head});
    require_dims(ctx, kValue, {s.batch, heads, s.keys, s.value_head});
    return s;
  }
  s.keys = k[1];
  require_heads(ctx, v[2], heads);
  s.value_head = floor_div(v[2], heads);
  require_dims(ctx, kKey, {s.batch, s.keys, q[2]});
  require_dims(ctx, kValue, {s.batch, s.keys, v[2]});
  return s;
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kQuery, kFloats);
  for (size_t i : {kKey, kValue, kBias, kScoreBias, kPastKey, kPastValue})
    require_same_dtype(ctx, i);
  check_dtype(ctx, kMask, kMaskType);
  microsoft::refuse_input(ctx, kPastLength, "past_sequence_length: a buffer shared with the past");
  microsoft::refuse_input(ctx, kBeams, "cache_indirection");
  microsoft::refuse_output(ctx, 3, "qk");
  const int64_t heads = ctx.attrs().get_int("num_heads", 1);
  const Form form = form_of(ctx);
  const Sizes s = sizes_of(ctx, form);
  if (ctx.has(kBias)) {
    if (form != Form::kApart && form != Form::kKeysByHead)
      fail(Status::kUnsupported, "unsupported: input {} (bias) with packed operands",
           size_t{kBias});
    require_vector(ctx, kBias, Dim(2 * heads) * s.head + Dim(heads) * s.value_head);
  }
  Dim total = s.keys;
  if (ctx.has(kPastKey) != ctx.has(kPastValue))
    ctx.error("past_key and past_value come together or not at all");
  if (ctx.has(kPastKey)) {
    require_rank(ctx, kPastKey, 4);
    const Dim past = ctx.dims(kPastKey)[2];
    require_dims(ctx, kPastKey, {s.batch, heads, past, s.head});
    require_dims(ctx, kPastValue, {s.batch, heads, past, s.value_head});
    total = total + past;
  }
  check_masks(ctx, kMasking, s.batch, s.queries, total);
  ctx.set(0, ctx.dtype(kQuery), {s.batch, s.queries, Dim(heads) * s.value_head});
  ctx.set(1, ctx.dtype(kQuery), {s.batch, heads, total, s.head});
  ctx.set(2, ctx.dtype(kQuery), {s.batch, heads, total, s.value_head});
}

/// onnxruntime lets the last query look at all keys, also where there are keys behind it.
enum class Causal : uint8_t { kNo, kYes, kButTheLast };

Causal causal_of(const Expansion& e, const Node& node) {
  if (!is_unidirectional(node)) return Causal::kNo;
  if (!e.has(kKey)) return Causal::kYes;
  const auto &q = e.type(kQuery).dims, &k = e.type(kKey).dims;
  if (!q || !k) return Causal::kButTheLast;
  const Dim &queries = (*q)[1], &keys = (*k)[k->size() == 4 ? 2 : 1];
  if (queries == keys) return Causal::kYes;
  return queries == Dim(1) ? Causal::kNo : Causal::kButTheLast;
}

/// `bias`, or nothing, and minus infinity for keys behind a query that is not the last.
ValueId with_causal(Expansion& e, ValueId bias, ValueId total) {
  const ValueId queries = e.size(e.in(kQuery), 1);
  const ValueId query = e.add("Unsqueeze", {e.count_up(queries), e.ints({1})});
  const ValueId own = e.has(kPastKey) ? e.add("Add", {query, e.size(e.in(kPastKey), 2)}) : query;
  const ValueId is_last = e.add("Equal", {query, e.add("Sub", {queries, e.integer(1)})});
  const ValueId seen = e.add("Or", {e.add("LessOrEqual", {e.count_up(total), own}), is_last});
  const ValueId hidden =
      e.add("Where", {seen, e.scalar(0), e.scalar(-std::numeric_limits<double>::infinity())});
  return bias == kNone ? hidden : e.add("Add", {bias, hidden});
}

/// [batch, sequence, heads, head] with the heads before the sequence.
ValueId heads_first(Expansion& e, ValueId x) {
  return e.transposed(x, {0, 2, 1, 3});
}

/// Entry k of axis 3 of a packed operand, heads first.
ValueId entry(Expansion& e, size_t i, int64_t k) {
  return heads_first(e, e.add("Gather", {e.in(i), e.integer(k)}, {{"axis", int64_t{3}}}));
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t heads = node.attrs.get_int("num_heads", 1);
  for (size_t i : {kQuery, kKey, kMask})
    if (e.has(i) && !e.rank(i)) return {};
  ValueId q = e.in(kQuery), k = kNone, v = kNone;
  bool split = true;  // operands of rank 4, heads first
  if (!e.has(kKey)) {
    q = entry(e, kQuery, 0);
    k = entry(e, kQuery, 1);
    v = entry(e, kQuery, 2);
  } else {
    k = e.in(kKey);
    v = e.optional(kValue);
    split = *e.rank(kKey) != 3;
    if (split) {
      const auto size = (*e.type(kQuery).dims)[2].constant();
      if (!size) return {};
      if (e.has(kBias))  // keys and values that lie by head have theirs already
        q = e.add("Add", {q, e.add("Slice", {e.in(kBias), e.ints({0}), e.ints({*size})})});
      q = heads_first(e, e.add("Reshape", {q, e.ints({0, 0, heads, *size / heads})}));
    }
    if (!e.has(kValue)) {
      k = entry(e, kKey, 0);
      v = entry(e, kKey, 1);
    }
  }
  if (e.has(kBias) && !split) {
    const auto size = (*e.type(kQuery).dims)[2].constant();
    const auto& values = e.type(kValue).dims;
    const auto value_size = values ? values->back().constant() : std::nullopt;
    if (!size || !value_size) return {};
    const auto parts = e.add("Split", {e.in(kBias), e.ints({*size, *size, *value_size})}, 3,
                             {{"axis", int64_t{0}}});
    q = e.add("Add", {q, parts[0]});
    k = e.add("Add", {k, parts[1]});
    v = e.add("Add", {v, parts[2]});
  }
  ValueId total = e.size(k, split ? 2 : 1);
  std::vector<ValueId> inputs{q, k, v};
  if (e.has(kPastKey)) total = e.add("Add", {total, e.size(e.in(kPastKey), 2)});
  ValueId bias = score_bias(e, node, kMasking, total, e.working());
  const Causal causal = causal_of(e, node);
  if (causal == Causal::kButTheLast) bias = with_causal(e, bias, total);
  inputs.push_back(bias);
  if (e.has(kPastKey)) {
    inputs.push_back(e.in(kPastKey));
    inputs.push_back(e.in(kPastValue));
  }
  const uint32_t outputs = microsoft::wants(node, 2) ? 3 : microsoft::wants(node, 1) ? 2 : 1;
  auto out = e.add("Attention", std::move(inputs), outputs,
                   attention_attrs(node, !split, causal == Causal::kYes));
  if (split) out[0] = e.add("Reshape", {heads_first(e, out[0]), e.ints({0, 0, -1})});
  out.resize(node.outputs.size(), kNone);
  return out;
}

}  // namespace multi_head

// ---- what is projected first --------------------------------------------------------------------

// Inputs of Attention and QAttention: x [batch, sequence, size], weights [size, q + k + v], bias of
// their columns; past [2, batch, heads, length, head].
struct Projection {
  size_t x, weights, bias;
  Masking masking;
  size_t past;
};

/// Sizes of q, k and v in the columns of the weights; empty when not known.
std::vector<int64_t> parts_of(const Node& node, const SymDims& weights) {
  const auto given = node.attrs.get_ints("qkv_hidden_sizes");
  if (!given.empty()) return given;
  const auto columns = weights[1].constant();
  if (!columns) return {};
  return std::vector<int64_t>(3, *columns / 3);
}

/// Sets both outputs, which are of type `type`.
void infer_projection(InferContext& ctx, const Projection& at, DType type) {
  require_rank(ctx, at.x, 3);
  require_rank(ctx, at.weights, 2);
  const SymDims &x = ctx.dims(at.x), &weights = ctx.dims(at.weights);
  const int64_t heads = ctx.attrs().get_int("num_heads", 1);
  require_dims(ctx, at.weights, {x[2], weights[1]});
  Dim key_size = floor_div(weights[1], 3), value_size = key_size;
  if (const auto parts = ctx.attrs().get_ints("qkv_hidden_sizes"); !parts.empty()) {
    if (parts.size() != 3 || parts[0] != parts[1] || parts[0] < 1 || parts[2] < 1)
      ctx.error("attribute 'qkv_hidden_sizes' is no triple with equal sizes of query and key");
    key_size = parts[0];
    value_size = parts[2];
    require_dims(ctx, at.weights, {x[2], checked_add(checked_add(parts[0], parts[1]), parts[2])});
  } else if (const auto columns = weights[1].constant(); columns && *columns % 3 != 0) {
    ctx.error("weights have {} columns, which is no multiple of 3", *columns);
  }
  require_heads(ctx, key_size, heads);
  require_heads(ctx, value_size, heads);
  if (ctx.has(at.bias)) require_vector(ctx, at.bias, weights[1]);
  Dim total = x[1];
  const Dim head = floor_div(key_size, heads);
  if (ctx.has(at.past)) {
    if (known_different(key_size, value_size))
      ctx.error("a past for keys and values of different sizes");
    require_rank(ctx, at.past, 5);
    const Dim past = ctx.dims(at.past)[3];
    require_dims(ctx, at.past, {2, x[0], heads, past, head});
    total = total + past;
  }
  check_masks(ctx, at.masking, x[0], x[1], total);
  ctx.set(0, type, {x[0], x[1], value_size});
  ctx.set(1, type, {2, x[0], heads, total, head});
}

/// Is what attended() asks for known?
bool is_known(const Expansion& e, const Node& node, const Projection& at) {
  return e.rank(at.weights) && !(e.has(at.masking.mask) && !e.rank(at.masking.mask)) &&
         !parts_of(node, *e.type(at.weights).dims).empty();
}

/// Attention over the columns of `y` [batch, sequence, q + k + v], which are of type `type`.
std::vector<ValueId> attended(Expansion& e, const Node& node, const Projection& at, ValueId y,
                              DType type) {
  const auto parts = parts_of(node, *e.type(at.weights).dims);
  std::vector<ValueId> inputs = e.add("Split", {y, e.ints(parts)}, 3, {{"axis", int64_t{-1}}});
  ValueId total = e.size(e.in(at.x), 1);
  if (e.has(at.past)) total = e.add("Add", {total, e.size(e.in(at.past), 3)});
  inputs.push_back(score_bias(e, node, at.masking, total, loop::value_type(type)));
  const auto past = [&](int64_t k) {
    return e.add("Gather", {e.in(at.past), e.integer(k)}, {{"axis", int64_t{0}}});
  };
  if (e.has(at.past)) {
    inputs.push_back(past(0));
    inputs.push_back(past(1));
  }
  auto out = e.add("Attention", std::move(inputs), microsoft::wants(node, 1) ? 3 : 1,
                   attention_attrs(node, /*heads_inside=*/true, is_unidirectional(node)));
  if (microsoft::wants(node, 1)) {
    const auto first = [&](ValueId v) { return e.add("Unsqueeze", {v, e.ints({0})}); };
    out[1] = e.add("Concat", {first(out[1]), first(out[2])}, {{"axis", int64_t{0}}});
  }
  out.resize(node.outputs.size(), kNone);
  return out;
}

// ---- Attention ----------------------------------------------------------------------------------

namespace projected {

enum : size_t { kX, kWeights, kBias, kMask, kPast, kScoreBias, kPastLength };
constexpr Projection kInputs{kX, kWeights, kBias, {kMask, kScoreBias}, kPast};

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  for (size_t i : {kWeights, kBias, kPast, kScoreBias}) require_same_dtype(ctx, i);
  check_dtype(ctx, kMask, kMaskType);
  microsoft::refuse_input(ctx, kPastLength, "past_sequence_length: a buffer shared with the past");
  for (const char* name : {"do_rotary", "past_present_share_buffer", "rotary_embedding_dim"})
    microsoft::require_attr(ctx, name, 0);
  infer_projection(ctx, kInputs, ctx.dtype(kX));
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!is_known(e, node, kInputs)) return {};
  ValueId y = e.add("MatMul", {e.in(kX), e.in(kWeights)});
  if (e.has(kBias)) y = e.add("Add", {y, e.in(kBias)});
  return attended(e, node, kInputs, y, e.dtype(kX));
}

}  // namespace projected

// ---- QAttention ---------------------------------------------------------------------------------

// The projection is a product of bytes, as dynamic quantisation has it; what follows is in floats.
namespace quantised {

enum : size_t { kX, kWeights, kBias, kScale, kWeightScale, kMask, kZero, kWeightZero, kPast };
constexpr Projection kInputs{kX, kWeights, kBias, {kMask, kNowhere}, kPast};
constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kBytes);
  check_dtype(ctx, kWeights, kBytes);
  check_dtype(ctx, kBias, type_set({DType::kF32, DType::kF16}));
  for (size_t i : {kScale, kWeightScale, kPast}) require_same_dtype(ctx, i, kBias);
  check_dtype(ctx, kMask, kMaskType);
  require_same_dtype(ctx, kZero, kX);
  require_same_dtype(ctx, kWeightZero, kWeights);
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    microsoft::require_attr(ctx, name, 0);
  infer_projection(ctx, kInputs, ctx.dtype(kBias));
  for (size_t i : {kScale, kZero}) microsoft::require_one(ctx, i);
  for (size_t i : {kWeightScale, kWeightZero})
    if (ctx.has(i) && !microsoft::has_one_entry(ctx, i))
      require_vector(ctx, i, ctx.dims(kWeights)[1]);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!is_known(e, node, kInputs)) return {};
  const DType type = e.dtype(kBias);
  const auto as_f32 = [&](size_t i) { return e.cast(e.in(i), type, DType::kF32); };
  const ValueId sums = e.add(
      "MatMulInteger", {e.in(kX), e.in(kWeights), e.optional(kZero), e.optional(kWeightZero)});
  const ValueId scale = e.add("Mul", {as_f32(kScale), as_f32(kWeightScale)});
  ValueId y = e.add("Mul", {e.cast(sums, DType::kI32, DType::kF32), scale});
  y = e.add("Add", {y, as_f32(kBias)});
  return attended(e, node, kInputs, e.cast(y, DType::kF32, type), type);
}

}  // namespace quantised

}  // namespace

void register_microsoft_attention(OpList& ops) {
  std::vector<AttrSpec> attrs{{"num_heads", AttrKind::kInt, true, 1, INT32_MAX},
                              {"mask_filter_value", AttrKind::kFloat},
                              {"scale", AttrKind::kFloat},
                              microsoft::flag("unidirectional")};
  OpDef multi_head = microsoft::op("com.microsoft::MultiHeadAttention", 1, 10, multi_head::infer,
                                   multi_head::expand, attrs);
  multi_head.max_outputs = 4;
  ops.push_back(std::move(multi_head));
  attrs.insert(attrs.end(),
               {{"do_rotary", AttrKind::kInt}, {"past_present_share_buffer", AttrKind::kInt}});
  OpDef quantised =
      microsoft::op("com.microsoft::QAttention", 5, 9, quantised::infer, quantised::expand, attrs);
  quantised.max_outputs = 2;
  ops.push_back(std::move(quantised));
  attrs.insert(attrs.end(),
               {{"qkv_hidden_sizes", AttrKind::kInts}, {"rotary_embedding_dim", AttrKind::kInt}});
  OpDef projected =
      microsoft::op("com.microsoft::Attention", 2, 7, projected::infer, projected::expand, attrs);
  projected.max_outputs = 2;
  ops.push_back(std::move(projected));
}

}  // namespace xc
