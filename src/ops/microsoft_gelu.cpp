// Gelu, FastGelu, BiasGelu, QuickGelu, BiasSplitGelu, BiasAdd and BiasSoftmax of com.microsoft:
// activations, with a bias in front of some.

#include "ops/checks.h"
#include "ops/elementwise_table.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

void infer_activation(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  infer_same(ctx);
}

void infer_biased(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  if (ctx.has(1)) {
    if (ctx.rank(0) == 0) ctx.error("a bias for a scalar");
    require_vector(ctx, 1, ctx.dims(0).back());
  }
  infer_same(ctx);
}

/// `op` of the sum of input 0 and the bias, where there is one.
std::vector<ValueId> activated(Expansion& e, std::string_view op,
                               const Expansion::AttrList& attrs = {}) {
  if (!e.has(1)) return {e.add(op, {e.in(0)}, attrs)};
  return {e.narrowed(e.add(op, {e.add("Add", {e.widened(0), e.widened(1)})}, attrs))};
}

std::vector<ValueId> expand_exact(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return activated(e, "Gelu");
}

std::vector<ValueId> expand_fast(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return activated(e, "Gelu", {{"approximate", std::string("tanh")}});
}

// x sigmoid(alpha x)
std::vector<ValueId> expand_quick(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return activated(e, "Swish", {{"alpha", node.attrs.get_float("alpha", 1.702f)}});
}

// ---- BiasAdd, BiasSplitGelu ---------------------------------------------------------------------

constexpr TypeSet kDiffusion = type_set({DType::kF32, DType::kF16});

/// An input [batch, sequence, size] and a bias of its columns.
void check_sequence(const InferContext& ctx) {
  check_dtype(ctx, 0, kDiffusion);
  require_same_dtype(ctx, 1);
  require_same_dtype(ctx, 2);
  require_rank(ctx, 0, 3);
  require_vector(ctx, 1, ctx.dims(0)[2]);
}

ValueId biased(Expansion& e) {
  return e.add("Add", {e.widened(0), e.widened(1)});
}

void infer_bias_add(InferContext& ctx) {
  check_sequence(ctx);
  require_dims(ctx, 2, ctx.dims(0));
  infer_same(ctx);
}

std::vector<ValueId> expand_bias_add(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return {e.narrowed(e.add("Add", {biased(e), e.widened(2)}))};
}

// The first half of the columns times Gelu of the second.
void infer_split(InferContext& ctx) {
  check_sequence(ctx);
  SymDims out = ctx.dims(0);
  if (const auto size = out[2].constant(); size && *size % 2 != 0)
    ctx.error("{} columns have no halves", *size);
  out[2] = floor_div(out[2], 2);
  ctx.set(0, ctx.dtype(0), std::move(out));
}

std::vector<ValueId> expand_split(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto halves =
      e.add("Split", {biased(e)}, 2, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{2}}});
  return {e.narrowed(e.add("Mul", {halves[0], e.add("Gelu", {halves[1]})}))};
}

// ---- BiasSoftmax --------------------------------------------------------------------------------

// The bias broadcasts over the axes before `axis`: the inner ones or the outer ones.
void infer_bias_softmax(InferContext& ctx) {
  check_dtype(ctx, 0, kDiffusion | type_set({DType::kF64}));
  require_same_dtype(ctx, 1);
  normalise_axis(ctx.attrs().get_int("axis", 1), ctx.rank(0));
  const SymDims &x = ctx.dims(0), &bias = ctx.dims(1);
  bool fits = bias.size() <= x.size();
  for (size_t k = 1; fits && k <= bias.size(); ++k)
    fits =
        bias[bias.size() - k] == Dim(1) || !known_different(bias[bias.size() - k], x[x.size() - k]);
  if (!fits) ctx.error("a bias of dims {} for {}", to_text(bias), to_text(x));
  infer_same(ctx);
}

/// Over all axes from `axis` on.
std::vector<ValueId> expand_bias_softmax(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(0)) return {};
  const auto axis = static_cast<int64_t>(
      normalise_axis(node.attrs.get_int("axis", 1), static_cast<size_t>(*e.rank(0))));
  ValueId y = biased(e);
  if (axis + 1 == *e.rank(0)) return {e.narrowed(e.add("Softmax", {y}, {{"axis", axis}}))};
  y = e.add("Softmax", {e.add("Flatten", {y}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  const ValueId dims = e.add("Shape", {e.in(0)});
  return {e.narrowed(e.add("Reshape", {y, dims}, {{"allowzero", int64_t{1}}}))};
}

}  // namespace

void register_microsoft_gelu(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  constexpr auto kClass = Tolerance::kElementwise;
  add(microsoft::op("com.microsoft::Gelu", 1, 1, infer_activation, expand_exact, {}, kClass));
  add(microsoft::op("com.microsoft::FastGelu", 1, 2, infer_biased, expand_fast, {}, kClass));
  add(microsoft::op("com.microsoft::BiasGelu", 2, 2, infer_biased, expand_exact, {}, kClass));
  add(microsoft::op("com.microsoft::QuickGelu", 1, 1, infer_activation, expand_quick,
                    {elementwise::float_attr("alpha", 1.702f)}, kClass));
  add(microsoft::op("com.microsoft::BiasAdd", 3, 3, infer_bias_add, expand_bias_add, {}, kClass));
  add(microsoft::op("com.microsoft::BiasSplitGelu", 2, 2, infer_split, expand_split, {}, kClass));
  add(microsoft::op("com.microsoft::BiasSoftmax", 2, 2, infer_bias_softmax, expand_bias_softmax,
                    {{"axis", AttrKind::kInt}, {"is_inner_broadcast", AttrKind::kInt, true, 0, 1}},
                    Tolerance::kReduction));
}

}  // namespace xc
