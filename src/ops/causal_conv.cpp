// CausalConvWithState: a depthwise 1-D convolution over the past only, carrying its last inputs.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"

namespace xc {

namespace {

// Inputs: x [batch, channels, length], weight [channels, 1, k], bias [channels], past [.., k - 1].
constexpr size_t kX = 0, kWeight = 1, kBias = 2, kPast = 3;

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  for (size_t i : {kWeight, kBias, kPast}) require_same_dtype(ctx, i);
  require_rank(ctx, kX, 3);
  require_rank(ctx, kWeight, 3);
  const SymDims& x = ctx.dims(kX);
  const Dim kernel = ctx.dims(kWeight)[2];
  if (kernel == Dim(0)) ctx.error("weights have dims {}", to_text(ctx.dims(kWeight)));
  require_dims(ctx, kWeight, {x[1], 1, kernel});
  if (ctx.has(kBias)) require_vector(ctx, kBias, x[1]);
  const SymDims state{x[0], x[1], kernel - 1};
  if (ctx.has(kPast)) require_dims(ctx, kPast, state);
  ctx.set(0, ctx.dtype(kX), x);
  ctx.set(1, ctx.dtype(kX), state);
}

bool swish(const Node& node) {
  return node.attrs.get_string("activation", "none") != "none";
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto dims = ctx.inputs[kX].dims;
  const int64_t length = dims[2], kernel = ctx.inputs[kWeight].dims[2], carried = kernel - 1;
  const auto x = double_values(ctx.inputs[kX]), weight = double_values(ctx.inputs[kWeight]);
  const auto bias = ctx.has(kBias) ? double_values(ctx.inputs[kBias]) : std::vector<double>{};
  const auto past = ctx.has(kPast) ? double_values(ctx.inputs[kPast]) : std::vector<double>{};
  std::vector<double> y, state;
  std::vector<double> line(static_cast<size_t>(carried + length));
  for (int64_t row = 0; row < dims[0] * dims[1]; ++row) {
    const int64_t channel = row % dims[1];
    std::fill_n(line.begin(), carried, 0.0);
    if (!past.empty()) std::copy_n(past.data() + row * carried, carried, line.begin());
    std::copy_n(x.data() + row * length, length, line.begin() + carried);
    for (int64_t t = 0; t < length; ++t) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(channel)];
      for (int64_t k = 0; k < kernel; ++k)
        sum += line[static_cast<size_t>(t + k)] * weight[static_cast<size_t>(channel * kernel + k)];
      y.push_back(swish(*ctx.node) ? sum / (1 + std::exp(-sum)) : sum);
    }
    state.insert(state.end(), line.end() - carried, line.end());
  }
  write_dense(ctx.outputs[0], y);
  if (ctx.outputs.size() > 1) write_dense(ctx.outputs[1], state);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!e.rank(kX) || !e.type(kWeight).dims) return {};
  const auto channels = (*e.type(kX).dims)[1].constant();
  const auto kernel = e.type(kWeight).dims->back().constant();
  const auto length = (*e.type(kX).dims)[2].constant();
  if (!channels || !kernel || length == 0) return {};  // Conv has no result without columns
  const int64_t carried = *kernel - 1;
  const ValueId line = e.has(kPast)
                           ? e.add("Concat", {e.in(kPast), e.in(kX)}, {{"axis", int64_t{2}}})
                           : e.add("Pad", {e.in(kX), e.ints({0, 0, carried, 0, 0, 0})});
  std::vector<ValueId> inputs{line, e.in(kWeight)};
  if (e.has(kBias)) inputs.push_back(e.in(kBias));
  ValueId y = e.add("Conv", inputs, {{"group", *channels}});
  if (swish(node)) y = e.add("Mul", {y, e.add("Sigmoid", {y})});
  std::vector<ValueId> out{y};
  if (node.outputs.size() > 1)
    out.push_back(carried == 0 ? e.add("Slice", {line, e.ints({0}), e.ints({0}), e.ints({2})})
                               : e.add("Slice", {line, e.ints({-carried}), e.ints({INT64_MAX}),
                                                 e.ints({2})}));
  return out;
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& x = graph.value(node.inputs[kX]).type.dims;
  const auto& w = graph.value(node.inputs[kWeight]).type.dims;
  return x && w && !w->empty() ? Dim(2) * element_count(*x) * w->back() : Dim(0);
}

}  // namespace

void register_causal_conv(OpList& ops) {
  OpDef op;
  op.name = "CausalConvWithState";
  op.min_inputs = 2;
  op.max_inputs = 4;
  op.max_outputs = 2;
  op.attrs = {{"activation", AttrKind::kString, false, 0, 0, "none|silu|swish"}};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
