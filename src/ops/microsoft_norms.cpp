// Norms of com.microsoft: SkipLayerNormalization, SkipSimplifiedLayerNormalization,
// EmbedLayerNormalization and QEmbedLayerNormalization, a sum, of a residual or of embeddings, and
// its normalisation over the last axis; GroupNorm and SkipGroupNorm of diffusion models.

#include <array>

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

constexpr double kEpsilon = 1e-12f;  // what the schemas give

double epsilon_of(const Node& node) {
  return node.attrs.get_float("epsilon", kEpsilon);
}

// ---- residuals ----------------------------------------------------------------------------------

// Inputs of both: input, skip, gamma; then [beta,] bias. Outputs: the norm, mean, inverse
// deviation, the sum.
constexpr size_t kInput = 0, kSkip = 1, kGamma = 2;
constexpr size_t kMean = 1, kInverse = 2, kSum = 3;

/// The skip is of the input's dims, or lacks the batch ([s, h] or [1, s, h]).
void require_skip(const InferContext& ctx) {
  const SymDims &x = ctx.dims(kInput), &skip = ctx.dims(kSkip);
  bool fits = skip.size() <= x.size() && skip.size() >= 2;
  for (size_t k = 0; fits && k < skip.size(); ++k) {
    const size_t axis = x.size() - skip.size() + k;
    fits = !known_different(skip[k], x[axis]) || (axis == 0 && skip[k] == Dim(1));
  }
  if (!fits) ctx.error("skip has dims {}, the input {}", to_text(skip), to_text(x));
}

void infer_skip(InferContext& ctx) {
  check_dtype(ctx, kInput, kFloats);
  for (size_t i = kSkip; i < ctx.input_count(); ++i) require_same_dtype(ctx, i);
  const SymDims& x = ctx.dims(kInput);
  if (x.size() != 2 && x.size() != 3)
    ctx.error("input has rank {}, expected [tokens, size] or [batch, sequence, size]", x.size());
  require_skip(ctx);
  for (size_t i = kGamma; i < ctx.input_count(); ++i)
    if (ctx.has(i)) require_vector(ctx, i, x.back());
  SymDims statistics = x;
  statistics.back() = 1;
  ctx.set(0, ctx.dtype(kInput), x);
  ctx.set(kMean, DType::kF32, statistics);
  ctx.set(kInverse, DType::kF32, statistics);
  ctx.set(kSum, ctx.dtype(kInput), x);
}

void infer_simplified(InferContext& ctx) {
  microsoft::refuse_output(ctx, kMean, "the mean, of which a simplified norm has none");
  infer_skip(ctx);
}

ValueId sum_of(Expansion& e, size_t bias) {
  const ValueId sum = e.add("Add", {e.widened(kInput), e.widened(kSkip)});
  return e.has(bias) ? e.add("Add", {sum, e.widened(bias)}) : sum;
}

std::vector<ValueId> expand_skip(const Graph& graph, const Node& node, Patch& patch) {
  constexpr size_t kBeta = 3, kBias = 4;
  Expansion e(graph, node, patch);
  const ValueId sum = sum_of(e, kBias);
  std::vector<ValueId> inputs{sum, e.widened(kGamma)};
  if (e.has(kBeta)) inputs.push_back(e.widened(kBeta));
  const uint32_t outputs = microsoft::wants(node, kInverse) ? 3
                           : microsoft::wants(node, kMean)  ? 2
                                                            : 1;
  auto out = e.add("LayerNormalization", std::move(inputs), outputs,
                   {{"axis", int64_t{-1}}, {"epsilon", epsilon_of(node)}});
  out[0] = e.narrowed(out[0]);
  out.resize(node.outputs.size(), kNone);
  if (microsoft::wants(node, kSum)) out[kSum] = e.narrowed(sum);
  return out;
}

std::vector<ValueId> expand_simplified(const Graph& graph, const Node& node, Patch& patch) {
  constexpr size_t kBias = 3;
  Expansion e(graph, node, patch);
  const ValueId sum = sum_of(e, kBias);
  const ValueId y = e.add("RMSNormalization", {sum, e.widened(kGamma)},
                          {{"axis", int64_t{-1}}, {"epsilon", epsilon_of(node)}});
  std::vector<ValueId> out(node.outputs.size(), kNone);
  out[0] = e.narrowed(y);
  if (microsoft::wants(node, kInverse)) {
    const ValueId squares = e.reduce("ReduceMean", e.add("Mul", {sum, sum}), {-1});
    const ValueId deviation = e.add("Sqrt", {e.add("Add", {squares, e.scalar(epsilon_of(node))})});
    out[kInverse] = e.cast(e.add("Reciprocal", {deviation}), e.working(), DType::kF32);
  }
  if (microsoft::wants(node, kSum)) out[kSum] = e.narrowed(sum);
  return out;
}

