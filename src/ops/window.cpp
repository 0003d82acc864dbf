#include "ops/window.h"

#include <algorithm>

namespace xc {

std::vector<AttrSpec> window_attr_specs(bool kernel_required) {
  return {
      {"auto_pad", AttrKind::kString, false, 0, 0, "NOTSET|VALID|SAME_UPPER|SAME_LOWER"},
      {"kernel_shape", AttrKind::kInts, kernel_required, 1, kMaxWindow},
      {"strides", AttrKind::kInts, false, 1, kMaxWindow},
      {"dilations", AttrKind::kInts, false, 1, kMaxWindow},
      {"pads", AttrKind::kInts, false, 0, kMaxWindow},
  };
}

namespace {

std::vector<int64_t> per_axis(const Node& node, const char* name, size_t count, int64_t otherwise,
                              int64_t low) {
  std::vector<int64_t> out = node.attrs.get_ints(name);
  if (out.empty()) out.assign(count, otherwise);
  if (out.size() != count)
    fail(Status::kInvalidModel, "attribute '{}' has {} entries, expected {}", name, out.size(),
         count);
  for (int64_t v : out)
    if (v < low || v > kMaxWindow)
      fail(Status::kInvalidModel, "attribute '{}' has entry {}, expected {} to {}", name, v, low,
           kMaxWindow);
  return out;
}

AutoPad auto_pad_of(const Node& node) {
  const std::string text = node.attrs.get_string("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::kNotSet;
  if (text == "VALID") return AutoPad::kValid;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  fail(Status::kInvalidModel, "attribute 'auto_pad' is '{}'", text);
}

bool is_same(AutoPad pad) {
  return pad == AutoPad::kSameUpper || pad == AutoPad::kSameLower;
}

}  // namespace

WindowAttrs window_attrs(const Node& node, size_t spatial) {
  if (spatial == 0) fail(Status::kInvalidModel, "input has no spatial axes");
  WindowAttrs out;
  out.kernel = node.attrs.get_ints("kernel_shape");
  if (!out.kernel.empty()) out.kernel = per_axis(node, "kernel_shape", spatial, 1, 1);
  out.strides = per_axis(node, "strides", spatial, 1, 1);
  out.dilations = per_axis(node, "dilations", spatial, 1, 1);
  out.auto_pad = auto_pad_of(node);
  out.ceil_mode = node.attrs.get_int("ceil_mode", 0) != 0;
  out.pads_begin.assign(spatial, 0);
  out.pads_end.assign(spatial, 0);
  if (out.auto_pad == AutoPad::kNotSet) {
    const auto pads = per_axis(node, "pads", 2 * spatial, 0, 0);
    std::copy_n(pads.begin(), spatial, out.pads_begin.begin());
    std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(spatial), spatial, out.pads_end.begin());
  }
  return out;
}

std::optional<WindowAttrs> explicit_window(const Node& node, size_t spatial) {
  WindowAttrs window = window_attrs(node, spatial);
  if (is_same(window.auto_pad)) return std::nullopt;
  if (window.auto_pad == AutoPad::kValid) {
    window.pads_begin.assign(spatial, 0);
    window.pads_end.assign(spatial, 0);
  }
  return window;
}

Dim window_output(const WindowAttrs& window, size_t axis, const Dim& input, const Dim& kernel) {
  const Dim stride = window.strides[axis];
  if (is_same(window.auto_pad)) return ceil_div(input, stride);
  const Dim begin = window.pads_begin[axis];
  const Dim padded = input + begin + window.pads_end[axis];
  const Dim extent = (kernel - 1) * window.dilations[axis] + 1;
  const Dim room = padded - extent;
  // In ceil mode a window may stick out, if less than a stride.
  const Dim allowed = window.ceil_mode ? room + stride - 1 : room;
  if (const auto most = allowed.upper_bound(); most && *most < 0)
    fail(Status::kInvalidModel,
         "kernel spans {} elements, the padded input has {} (spatial axis {})", extent.text(),
         padded.text(), axis);
  if (!window.ceil_mode) return floor_div(room, stride) + 1;
  const Dim windows = ceil_div(room, stride) + 1;
  // A last window that would start in the end padding is dropped. One that reaches over it by less
  // than a stride does not.
  const auto reach = (extent - stride).lower_bound();
  if (reach && *reach >= window.pads_end[axis]) return windows;
  return min(windows, floor_div(input + begin - 1, stride) + 1);
}

RowRange rows_reached(const WindowAxis& axis, RowRange rows) {
  const int64_t first = axis.at(rows.begin, 0), last = axis.at(rows.end - 1, axis.kernel - 1);
  const int64_t begin = std::clamp<int64_t>(first, 0, axis.input - 1);
  return {begin, std::clamp<int64_t>(last + 1, begin + 1, axis.input)};
}

std::vector<WindowAxis> window_axes(const WindowAttrs& window, std::span<const int64_t> input,
                                    std::span<const int64_t> kernel,
                                    std::span<const int64_t> output) {
  std::vector<WindowAxis> out(kernel.size());
  XC_CHECK(input.size() == kernel.size() + 2 && output.size() == input.size());
  for (size_t i = 0; i < out.size(); ++i) {
    WindowAxis& axis = out[i];
    axis.input = input[i + 2];
    axis.output = output[i + 2];
    axis.kernel = kernel[i];
    axis.stride = window.strides[i];
    axis.dilation = window.dilations[i];
    axis.pad_begin = window.pads_begin[i];
    axis.pad_end = window.pads_end[i];
    if (is_same(window.auto_pad)) {
      const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
      const int64_t pad =
          std::max<int64_t>((axis.output - 1) * axis.stride + extent - axis.input, 0);
      axis.pad_begin = window.auto_pad == AutoPad::kSameUpper ? pad / 2 : pad - pad / 2;
      axis.pad_end = pad - axis.pad_begin;
    }
  }
  return out;
}

std::array<WindowAxis, 3> window_axes_3d(std::vector<WindowAxis> axes) {
  if (axes.size() > 3)
    fail(Status::kUnsupported, "windows over {} spatial axes (at most 3)", axes.size());
  std::array<WindowAxis, 3> out;
  std::copy(axes.begin(), axes.end(), out.begin() + static_cast<std::ptrdiff_t>(3 - axes.size()));
  return out;
}

std::array<int64_t, 5> window_strides_3d(std::span<const int64_t> strides) {
  std::array<int64_t, 5> out{strides[0], strides[1], 0, 0, 0};
  std::copy(strides.begin() + 2, strides.end(),
            out.begin() + 2 + static_cast<std::ptrdiff_t>(5 - strides.size()));
  return out;
}

int64_t most_taps(std::span<const WindowAxis> axes) {
  int64_t taps = 1;
  for (const WindowAxis& axis : axes) taps = checked_mul(taps, std::min(axis.kernel, axis.input));
  return taps;
}

}  // namespace xc
