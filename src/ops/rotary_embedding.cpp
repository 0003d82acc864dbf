// RotaryEmbedding: rotates pairs of elements of each head by an angle of the token's position.

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"

namespace xc {

namespace {

// Inputs: X, cos, sin [positions, half] with position_ids, else [batch, sequence, half]; ids.
constexpr size_t kX = 0, kCos = 1, kSin = 2, kIds = 3;

/// X of rank 4 is [batch, heads, sequence, head]; of rank 3 [batch, sequence, heads * head].
struct Layout {
  Dim batch, heads, sequence, head;
  bool split;
};
Layout layout_of(const Node& node, const SymDims& x) {
  if (x.size() == 4) return {x[0], x[1], x[2], x[3], true};
  const int64_t heads = node.attrs.get_int("num_heads", 0);
  if (heads < 1) fail(Status::kInvalidModel, "attribute 'num_heads' is needed for rank 3");
  return {x[0], heads, x[1], floor_div(x[2], heads), false};
}

/// Leading elements of a head that are rotated.
Dim rotated(const Node& node, const Layout& layout) {
  const int64_t given = node.attrs.get_int("rotary_embedding_dim", 0);
  return given == 0 ? layout.head : Dim(given);
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  require_same_dtype(ctx, kCos);
  require_same_dtype(ctx, kSin);
  check_dtype(ctx, kIds, type_set({DType::kI64}));
  const SymDims& x = ctx.dims(kX);
  if (x.size() != 3 && x.size() != 4) ctx.error("input has rank {}, expected 3 or 4", x.size());
  const Layout l = layout_of(*ctx.node, x);
  if (!l.split && known_different(x[2], l.head * l.heads))
    ctx.error("size {} does not divide into {} heads", x[2].text(), l.heads.text());
  const Dim size = rotated(*ctx.node, l);
  if (const auto n = size.constant(); n && *n % 2 != 0) ctx.error("{} rotated elements", *n);
  if (const auto spare = (l.head - size).upper_bound(); spare && *spare < 0)
    ctx.error("{} rotated elements of a head of {}", size.text(), l.head.text());
  const Dim half = floor_div(size, 2);
  for (size_t i : {kCos, kSin}) {
    require_rank(ctx, i, ctx.has(kIds) ? 2 : 3);
    if (ctx.has(kIds))
      require_dims(ctx, i, {ctx.dims(kCos)[0], half});
    else
      require_dims(ctx, i, {l.batch, l.sequence, half});
  }
  if (ctx.has(kIds)) require_dims(ctx, kIds, {l.batch, l.sequence});
  ctx.set(0, ctx.dtype(kX), x);
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const Layout l = layout_of(*ctx.node, to_symbolic(dims_of(ctx.inputs[kX])));
  const int64_t batch = l.batch.value(), heads = l.heads.value(), sequence = l.sequence.value();
  const int64_t head = l.head.value(), half = rotated(*ctx.node, l).value() / 2;
  const bool interleaved = ctx.attrs().get_int("interleaved", 0) != 0;
  auto x = double_values(ctx.inputs[kX]);
  const auto cosines = double_values(ctx.inputs[kCos]), sines = double_values(ctx.inputs[kSin]);
  const auto ids = int_values(ctx.has(kIds) ? ctx.inputs[kIds] : TensorView{});
  const int64_t rows = ctx.inputs[kCos].dims[0];
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < sequence; ++t) {
      int64_t row = b * sequence + t;
      if (!ids.empty()) {
        row = ids[static_cast<size_t>(row)];
        if (row < 0 || row >= rows) fail(Status::kRange, "position {} of {}", row, rows);
      }
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t place =
            l.split ? (b * heads + h) * sequence + t : (b * sequence + t) * heads + h;
        double* at = x.data() + place * head;
        for (int64_t i = 0; i < half; ++i) {
          double &p = at[interleaved ? 2 * i : i], &q = at[interleaved ? 2 * i + 1 : half + i];
          const double c = cosines[static_cast<size_t>(row * half + i)];
          const double s = sines[static_cast<size_t>(row * half + i)];
          const double real = c * p - s * q, imaginary = s * p + c * q;
          p = real;
          q = imaginary;
        }
      }
    }
  write_dense(ctx.outputs[0], x);
}

/// Halves by Slice, rotated, joined by Concat. Interleaved pairs are halves of a last axis of 2.
std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(kX)) return {};
  const Layout l = layout_of(node, *e.type(kX).dims);
  const auto head = l.head.constant(), heads = l.heads.constant();
  const auto size = rotated(node, l).constant();
  if (!head || !heads || !size) return {};
  const bool interleaved = node.attrs.get_int("interleaved", 0) != 0;

  ValueId x = e.widened(kX);
  if (!l.split) x = e.add("Reshape", {x, e.ints({0, 0, *heads, *head})});
  const auto cut = [&](ValueId v, int64_t axis, int64_t begin, int64_t end) {
    return e.add("Slice", {v, e.ints({begin}), e.ints({end}), e.ints({axis})});
  };
  const ValueId ids =
      e.has(kIds) ? e.not_from_end(e.in(kIds), DType::kI64, e.in(kCos)) : ValueId{kNone};
  // Angles as [batch, sequence, half], then with an axis for the heads.
  const auto angles = [&](size_t i) {
    ValueId v = e.widened(i);
    if (ids != kNone) v = e.add("Gather", {v, ids}, {{"axis", int64_t{0}}});
    return e.add("Unsqueeze", {v, e.ints({l.split ? 1 : 2})});
  };
  const ValueId cosine = angles(kCos), sine = angles(kSin);
  const ValueId turning = *size == *head ? x : cut(x, 3, 0, *size);
  ValueId p = kNone, q = kNone;
  if (interleaved) {
    const ValueId pairs = e.add("Reshape", {turning, e.ints({0, 0, 0, *size / 2, 2})});
    p = e.add("Squeeze", {cut(pairs, 4, 0, 1), e.ints({4})});
    q = e.add("Squeeze", {cut(pairs, 4, 1, 2), e.ints({4})});
  } else {
    p = cut(turning, 3, 0, *size / 2);
    q = cut(turning, 3, *size / 2, *size);
  }
  const ValueId real = e.add("Sub", {e.add("Mul", {cosine, p}), e.add("Mul", {sine, q})});
  const ValueId imaginary = e.add("Add", {e.add("Mul", {sine, p}), e.add("Mul", {cosine, q})});
  ValueId y = kNone;
  if (interleaved) {
    const auto deeper = [&](ValueId v) { return e.add("Unsqueeze", {v, e.ints({4})}); };
    y = e.add("Concat", {deeper(real), deeper(imaginary)}, {{"axis", int64_t{4}}});
    y = e.add("Reshape", {y, e.ints({0, 0, 0, *size})});
  } else {
    y = e.add("Concat", {real, imaginary}, {{"axis", int64_t{3}}});
  }
  if (*size != *head) y = e.add("Concat", {y, cut(x, 3, *size, *head)}, {{"axis", int64_t{3}}});
  if (!l.split) y = e.add("Reshape", {y, e.ints({0, 0, *heads * *head})});
  return {e.narrowed(y)};
}

}  // namespace

void register_rotary_embedding(OpList& ops) {
  OpDef op;
  op.name = "RotaryEmbedding";
  op.min_inputs = 3;
  op.max_inputs = 4;
  op.attrs = {{"interleaved", AttrKind::kInt, false, 0, 1},
              {"num_heads", AttrKind::kInt, false, 0, INT32_MAX},
              {"rotary_embedding_dim", AttrKind::kInt, false, 0, INT32_MAX}};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.weight = 4;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
