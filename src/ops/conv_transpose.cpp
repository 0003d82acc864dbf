// ConvTranspose: the gradient of a convolution with respect to its data, as a layer of its own.

#include "ops/conv_transpose.h"

#include <algorithm>

#include "ops/convolve.h"

namespace xc {

namespace {

std::vector<int64_t> list_of(const Node& node, const char* name, size_t spatial) {
  std::vector<int64_t> out = node.attrs.get_ints(name);
  if (!out.empty() && out.size() != spatial)
    fail(Status::kInvalidModel, "attribute '{}' has {} entries, expected {}", name, out.size(),
         spatial);
  return out;
}

/// Size along one axis before any padding is cut away: every input placed under its kernel.
template <class Size>
Size full_extent(const WindowAttrs& window, size_t axis, const Size& input, const Size& kernel,
                 int64_t output_padding) {
  return (input - Size(1)) * Size(window.strides[axis]) + Size(output_padding) +
         (kernel - Size(1)) * Size(window.dilations[axis]) + Size(1);
}

bool is_same(const WindowAttrs& window) {
  return window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
}

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  const SymDims &x = ctx.dims(0), &w = ctx.dims(1);
  if (x.size() < 3) ctx.error("input has rank {}, expected at least 3", x.size());
  if (w.size() != x.size())
    ctx.error("weights have rank {}, input has rank {}", w.size(), x.size());
  const size_t spatial = x.size() - 2;
  const WindowAttrs window = window_attrs(*ctx.node, spatial);
  const auto shape = list_of(*ctx.node, "output_shape", spatial);
  const auto extra = list_of(*ctx.node, "output_padding", spatial);
  const int64_t group = ctx.attrs().get_int("group", 1);
  if (group < 1) ctx.error("attribute 'group' is {}", group);
  if (known_different(x[1], w[0]))
    ctx.error("input has {} channels, weights {}", x[1].text(), w[0].text());
  for (const Dim& channels : {x[1], w[0]})
    if (const auto c = channels.constant(); c && *c % group != 0)
      ctx.error("{} channels do not divide into {} groups", *c, group);

  SymDims out{x[0], w[1] * group};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim& kernel = w[i + 2];
    if (kernel == Dim(0)) ctx.error("weights have dims {}", to_text(w));
    if (!window.kernel.empty() && known_different(kernel, window.kernel[i]))
      ctx.error("attribute 'kernel_shape' has {} where the weights have {}", window.kernel[i],
                kernel.text());
    Dim size;
    if (!shape.empty())
      size = shape[i];
    else if (is_same(window))
      size = x[i + 2] * window.strides[i];
    else
      size = full_extent(window, i, x[i + 2], kernel, extra.empty() ? 0 : extra[i]) -
             window.pads_begin[i] - window.pads_end[i];
    if (const auto most = size.upper_bound(); most && *most < 0)
      ctx.error("padding {} and {} is larger than the result (spatial axis {})",
                window.pads_begin[i], window.pads_end[i], i);
    out.push_back(size);
  }
  if (ctx.has(2)) {
    require_same_dtype(ctx, 2);
    require_vector(ctx, 2, out[1]);
  }
  ctx.set(0, ctx.dtype(0), std::move(out));
}

}  // namespace

std::array<WindowAxis, 3> conv_transpose_axes(const Node& node, std::span<const int64_t> x,
                                              std::span<const int64_t> w,
                                              std::span<const int64_t> y) {
  const size_t spatial = x.size() - 2;
  const WindowAttrs window = window_attrs(node, spatial);
  const bool given = !list_of(node, "output_shape", spatial).empty();
  const auto extra = list_of(node, "output_padding", spatial);
  std::vector<WindowAxis> out(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    WindowAxis& axis = out[i];
    axis.input = x[i + 2];
    axis.output = y[i + 2];
    axis.kernel = w[i + 2];
    axis.stride = window.strides[i];
    axis.dilation = window.dilations[i];
    axis.pad_begin = window.pads_begin[i];
    if (!given && !is_same(window)) continue;
    const int64_t full =
        full_extent(window, i, axis.input, axis.kernel, extra.empty() ? 0 : extra[i]);
    const int64_t total = std::max<int64_t>(full - axis.output, 0);
    axis.pad_begin = window.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
  }
  return window_axes_3d(std::move(out));
}

namespace {

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[0], &w = ctx.inputs[1], &y = ctx.outputs[0];
  const int64_t groups = ctx.attrs().get_int("group", 1);
  const int64_t in_channels = x.dims[1] / groups, out_channels = w.dims[1];
  const auto [d, h, v] = conv_transpose_axes(*ctx.node, x.dims, w.dims, y.dims);
  const auto data = double_values(x), weights = double_values(w);
  const auto bias = ctx.has(2) ? double_values(ctx.inputs[2]) : std::vector<double>{};
  const int64_t plane = d.output * h.output * v.output;
  std::vector<double> out(static_cast<size_t>(y.count()), 0.0);
  size_t from = 0;
  for (int64_t n = 0; n < x.dims[0]; ++n)
    for (int64_t c = 0; c < x.dims[1]; ++c)
      for (int64_t id = 0; id < d.input; ++id)
        for (int64_t ih = 0; ih < h.input; ++ih)
          for (int64_t iv = 0; iv < v.input; ++iv, ++from)
            for (int64_t m = 0; m < out_channels; ++m) {
              const int64_t channel = (c / in_channels) * out_channels + m;
              double* to = out.data() + (n * groups * out_channels + channel) * plane;
              const double* kernel =
                  weights.data() + (c * out_channels + m) * d.kernel * h.kernel * v.kernel;
              for (int64_t kd = 0; kd < d.kernel; ++kd)
                for (int64_t kh = 0; kh < h.kernel; ++kh)
                  for (int64_t kv = 0; kv < v.kernel; ++kv, ++kernel) {
                    // at() maps output to input in a convolution; here the roles are swapped.
                    const int64_t od = d.at(id, kd), oh = h.at(ih, kh), ov = v.at(iv, kv);
                    if (in_result(d, od) && in_result(h, oh) && in_result(v, ov))
                      to[(od * h.output + oh) * v.output + ov] += data[from] * *kernel;
                  }
            }
  if (!bias.empty())
    for (size_t i = 0; i < out.size(); ++i)
      out[i] += bias[i / static_cast<size_t>(plane) % bias.size()];
  write_dense(y, out);
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& x = graph.value(node.inputs[0]).type.dims;
  const auto& w = graph.value(node.inputs[1]).type.dims;
  if (!x || !w) return 0;
  Dim per_input(2);
  for (size_t i = 1; i < w->size(); ++i) per_input = per_input * (*w)[i];
  return per_input * element_count(*x);
}

}  // namespace

void register_conv_transpose(OpList& ops) {
  OpDef op;
  op.name = "ConvTranspose";
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attrs = window_attr_specs(/*kernel_required=*/false);
  op.attrs.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  op.attrs.push_back({"output_padding", AttrKind::kInts, false, 0, kMaxWindow});
  op.attrs.push_back({"output_shape", AttrKind::kInts, false, 0, kMaxWindow});
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
