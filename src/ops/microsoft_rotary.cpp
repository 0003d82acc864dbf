// RotaryEmbedding of com.microsoft: the standard's, with positions that may be one number, and
// heads that follow from the caches. `scale` and `is_packed_batching` change nothing, as in
// onnxruntime.

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

enum : size_t { kX, kPositions, kCos, kSin };

/// Heads of an input of rank 3, [batch, sequence, heads * size].
Dim heads_of(const Node& node, const SymDims& x, const SymDims& cosines) {
  if (const int64_t given = node.attrs.get_int("num_heads", 0); given > 0) return given;
  return floor_div(x[2], Dim(2) * cosines[1]);
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  check_dtype(ctx, kPositions, type_set({DType::kI64}));
  require_same_dtype(ctx, kCos);
  require_same_dtype(ctx, kSin);
  const SymDims& x = ctx.dims(kX);
  if (x.size() != 3 && x.size() != 4) ctx.error("input has rank {}, expected 3 or 4", x.size());
  require_rank(ctx, kCos, 2);
  const SymDims& cosines = ctx.dims(kCos);
  require_dims(ctx, kSin, cosines);
  const int64_t rotated = ctx.attrs().get_int("rotary_embedding_dim", 0);
  const bool split = x.size() == 4;
  if (rotated > 0 && !split && ctx.attrs().get_int("num_heads", 0) == 0)
    ctx.error("attribute 'rotary_embedding_dim' without 'num_heads'");
  const Dim heads = split ? x[1] : heads_of(*ctx.node, x, cosines);
  if (!split && heads == Dim(0))
    ctx.error("caches of {} for an input of {}", to_text(cosines), to_text(x));
  const Dim head = split ? x[3] : floor_div(x[2], heads);
  if (!split && known_different(x[2], head * heads))
    ctx.error("size {} does not divide into {} heads", x[2].text(), heads.text());
  const Dim half = floor_div(rotated > 0 ? Dim(rotated) : head, 2);
  if (known_different(cosines[1], half))
    ctx.error("caches have {} columns, expected {}", cosines[1].text(), half.text());
  if (ctx.rank(kPositions) == 1)
    require_vector(ctx, kPositions, 1);
  else
    require_dims(ctx, kPositions, {x[0], x[split ? 2 : 1]});
  ctx.set(0, ctx.dtype(kX), x);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(kX) || !e.rank(kPositions) || !e.rank(kCos)) return {};
  const bool split = *e.rank(kX) == 4;
  Expansion::AttrList attrs{
      {"interleaved", node.attrs.get_int("interleaved", 0)},
      {"rotary_embedding_dim", node.attrs.get_int("rotary_embedding_dim", 0)}};
  if (!split) {
    const auto heads = heads_of(node, *e.type(kX).dims, *e.type(kCos).dims).constant();
    if (!heads) return {};
    attrs.emplace_back("num_heads", *heads);
  }
  ValueId positions = e.in(kPositions);
  if (*e.rank(kPositions) == 1) {  // of the first token
    const ValueId length = e.size(e.in(kX), split ? 2 : 1);
    positions = e.add("Add", {e.count_up(length), positions});
    positions =
        e.add("Expand",
              {positions, e.add("Concat", {e.size(e.in(kX), 0), length}, {{"axis", int64_t{0}}})});
  }
  return {e.add("RotaryEmbedding", {e.in(kX), e.in(kCos), e.in(kSin), positions}, attrs)};
}

}  // namespace

void register_microsoft_rotary(OpList& ops) {
  OpDef op = microsoft::op("com.microsoft::RotaryEmbedding", 4, 4, infer, expand,
                           {microsoft::flag("interleaved"),
                            {"is_packed_batching", AttrKind::kInt},
                            {"num_heads", AttrKind::kInt, false, 0, INT32_MAX},
                            {"rotary_embedding_dim", AttrKind::kInt, false, 0, INT32_MAX},
                            {"scale", AttrKind::kFloat}},
                           Tolerance::kReduction);
  op.weight = 4;
  ops.push_back(std::move(op));
}

}  // namespace xc
