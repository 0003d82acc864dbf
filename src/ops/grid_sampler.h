#pragma once
// Where a point of a grid reads an image along one axis (GridSample): alignment, padding,
// interpolation.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ir/graph.h"
#include "ops/sample_mode.h"

namespace xc {

class GridSampler {
 public:
  /// An element and its weight.
  struct Tap {
    int64_t index;  ///< -1: zero
    double weight;
  };
  static constexpr size_t kMaxTaps = 4;  ///< of one axis

  explicit GridSampler(const Node& node)
      : align_corners_(node.attrs.get_int("align_corners", 0) != 0) {
    const std::string mode = node.attrs.get_string("mode", "linear");
    mode_ = mode == "nearest" ? SampleMode::kNearest
            : mode == "cubic" ? SampleMode::kCubic
                              : SampleMode::kLinear;
    const std::string padding = node.attrs.get_string("padding_mode", "zeros");
    if (padding == "border") padding_ = SamplePadding::kBorder;
    if (padding == "reflection") padding_ = SamplePadding::kReflection;
  }

  SampleMode mode() const { return mode_; }
  SamplePadding padding() const { return padding_; }
  bool align_corners() const { return align_corners_; }
  size_t taps() const {
    return mode_ == SampleMode::kNearest ? 1 : mode_ == SampleMode::kLinear ? 2 : 4;
  }

  /// The first taps() are set: what a coordinate in [-1, 1] reads of an axis of `size`.
  std::array<Tap, kMaxTaps> at(double normalised, int64_t size) const {
    const double x = coordinate(normalised, size);
    if (mode_ == SampleMode::kNearest) return {{{element(std::nearbyint(x), size), 1}}};
    const double base = std::floor(x), t = x - base;
    if (mode_ == SampleMode::kLinear)
      return {{{element(base, size), 1 - t}, {element(base + 1, size), t}}};
    constexpr double a = -0.75;  // cubic convolution
    const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    return {{{element(base - 1, size), far(1 + t)},
             {element(base, size), near(t)},
             {element(base + 1, size), near(1 - t)},
             {element(base + 2, size), far(2 - t)}}};
  }

 private:
  double low() const { return align_corners_ ? 0.0 : -0.5; }
  double high(int64_t size) const {
    return static_cast<double>(size) - (align_corners_ ? 1.0 : 0.5);
  }

  /// Mirrors x into [low, high], as often as needed.
  static double reflected(double x, double low, double high) {
    const double range = high - low;
    if (range <= 0) return low;
    const double offset = std::fmod(std::abs(x - low), 2 * range);
    return low + (offset <= range ? offset : 2 * range - offset);
  }

  /// The pixel coordinate of a normalised one, moved inside by border and reflection.
  double coordinate(double normalised, int64_t size) const {
    const auto extent = static_cast<double>(size);
    double x =
        align_corners_ ? (normalised + 1) / 2 * (extent - 1) : ((normalised + 1) * extent - 1) / 2;
    // Points that are no numbers, or absurdly far, lie outside.
    constexpr double kFar = 0x1p30;
    x = std::isnan(x) ? -kFar : std::clamp(x, -kFar, kFar);
    if (mode_ == SampleMode::kNearest) x = std::nearbyint(x);
    if (x >= low() && x <= high(size)) return x;
    // Cubic taps are moved one by one, as onnxruntime and PyTorch do.
    if (padding_ == SamplePadding::kBorder)
      return mode_ == SampleMode::kCubic ? x : std::clamp(x, 0.0, extent - 1);
    if (padding_ == SamplePadding::kReflection) return reflected(x, low(), high(size));
    return x;
  }

  /// The element that index i means; -1 = zero.
  int64_t element(double i, int64_t size) const {
    const auto last = static_cast<double>(size - 1);
    if (i < 0 || i > last) {
      if (padding_ == SamplePadding::kZeros) return -1;
      if (padding_ == SamplePadding::kReflection)
        i = std::nearbyint(reflected(i, low(), high(size)));
      i = std::clamp(i, 0.0, last);
    }
    return static_cast<int64_t>(i);
  }

  SampleMode mode_ = SampleMode::kLinear;
  SamplePadding padding_ = SamplePadding::kZeros;
  bool align_corners_ = false;
};

}  // namespace xc
