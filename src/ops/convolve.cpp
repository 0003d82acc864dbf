#include "ops/convolve.h"

namespace xc {

SymDims infer_convolution(const InferContext& ctx, size_t x, size_t w) {
  const SymDims& data = ctx.dims(x);
  const SymDims& weights = ctx.dims(w);
  if (data.size() < 3) ctx.error("input has rank {}, expected at least 3", data.size());
  if (weights.size() != data.size())
    ctx.error("weights have rank {}, input has rank {}", weights.size(), data.size());
  const size_t spatial = data.size() - 2;
  const WindowAttrs window = window_attrs(*ctx.node, spatial);
  const int64_t group = ctx.attrs().get_int("group", 1);
  if (group < 1) ctx.error("attribute 'group' is {}", group);
  if (known_different(data[1], weights[1] * group))
    ctx.error("input has {} channels, weights {} in {} groups", data[1].text(), weights[1].text(),
              group);
  if (const auto m = weights[0].constant(); m && *m % group != 0)
    ctx.error("{} output channels do not divide into {} groups", *m, group);

  SymDims out{data[0], weights[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim& kernel = weights[i + 2];
    if (!window.kernel.empty() && known_different(kernel, window.kernel[i]))
      ctx.error("attribute 'kernel_shape' has {} where the weights have {}", window.kernel[i],
                kernel.text());
    if (kernel == Dim(0)) ctx.error("weights have dims {}", to_text(weights));
    out.push_back(window_output(window, i, data[i + 2], kernel));
  }
  return out;
}

ConvShape conv_shape(const Node& node, std::span<const int64_t> x, std::span<const int64_t> w,
                     std::span<const int64_t> y) {
  ConvShape out;
  out.batch = x[0];
  out.groups = node.attrs.get_int("group", 1);
  out.in_channels = w[1];
  out.out_channels = w[0] / out.groups;
  const WindowAttrs window = window_attrs(node, x.size() - 2);
  out.axes = window_axes_3d(window_axes(window, x, w.subspan(2), y));
  return out;
}

std::vector<double> convolve(const ConvShape& s, const std::vector<double>& x,
                             const std::vector<double>& w, const std::vector<double>& bias) {
  const auto& [d, h, v] = s.axes;
  const int64_t in_plane = d.input * h.input * v.input;
  const int64_t kernel_plane = d.kernel * h.kernel * v.kernel;
  std::vector<double> y;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t g = 0; g < s.groups; ++g)
      for (int64_t m = g * s.out_channels; m < (g + 1) * s.out_channels; ++m)
        for (int64_t od = 0; od < d.output; ++od)
          for (int64_t oh = 0; oh < h.output; ++oh)
            for (int64_t ov = 0; ov < v.output; ++ov) {
              double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(m)];
              for (int64_t c = 0; c < s.in_channels; ++c) {
                const int64_t channel = (n * s.groups + g) * s.in_channels + c;
                const double* plane = x.data() + channel * in_plane;
                const double* kernel = w.data() + (m * s.in_channels + c) * kernel_plane;
                for (int64_t kd = 0; kd < d.kernel; ++kd)
                  for (int64_t kh = 0; kh < h.kernel; ++kh)
                    for (int64_t kv = 0; kv < v.kernel; ++kv, ++kernel) {
                      const int64_t id = d.at(od, kd), ih = h.at(oh, kh), iv = v.at(ov, kv);
                      if (d.inside(id) && h.inside(ih) && v.inside(iv))
                        sum += plane[(id * h.input + ih) * v.input + iv] * *kernel;
                    }
              }
              y.push_back(sum);
            }
  return y;
}

Dim conv_flops(const Graph& graph, const Node& node, size_t w) {
  const auto& weights = graph.value(node.inputs[w]).type.dims;
  const auto& out = graph.value(node.outputs[0]).type.dims;
  if (!weights || !out || weights->size() < 2) return 0;
  Dim per_output(2);
  for (size_t i = 1; i < weights->size(); ++i) per_output = per_output * (*weights)[i];
  return per_output * element_count(*out);
}

}  // namespace xc