// ---- embeddings ---------------------------------------------------------------------------------

enum : size_t { kIds, kSegments, kWords, kPlaces, kSegmentTable, kScale, kShift, kMask, kPlaceIds };

/// The dims of ids and tables, and the first two outputs, of `type`.
void set_embedding(InferContext& ctx, DType type) {
  require_rank(ctx, kIds, 2);
  require_rank(ctx, kWords, 2);
  require_rank(ctx, kPlaces, 2);
  const SymDims& ids = ctx.dims(kIds);
  const Dim size = ctx.dims(kWords)[1];
  require_dims(ctx, kPlaces, {ctx.dims(kPlaces)[0], size});
  if (ctx.has(kSegments) != ctx.has(kSegmentTable))
    ctx.error("segment_ids and segment_embedding come together or not at all");
  if (ctx.has(kSegments)) {
    require_dims(ctx, kSegments, ids);
    require_rank(ctx, kSegmentTable, 2);
    require_dims(ctx, kSegmentTable, {ctx.dims(kSegmentTable)[0], size});
  }
  require_vector(ctx, kScale, size);
  require_vector(ctx, kShift, size);
  if (ctx.has(kMask)) require_dims(ctx, kMask, ids);
  ctx.set(0, type, {ids[0], ids[1], size});
  ctx.set(1, DType::kI32, {ids[0]});
}

void infer_embed(InferContext& ctx) {
  check_dtype(ctx, kIds, type_set({DType::kI32}));
  for (size_t i : {kSegments, kMask, kPlaceIds}) check_dtype(ctx, i, type_set({DType::kI32}));
  for (size_t i : {kPlaces, kSegmentTable, kScale, kShift, kWords}) check_dtype(ctx, i, kFloats);
  for (size_t i : {kPlaces, kSegmentTable, kScale, kShift}) require_same_dtype(ctx, i, kWords);
  set_embedding(ctx, ctx.dtype(kWords));
  const SymDims& ids = ctx.dims(kIds);
  if (ctx.has(kPlaceIds)) {
    require_rank(ctx, kPlaceIds, 2);
    if (!(ctx.dims(kPlaceIds)[0] == Dim(1))) require_dims(ctx, kPlaceIds, ids);
    require_dims(ctx, kPlaceIds, {ctx.dims(kPlaceIds)[0], ids[1]});
  }
  ctx.set(2, ctx.dtype(kWords), {ids[0], ids[1], ctx.dims(kWords)[1]});
}

/// Rows of a table; ids are i32.
ValueId looked_up(Expansion& e, size_t table, size_t ids) {
  return e.add("Gather", {e.in(table), e.not_from_end(e.in(ids), DType::kI32, e.in(table))},
               {{"axis", int64_t{0}}});
}

/// Rows of the table of places: those with the numbers 0, 1, ...
ValueId first_places(Expansion& e) {
  const ValueId each = e.count_up(e.size(e.in(kIds), 1));
  return e.add("Gather", {e.in(kPlaces), each}, {{"axis", int64_t{0}}});
}

/// How many tokens of each row the mask has; zero without one.
ValueId mask_lengths(Expansion& e) {
  const auto as_i32 = onnx_number(DType::kI32);
  if (!e.has(kMask)) {
    const ValueId none = e.constant(Tensor::scalar(int32_t{0}));
    return e.add("Expand", {none, e.size(e.in(kIds), 0)});
  }
  const ValueId one = e.constant(Tensor::scalar(int32_t{1}));
  const ValueId there = e.add("Cast", {e.add("Equal", {e.in(kMask), one})}, {{"to", as_i32}});
  return e.add("ReduceSum", {there, e.ints({1})}, {{"keepdims", int64_t{0}}});
}

