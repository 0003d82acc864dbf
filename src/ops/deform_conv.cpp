// DeformConv: a 2-D convolution whose taps are moved by learnt offsets and scaled by a mask.

#include <cmath>

#include "ops/convolve.h"

namespace xc {

namespace {

// Inputs: X [N, C, H, W], W [M, C/group, kh, kw], offset [N, offset_group * kh * kw * 2, oh, ow],
// B [M], mask [N, offset_group * kh * kw, oh, ow].
constexpr size_t kX = 0, kW = 1, kOffset = 2, kB = 3, kMask = 4;

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  for (size_t i : {kW, kOffset, kB, kMask}) require_same_dtype(ctx, i);
  if (ctx.rank(kX) < 3) ctx.error("the input has rank {}, expected 4", ctx.rank(kX));
  if (ctx.rank(kX) != 4)
    fail(Status::kUnsupported, "unsupported: DeformConv over {} spatial axes", ctx.rank(kX) - 2);
  SymDims out = infer_convolution(ctx, kX, kW);
  const int64_t groups = ctx.attrs().get_int("offset_group", 1);
  if (groups < 1) ctx.error("attribute 'offset_group' is {}", groups);
  if (const auto c = ctx.dims(kX)[1].constant(); c && *c % groups != 0)
    ctx.error("{} channels do not divide into {} offset groups", *c, groups);
  const Dim taps = ctx.dims(kW)[2] * ctx.dims(kW)[3] * groups;
  require_dims(ctx, kOffset, {out[0], taps * 2, out[2], out[3]});
  if (ctx.has(kB)) require_vector(ctx, kB, out[1]);
  if (ctx.has(kMask)) require_dims(ctx, kMask, {out[0], taps, out[2], out[3]});
  ctx.set(0, ctx.dtype(kX), std::move(out));
}

/// Bilinear value at (y, x); what lies outside is zero.
double sample(const double* plane, int64_t h, int64_t w, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(h) && x > -1 && x < static_cast<double>(w))) return 0;
  const double y0 = std::floor(y), x0 = std::floor(x), ty = y - y0, tx = x - x0;
  const auto at = [&](double row, double column) {
    const auto i = static_cast<int64_t>(row), j = static_cast<int64_t>(column);
    return i >= 0 && i < h && j >= 0 && j < w ? plane[i * w + j] : 0.0;
  };
  return (1 - ty) * ((1 - tx) * at(y0, x0) + tx * at(y0, x0 + 1)) +
         ty * ((1 - tx) * at(y0 + 1, x0) + tx * at(y0 + 1, x0 + 1));
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &in = ctx.inputs[kX], &weights = ctx.inputs[kW], &y = ctx.outputs[0];
  const ConvShape s = conv_shape(*ctx.node, in.dims, weights.dims, y.dims);
  const WindowAxis &down = s.axes[1], &across = s.axes[2];
  const int64_t offset_groups = ctx.attrs().get_int("offset_group", 1);
  const int64_t channels = in.dims[1], per_offset_group = channels / offset_groups;
  const int64_t taps = down.kernel * across.kernel, points = down.output * across.output;
  const auto x = double_values(in), w = double_values(weights);
  const auto offsets = double_values(ctx.inputs[kOffset]);
  const auto masks = ctx.has(kMask) ? double_values(ctx.inputs[kMask]) : std::vector<double>{};
  const auto bias = ctx.has(kB) ? double_values(ctx.inputs[kB]) : std::vector<double>{};

  /// The masked sample of channel c under tap k for output point (oh, ow).
  const auto tap = [&](int64_t n, int64_t c, int64_t k, int64_t oh, int64_t ow) {
    const int64_t row = (n * offset_groups + c / per_offset_group) * taps + k;
    const int64_t point = oh * across.output + ow;
    const double dy = offsets[static_cast<size_t>((row * 2) * points + point)];
    const double dx = offsets[static_cast<size_t>((row * 2 + 1) * points + point)];
    const double mask = masks.empty() ? 1.0 : masks[static_cast<size_t>(row * points + point)];
    const double* plane = x.data() + (n * channels + c) * down.input * across.input;
    return mask * sample(plane, down.input, across.input,
                         static_cast<double>(down.at(oh, k / across.kernel)) + dy,
                         static_cast<double>(across.at(ow, k % across.kernel)) + dx);
  };
  std::vector<double> out;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t m = 0; m < s.groups * s.out_channels; ++m)
      for (int64_t oh = 0; oh < down.output; ++oh)
        for (int64_t ow = 0; ow < across.output; ++ow) {
          double sum = bias.empty() ? 0 : bias[static_cast<size_t>(m)];
          for (int64_t c = 0; c < s.in_channels; ++c)
            for (int64_t k = 0; k < taps; ++k)
              sum += w[static_cast<size_t>((m * s.in_channels + c) * taps + k)] *
                     tap(n, m / s.out_channels * s.in_channels + c, k, oh, ow);
          out.push_back(sum);
        }
  write_dense(y, out);
}

Dim flops(const Graph& graph, const Node& node) {
  return Dim(5) * conv_flops(graph, node, kW);  // a bilinear sample costs about eight operations
}

}  // namespace

void register_deform_conv(OpList& ops) {
  OpDef op;
  op.name = "DeformConv";
  op.min_inputs = 3;
  op.max_inputs = 5;
  op.attrs = {{"dilations", AttrKind::kInts, false, 1, kMaxWindow},
              {"group", AttrKind::kInt, false, 1, kMaxWindow},
              {"kernel_shape", AttrKind::kInts, false, 1, kMaxWindow},
              {"offset_group", AttrKind::kInt, false, 1, kMaxWindow},
              {"pads", AttrKind::kInts, false, 0, kMaxWindow},
              {"strides", AttrKind::kInts, false, 1, kMaxWindow}};
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
