#pragma once
// Sliding windows over spatial axes: what convolution and pooling share. Attributes, their checks,
// output sizes and padding, for any number of spatial axes.

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/checked.h"
#include "ops/op.h"

namespace xc {

/// Largest kernel, stride, dilation or padding a model may ask for: sums and products of two stay
/// far from overflow.
inline constexpr int64_t kMaxWindow = int64_t{1} << 30;

/// Rows of a schema. All ops with windows have these; kernel_shape is required for pooling only.
std::vector<AttrSpec> window_attr_specs(bool kernel_required);

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

/// The window attributes of a node, complete: one entry per spatial axis.
struct WindowAttrs {
  std::vector<int64_t> kernel;  ///< empty when the node does not say (convolution)
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
};
/// Reads them; fails with kInvalidModel when a list has not one entry (two for pads) per axis.
WindowAttrs window_attrs(const Node& node, size_t spatial);
/// The same where padding does not depend on the sizes: as numbers.
std::optional<WindowAttrs> explicit_window(const Node& node, size_t spatial);

/// Size of the output along one axis. Fails with kInvalidModel when the (dilated) kernel is known
/// to be larger than the padded input.
Dim window_output(const WindowAttrs& window, size_t axis, const Dim& input, const Dim& kernel);

/// Size along one axis of what a pooling operator read to give `pooled` elements.
template <class Size>
Size unpooled(const WindowAttrs& window, size_t axis, const Size& pooled) {
  return (pooled - 1) * window.strides[axis] - (window.pads_begin[axis] + window.pads_end[axis]) +
         window.kernel[axis];
}

/// Rows [begin, end) of an image: positions along its first spatial axis.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

/// One axis with everything known, as a reference walks it.
struct WindowAxis {
  int64_t input = 1, output = 1, kernel = 1;
  int64_t stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  /// Input index under kernel position k of output o; outside [0, input) it is padding.
  int64_t at(int64_t o, int64_t k) const { return o * stride - pad_begin + k * dilation; }
  bool inside(int64_t i) const { return i >= 0 && i < input; }
  /// Of the padded input, that `outputs` neighbours read.
  int64_t extent(int64_t outputs) const {
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
  }
  /// Kernel positions of output o whose input index is in [from, to); none: [0, 0).
  RowRange positions(int64_t o, int64_t from, int64_t to) const {
    const int64_t base = at(o, 0);
    const int64_t begin = std::max<int64_t>(0, ceil_div(from - base, dilation));
    const int64_t end = std::min(kernel, ceil_div(to - base, dilation));
    return begin < end ? RowRange{begin, end} : RowRange{};
  }
  /// Outputs under whose kernel position k the input has an element; none: [0, 0).
  RowRange outputs(int64_t k) const {
    const int64_t base = at(0, k);
    const int64_t begin = std::max<int64_t>(0, ceil_div(-base, stride));
    const int64_t end = std::min(output, ceil_div(input - base, stride));
    return begin < end ? RowRange{begin, end} : RowRange{};
  }
  /// Whether output o's window does not lie in the padding alone.
  bool reaches(int64_t o) const { return at(o, kernel - 1) >= 0 && at(o, 0) < input; }
  /// Whether every window does.
  bool all_reach() const { return reaches(0) && reaches(output - 1); }
};
/// Rows of the input that are read for those of the result; one at least, also where all windows
/// lie in the padding.
RowRange rows_reached(const WindowAxis& axis, RowRange rows);
/// Axes from dims of N, C, spatial...; padding of SAME_* is worked out here.
std::vector<WindowAxis> window_axes(const WindowAttrs& window, std::span<const int64_t> input,
                                    std::span<const int64_t> kernel,
                                    std::span<const int64_t> output);
/// The same with axes of size 1 put in front, so that three nested loops walk any window of up to
/// three axes. Fails with kUnsupported for more.
std::array<WindowAxis, 3> window_axes_3d(std::vector<WindowAxis> axes);
/// Strides of N, C and three spatial axes, those that were put in front 0.
std::array<int64_t, 5> window_strides_3d(std::span<const int64_t> strides);
/// Elements of a window over these axes that are no padding, at most.
int64_t most_taps(std::span<const WindowAxis> axes);

}  // namespace xc