std::vector<ValueId> expand_embed(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const DType type = e.dtype(kWords);
  const DType working = loop::value_type(type);
  const auto widened = [&](ValueId v) { return e.cast(v, type, working); };
  const ValueId places = e.has(kPlaceIds) ? looked_up(e, kPlaces, kPlaceIds) : first_places(e);
  ValueId sum = e.add("Add", {widened(looked_up(e, kWords, kIds)), widened(places)});
  if (e.has(kSegments)) sum = e.add("Add", {sum, widened(looked_up(e, kSegmentTable, kSegments))});
  const ValueId y = e.add("LayerNormalization", {sum, widened(e.in(kScale)), widened(e.in(kShift))},
                          {{"axis", int64_t{-1}}, {"epsilon", epsilon_of(node)}});
  std::vector<ValueId> out(node.outputs.size(), kNone);
  out[0] = e.cast(y, working, type);
  if (microsoft::wants(node, 1)) out[1] = mask_lengths(e);
  if (microsoft::wants(node, 2)) out[2] = e.cast(sum, working, type);
  return out;
}

// ---- quantised embeddings -----------------------------------------------------------------------

// The inputs of EmbedLayerNormalization with tables, scale and shift in bytes, up to the mask; then
// their scales, then their zero points.
size_t scale_of(size_t table) {
  return table - kWords + kMask + 1;
}
size_t zero_of(size_t table) {
  return scale_of(table) + kShift - kWords + 1;
}
constexpr std::array kTables{kWords, kPlaces, kSegmentTable, kScale, kShift};

void infer_quantised_embed(InferContext& ctx) {
  for (size_t i : {kIds, kSegments, kMask}) check_dtype(ctx, i, type_set({DType::kI32}));
  constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});
  for (size_t table : kTables) check_dtype(ctx, table, kBytes);
  for (size_t table : kTables) check_dtype(ctx, scale_of(table), type_set({DType::kF32}));
  for (size_t table : kTables) check_dtype(ctx, zero_of(table), kBytes);
  for (size_t table : kTables)
    for (size_t i : {table, zero_of(table)}) require_same_dtype(ctx, i, kWords);
  set_embedding(ctx, DType::kF32);
  for (size_t table : kTables)
    for (size_t i : {scale_of(table), zero_of(table)}) microsoft::require_one(ctx, i);
}

std::vector<ValueId> expand_quantised_embed(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto in_floats = [&](ValueId rows, size_t table) {
    return e.add("DequantizeLinear", {rows, microsoft::scalar_of(e, scale_of(table)),
                                      microsoft::scalar_of(e, zero_of(table))});
  };
  ValueId sum = e.add(
      "Add", {in_floats(looked_up(e, kWords, kIds), kWords), in_floats(first_places(e), kPlaces)});
  if (e.has(kSegments)) {
    const ValueId rows = looked_up(e, kSegmentTable, kSegments);
    sum = e.add("Add", {sum, in_floats(rows, kSegmentTable)});
  }
  std::vector<ValueId> out(node.outputs.size(), kNone);
  out[0] = e.add("LayerNormalization",
                 {sum, in_floats(e.in(kScale), kScale), in_floats(e.in(kShift), kShift)},
                 {{"axis", int64_t{-1}}, {"epsilon", epsilon_of(node)}});
  if (microsoft::wants(node, 1)) out[1] = mask_lengths(e);
  return out;
}

// ---- groups of channels -------------------------------------------------------------------------

