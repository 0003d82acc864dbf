#include "backends/cpu/resize_axes.h"

#include <algorithm>
#include <cstdlib>

#include "ops/support.h"

namespace xc::cpu {
namespace {

ResizeMode resize_mode(const Attrs& attrs) {
  ResizeMode out;
  out.interpolation = attrs.get_string("mode", out.interpolation);
  out.coordinates = attrs.get_string("coordinate_transformation_mode", out.coordinates);
  out.nearest = attrs.get_string("nearest_mode", out.nearest);
  out.cubic_a = attrs.get_float("cubic_coeff_a", out.cubic_a);
  out.exclude_outside = attrs.get_int("exclude_outside", 0) != 0;
  out.antialias = attrs.get_int("antialias", 0) != 0;
  return out;
}

}  // namespace

std::vector<size_t> memory_order(const OperandView& y) {
  std::vector<size_t> order(y.dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    // The stride of an axis of size 1 means nothing.
    const int64_t sa = y.dims[a] == 1 ? INT64_MAX : std::abs(y.strides[a]);
    const int64_t sb = y.dims[b] == 1 ? INT64_MAX : std::abs(y.strides[b]);
    return sa > sb;
  });
  return order;
}

bool resized_by_run(const StepSpec& spec) {
  return !ControlInputs::constant(spec, 2, 3);
}

std::vector<ResizeSamples> resize_axes(const StepSpec& spec, const OperandViews& views,
                                       const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const size_t rank = x.dims.size();
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (spec.attrs().has("axes")) axes = normalise_axes(spec.attrs().get_ints("axes"), rank);
  std::vector<double> scales;
  if (control.has(2)) scales = control.doubles(2);
  std::vector<ResizeSamples> out(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i];
    if (scales.empty() ? x.dims[axis] == y.dims[axis] : scales[i] == 1) continue;
    ResizeAxis along{x.dims[axis], y.dims[axis], {}, 0, 1};
    if (!scales.empty())
      along.scale = {scales[i], 1};
    else
      along.scale = {static_cast<double>(along.output), static_cast<double>(along.input)};
    out[axis] = resize_samples(resize_mode(spec.attrs()), along);
  }
  return out;
}

Verdict supports_resize(const StepSpec& spec, bool nearest) {
  const Attrs& attrs = spec.attrs();
  const std::string mode = attrs.get_string("mode", "nearest");
  if ((mode == "nearest") != nearest) return Verdict::no(fmt::format("mode {}", mode));
  if (attrs.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return Verdict::no("tf_crop_and_resize");
  if (attrs.get_string("keep_aspect_ratio_policy", "stretch") != "stretch")
    return Verdict::no("a policy that keeps the aspect ratio");
  return Verdict::ok();
}

}  // namespace xc::cpu
