// Conv: convolution over any number of spatial axes (reference: up to three), grouped, dilated.

#include "ops/convolve.h"

namespace xc {

namespace {

void infer_conv(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  const DType type = require_factors(ctx);
  SymDims out = infer_convolution(ctx, 0, 1);
  if (ctx.has(2)) {
    require_same_dtype(ctx, 2, 1);
    require_vector(ctx, 2, out[1]);
  }
  ctx.set(0, type, std::move(out));
}

void reference_conv(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[0], &w = ctx.inputs[1], &y = ctx.outputs[0];
  const ConvShape shape = conv_shape(*ctx.node, x.dims, w.dims, y.dims);
  const auto bias = ctx.has(2) ? double_values(ctx.inputs[2]) : std::vector<double>{};
  write_dense(y, convolve(shape, double_values(x), double_values(w), bias));
}

Dim flops_conv(const Graph& graph, const Node& node) {
  return conv_flops(graph, node, 1);
}

}  // namespace

void register_conv(OpList& ops) {
  OpDef conv;
  conv.name = "Conv";
  conv.min_inputs = 2;
  conv.max_inputs = 3;
  conv.attrs = window_attr_specs(/*kernel_required=*/false);
  conv.attrs.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  conv.attrs.push_back(kHeldIn);
  conv.infer = infer_conv;
  conv.reference = reference_conv;
  conv.flops = flops_conv;
  conv.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(conv));
}

}  // namespace xc