// Inputs of both: images, gamma, beta; then skip [, bias]. Outputs: the norm, the sum.
namespace groups {

enum : size_t { kImages, kGamma, kBeta, kSkip, kBias };

void infer(InferContext& ctx) {
  constexpr TypeSet kTypes = type_set({DType::kF32, DType::kF16});
  check_dtype(ctx, kImages, kTypes);
  check_dtype(ctx, kGamma, kTypes);
  require_same_dtype(ctx, kBeta, kGamma);
  for (size_t i : {kSkip, kBias}) require_same_dtype(ctx, i);
  require_rank(ctx, kImages, 4);
  const SymDims& x = ctx.dims(kImages);
  const bool last = microsoft::lies_last(*ctx.node, true);
  const Dim channels = x[last ? 3 : 1];
  const int64_t count = ctx.attrs().get_int("groups", 1);
  if (const auto size = channels.constant(); size && *size % count != 0)
    ctx.error("{} channels do not divide into {} groups", *size, count);
  for (size_t i : {kGamma, kBeta, kBias})
    if (ctx.has(i)) require_vector(ctx, i, channels);
  if (ctx.has(kSkip) && ctx.rank(kSkip) == 2) {
    require_dims(ctx, kSkip, {x[0], channels});
  } else if (ctx.has(kSkip)) {
    require_rank(ctx, kSkip, 4);
    const SymDims& skip = ctx.dims(kSkip);
    SymDims expected = x;
    for (size_t axis : {last ? 1u : 2u, last ? 2u : 3u})
      if (skip[axis] == Dim(1)) expected[axis] = 1;
    require_dims(ctx, kSkip, expected);
  }
  ctx.set(0, ctx.dtype(kImages), x);
  ctx.set(1, ctx.dtype(kImages), x);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const bool last = microsoft::lies_last(node, true);
  const auto over_planes = [&](ValueId x) {
    return last ? x : e.add("Unsqueeze", {x, e.ints({-1, -2})});
  };
  ValueId sum = e.widened(kImages);
  if (e.has(kSkip)) {
    if (!e.rank(kSkip)) return {};
    ValueId skip = e.widened(kSkip);
    if (*e.rank(kSkip) == 2)
      skip = e.add("Unsqueeze", {skip, last ? e.ints({1, 2}) : e.ints({2, 3})});
    sum = e.add("Add", {sum, skip});
  }
  if (e.has(kBias)) sum = e.add("Add", {sum, over_planes(e.widened(kBias))});
  const auto per_channel = [&](size_t i) { return e.cast(e.in(i), e.dtype(i), e.working()); };
  ValueId y = last ? microsoft::channels_first(e, sum, 4) : sum;
  y = e.add("GroupNormalization", {y, per_channel(kGamma), per_channel(kBeta)},
            {{"num_groups", node.attrs.get_int("groups", 1)},
             {"epsilon", node.attrs.get_float("epsilon", 1e-5f)}});
  if (node.attrs.get_int("activation", 0) != 0) y = e.add("Swish", {y});
  if (last) y = microsoft::channels_last(e, y, 4);
  std::vector<ValueId> out(node.outputs.size(), kNone);
  out[0] = e.narrowed(y);
  if (microsoft::wants(node, 1)) out[1] = e.narrowed(sum);
  return out;
}

std::vector<AttrSpec> attrs() {
  return {{"activation", AttrKind::kInt, true, 0, 1},
          microsoft::flag("channels_last"),
          {"epsilon", AttrKind::kFloat},
          {"groups", AttrKind::kInt, true, 1, INT32_MAX}};
}

}  // namespace groups

}  // namespace

void register_microsoft_norms(OpList& ops) {
  constexpr auto kClass = Tolerance::kReduction;
  const AttrSpec epsilon{"epsilon", AttrKind::kFloat};
  OpDef skip = microsoft::op("com.microsoft::SkipLayerNormalization", 3, 5, infer_skip, expand_skip,
                             {epsilon}, kClass);
  skip.max_outputs = 4;
  ops.push_back(std::move(skip));
  OpDef simplified = microsoft::op("com.microsoft::SkipSimplifiedLayerNormalization", 3, 4,
                                   infer_simplified, expand_simplified, {epsilon}, kClass);
  simplified.max_outputs = 4;
  ops.push_back(std::move(simplified));
  OpDef embed = microsoft::op("com.microsoft::EmbedLayerNormalization", 1, 9, infer_embed,
                              expand_embed, {epsilon, microsoft::flag("mask_index_type")}, kClass);
  embed.max_outputs = 3;
  ops.push_back(std::move(embed));
  OpDef quantised = microsoft::op("com.microsoft::QEmbedLayerNormalization", 1, 18,
                                  infer_quantised_embed, expand_quantised_embed, {epsilon}, kClass);
  quantised.max_outputs = 2;
  ops.push_back(std::move(quantised));
  ops.push_back(microsoft::op("com.microsoft::GroupNorm", 3, 3, groups::infer, groups::expand,
                              groups::attrs(), kClass));
  OpDef group_sum = microsoft::op("com.microsoft::SkipGroupNorm", 4, 5, groups::infer,
                                  groups::expand, groups::attrs(), kClass);
  group_sum.max_outputs = 2;
  ops.push_back(std::move(group_sum));
}

}  // namespace xc
