// RelativePositionBias and GatedRelativePositionBias of com.microsoft: what T5 and WavLM add to the
// scores of attention.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

constexpr TypeSet kHalvesToo = type_set({DType::kF32, DType::kF16});

// ---- RelativePositionBias -----------------------------------------------------------------------

namespace relative {

// table: of dims [buckets, heads], whose memory is that of [heads, buckets]; lengths of queries and
// of keys.
enum : size_t { kTable, kQueries, kKeys };

void infer(InferContext& ctx) {
  check_dtype(ctx, kTable, kHalvesToo);
  for (size_t i : {kQueries, kKeys}) {
    check_dtype(ctx, i, type_set({DType::kI64}));
    require_scalar(ctx, i);
  }
  require_rank(ctx, kTable, 2);
  const auto length = [&](size_t i) {
    const auto value = ctx.elements(i);
    if (!value) return ctx.fresh("RelativePositionBias");
    const auto known = value->front().constant();
    return known ? Dim(std::max(*known, int64_t{0})) : max(value->front(), Dim(0));
  };
  const Dim queries = length(kQueries), keys = length(kKeys);
  ctx.set(0, ctx.dtype(kTable), {1, ctx.dims(kTable)[1], queries, keys});
}

/// The bucket of a distance: the first half of them have one distance each, the others distances on
/// a log scale up to the largest.
ValueId bucket_of(Expansion& e, ValueId distance, int64_t buckets, int64_t largest) {
  const int64_t exact = buckets / 2;
  const auto number = [&](double v) { return e.scalar(v, DType::kF32); };
  const ValueId far = e.add("Max", {distance, e.integer(1)});  // no logarithm of 0
  const ValueId log = e.add(
      "Log",
      {e.add("Div", {e.cast(far, DType::kI64, DType::kF32), number(static_cast<double>(exact))})});
  const double span = std::log(static_cast<double>(largest) / static_cast<double>(exact));
  const ValueId steps = e.add(
      "Mul", {e.add("Div", {log, number(span)}), number(static_cast<double>(buckets - exact))});
  const ValueId place = e.add("Add", {e.cast(steps, DType::kF32, DType::kI64), e.integer(exact)});
  const ValueId bounded = e.add("Min", {place, e.integer(buckets - 1)});
  return e.add("Where", {e.add("Less", {distance, e.integer(exact)}), distance, bounded});
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.type(kTable).dims) return {};
  const auto& table = *e.type(kTable).dims;
  const auto buckets = table[0].constant(), heads = table[1].constant();
  if (!buckets || !heads) return {};
  const auto places = [&](size_t i, int64_t axis) {
    const ValueId length = e.add("Max", {e.add("Reshape", {e.in(i), e.ints({1})}), e.integer(0)});
    return e.add("Unsqueeze", {e.count_up(length), e.ints({axis})});
  };
  const ValueId ahead = e.add("Sub", {places(kKeys, 0), places(kQueries, 1)});
  const int64_t largest = node.attrs.get_int("max_distance", 1);
  ValueId bucket = kNone;
  if (node.attrs.get_int("is_bidirectional", 0) != 0) {
    const int64_t half = *buckets / 2;
    const ValueId side =
        e.add("Where", {e.add("Greater", {ahead, e.integer(0)}), e.integer(half), e.integer(0)});
    bucket = e.add("Add", {side, bucket_of(e, e.add("Abs", {ahead}), half, largest)});
  } else {
    const ValueId behind = e.add("Max", {e.add("Neg", {ahead}), e.integer(0)});
    bucket = bucket_of(e, behind, *buckets, largest);
  }
  const ValueId by_head = e.add("Reshape", {e.in(kTable), e.ints({*heads, *buckets})});
  const ValueId bias = e.add("Gather", {by_head, bucket}, {{"axis", int64_t{1}}});
  return {e.add("Unsqueeze", {bias, e.ints({0})})};
}

}  // namespace relative

// ---- GatedRelativePositionBias ------------------------------------------------------------------

namespace gated {

// queries [batch, sequence, heads * head] and their bias; positions [1, heads, sequence, sequence];
// weights [head, d] and bias [d] of the gates; a factor per head [1, heads, 1, 1].
enum : size_t { kQuery, kQueryBias, kPositions, kWeights, kBias, kFactor, kOffsets };

void infer(InferContext& ctx) {
  check_dtype(ctx, kQuery, kHalvesToo);
  for (size_t i : {kQueryBias, kPositions, kWeights, kBias, kFactor}) require_same_dtype(ctx, i);
  microsoft::refuse_input(ctx, kOffsets, "token_offset: sequences without their padding");
  require_rank(ctx, kQuery, 3);
  require_rank(ctx, kWeights, 2);
  const int64_t heads = ctx.attrs().get_int("num_heads", 1);
  const SymDims &q = ctx.dims(kQuery), &w = ctx.dims(kWeights);
  if (const auto size = q[2].constant(); size && *size % heads != 0)
    ctx.error("a query of size {} does not divide into {} heads", *size, heads);
  require_vector(ctx, kQueryBias, q[2]);
  require_dims(ctx, kWeights, {floor_div(q[2], heads), w[1]});
  if (const auto columns = w[1].constant(); columns && *columns % 2 != 0)
    ctx.error("{} gates have no halves", *columns);
  require_vector(ctx, kBias, w[1]);
  require_dims(ctx, kPositions, {1, heads, q[1], q[1]});
  require_dims(ctx, kFactor, {1, heads, 1, 1});
  ctx.set(0, ctx.dtype(kQuery), {q[0], heads, q[1], q[1]});
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto& query = e.type(kQuery).dims;
  const auto& weights = e.type(kWeights).dims;
  const auto size = query ? query->back().constant() : std::nullopt;
  const auto columns = weights ? weights->back().constant() : std::nullopt;
  if (!size || !columns) return {};
  const int64_t heads = node.attrs.get_int("num_heads", 1);
  ValueId q = e.add("Add", {e.widened(kQuery), e.widened(kQueryBias)});
  q = e.add("Reshape", {q, e.ints({0, 0, heads, *size / heads})});
  q = e.transposed(q, {0, 2, 1, 3});
  const ValueId gates = e.add("Add", {e.product(q, e.widened(kWeights)), e.widened(kBias)});
  const ValueId halves = e.add("Reshape", {gates, e.ints({0, 0, 0, 2, *columns / 2})});
  const ValueId sums = e.add("ReduceSum", {halves, e.ints({-1})}, {{"keepdims", int64_t{0}}});
  const auto both = e.add("Split", {e.add("Sigmoid", {sums})}, 2,
                          {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
  const ValueId inner = e.add("Sub", {e.add("Mul", {both[1], e.widened(kFactor)}), e.scalar(1)});
  const ValueId gate = e.add("Add", {e.add("Mul", {both[0], inner}), e.scalar(2)});
  return {e.narrowed(e.add("Mul", {gate, e.widened(kPositions)}))};
}

}  // namespace gated

}  // namespace

void register_microsoft_positions(OpList& ops) {
  ops.push_back(microsoft::op(
      "com.microsoft::RelativePositionBias", 3, 3, relative::infer, relative::expand,
      {microsoft::flag("is_bidirectional"), {"max_distance", AttrKind::kInt, true, 1, INT32_MAX}},
      Tolerance::kExact));
  ops.push_back(microsoft::op("com.microsoft::GatedRelativePositionBias", 6, 7, gated::infer,
                              gated::expand, {{"num_heads", AttrKind::kInt, true, 1, INT32_MAX}}));
}

}  // namespace xc
