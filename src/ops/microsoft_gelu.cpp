// Gelu, FastGelu, BiasGelu, QuickGelu of com.microsoft: activations, with a bias along the last
// axis in front of some.

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

}  // namespace

void register_microsoft_gelu(OpList& ops) {
  const auto add = [&](OpDef op) { ops.push_back(std::move(op)); };
  constexpr auto kClass = Tolerance::kElementwise;
  add(microsoft::op("com.microsoft::Gelu", 1, 1, infer_activation, expand_exact, {}, kClass));
  add(microsoft::op("com.microsoft::FastGelu", 1, 2, infer_biased, expand_fast, {}, kClass));
  add(microsoft::op("com.microsoft::BiasGelu", 2, 2, infer_biased, expand_exact, {}, kClass));
  add(microsoft::op("com.microsoft::QuickGelu", 1, 1, infer_activation, expand_quick,
                    {elementwise::float_attr("alpha", 1.702f)}, kClass));
}

}  // namespace xc
