// QuantizeLinear, DequantizeLinear, QLinearConv and NhwcMaxPool of com.microsoft: operators of the
// standard with integers of 4 and 16 bits before it had them, and for images that lie with their
// channels last, as onnxruntime's optimiser lays bytes out.

#include "ops/checks.h"
#include "ops/convolve.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"
#include "ops/registry.h"
#include "ops/window.h"

namespace xc {

using microsoft::channels_first;
using microsoft::channels_last;

namespace {

constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});
constexpr TypeSet kScale = type_set({DType::kF32, DType::kF16});
constexpr TypeSet kIntegers = kBytes | type_set({DType::kI16, DType::kU16, DType::kI4, DType::kU4});

// ---- QuantizeLinear, DequantizeLinear -----------------------------------------------------------

void infer_quantize(InferContext& ctx) {
  check_dtype(ctx, 0, kScale);
  require_same_dtype(ctx, 1);
  check_dtype(ctx, 2, kIntegers);
  get_op("QuantizeLinear").infer(ctx);
}

void infer_dequantize(InferContext& ctx) {
  check_dtype(ctx, 0, kIntegers | type_set({DType::kI32}));
  check_dtype(ctx, 1, kScale);
  get_op("DequantizeLinear").infer(ctx);
}

Expansion::AttrList axis_of(const Node& node) {
  return {{"axis", node.attrs.get_int("axis", 1)}};
}

/// onnxruntime divides in f32, the standard in the type of the scale.
std::vector<ValueId> expand_quantize(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return {e.add("QuantizeLinear", {e.widened(0), e.widened(1), e.optional(2)}, axis_of(node))};
}

std::vector<ValueId> expand_dequantize(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return {e.add("DequantizeLinear", node.inputs, axis_of(node))};
}

OpDef quantizer(std::string_view name, InferFn infer, ExpandFn expand) {
  OpDef op =
      microsoft::op(name, 2, 3, infer, expand, {{"axis", AttrKind::kInt}}, Tolerance::kElementwise);
  op.weight = 4;
  return op;
}

// ---- windows over bytes -------------------------------------------------------------------------

// Inputs: x, its scale and zero point, w, its scale and zero point, y's scale and zero point, bias.
void infer_conv(InferContext& ctx) {
  for (size_t i = 0; i < 8; ++i) {
    const bool scale = i == 1 || i == 4 || i == 6;
    check_dtype(ctx, i, scale ? type_set({DType::kF32}) : kBytes);
  }
  if (!microsoft::lies_last(*ctx.node)) return get_op("QLinearConv").infer(ctx);
  std::vector<Type> types{channels_first(ctx, 0)};
  for (size_t i = 1; i < ctx.input_count(); ++i) types.push_back(microsoft::type_or_none(ctx, i));
  const SymDims y = *microsoft::inferred_dims(ctx, "QLinearConv", types);
  ctx.set(0, ctx.dtype(7), channels_last(y));
}

/// What `op` of the standard gives for input 0 with its channels first, laid out as that.
std::vector<ValueId> windowed(Expansion& e, const Node& node, std::string_view op, bool last) {
  if (last && !e.rank(0)) return {};
  Expansion::AttrList attrs;
  for (const auto& [name, value] : node.attrs.entries())
    if (name != "channels_last") attrs.emplace_back(name, value);
  std::vector<ValueId> inputs = node.inputs;
  if (last) inputs[0] = channels_first(e, inputs[0], *e.rank(0));
  const ValueId y = e.add(op, std::move(inputs), attrs);
  return {last ? channels_last(e, y, *e.rank(0)) : y};
}

std::vector<ValueId> expand_conv(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return windowed(e, node, "QLinearConv", microsoft::lies_last(node));
}

void infer_max_pool(InferContext& ctx) {
  check_dtype(ctx, 0, kBytes);
  const SymDims y = *microsoft::inferred_dims(ctx, "MaxPool", {channels_first(ctx, 0)});
  ctx.set(0, ctx.dtype(0), channels_last(y));
}

std::vector<ValueId> expand_max_pool(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return windowed(e, node, "MaxPool", /*last=*/true);
}

Dim flops_conv(const Graph& graph, const Node& node) {
  return conv_flops(graph, node, 3);
}

}  // namespace

void register_microsoft_quantize(OpList& ops) {
  ops.push_back(quantizer("com.microsoft::QuantizeLinear", infer_quantize, expand_quantize));
  ops.push_back(quantizer("com.microsoft::DequantizeLinear", infer_dequantize, expand_dequantize));

  std::vector<AttrSpec> window = window_attr_specs(/*kernel_required=*/false);
  window.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  window.push_back(microsoft::flag("channels_last"));
  OpDef conv = microsoft::op("com.microsoft::QLinearConv", 8, 9, infer_conv, expand_conv, window,
                             Tolerance::kElementwise);
  conv.flops = flops_conv;
  ops.push_back(std::move(conv));

  window = window_attr_specs(/*kernel_required=*/true);
  window.push_back(microsoft::flag("ceil_mode"));
  ops.push_back(microsoft::op("com.microsoft::NhwcMaxPool", 1, 1, infer_max_pool, expand_max_pool,
                              window, Tolerance::kExact));
}

}  // namespace xc
