#include "ops/resize_axis.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace xc {

namespace {

/// The input coordinate of output element o.
double source_of(const std::string& coordinates, const ResizeAxis& a, int64_t o) {
  const auto x = static_cast<double>(o), size = static_cast<double>(a.input);
  // Not rounded: with given scales the standard's examples use the exact product.
  const double length = a.scale.value() * size;
  if (coordinates == "half_pixel") return a.scale.divide(x + 0.5) - 0.5;
  if (coordinates == "tf_half_pixel_for_nn") return a.scale.divide(x + 0.5);  // of version 11
  if (coordinates == "asymmetric") return a.scale.divide(x);
  if (coordinates == "align_corners") return length == 1 ? 0 : x * (size - 1) / (length - 1);
  if (coordinates == "pytorch_half_pixel") return length > 1 ? a.scale.divide(x + 0.5) - 0.5 : 0;
  if (coordinates == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(a.output) / length;
    return size / 2 * (1 - adjustment) + a.scale.divide(x + 0.5) - 0.5;
  }
  if (coordinates == "tf_crop_and_resize") {
    const double extent = (a.roi_end - a.roi_begin) * (size - 1);
    return a.roi_begin * (size - 1) + (length == 1 ? extent / 2 : x * extent / (length - 1));
  }
  fail(Status::kInvalidModel, "attribute 'coordinate_transformation_mode' is '{}'", coordinates);
}

double nearest_of(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

/// Interpolation kernel at distance d: triangle, or cubic convolution with parameter a.
double kernel_of(const ResizeMode& mode, double d) {
  d = std::abs(d);
  if (mode.interpolation == "linear") return std::max(1 - d, 0.0);
  const double a = mode.cubic_a;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

void add_weighted(const ResizeMode& mode, const ResizeAxis& axis, double x, ResizeSamples& out) {
  // Antialiasing stretches the kernel over all inputs that one output covers.
  const double shrink = mode.antialias ? std::min(axis.scale.value(), 1.0) : 1.0;
  const double reach = (mode.interpolation == "linear" ? 1 : 2) / shrink;
  // Beyond the edges every neighbour is the edge.
  x = std::clamp(x, -reach - 1, static_cast<double>(axis.input) + reach);
  const size_t begin = out.weight.size();
  double total = 0;
  for (double i = std::ceil(x - reach); i <= x + reach; ++i) {
    const bool outside = i < 0 || i > static_cast<double>(axis.input - 1);
    if (outside && mode.exclude_outside) continue;
    const double weight = kernel_of(mode, (i - x) * shrink);
    if (weight == 0) continue;
    out.index.push_back(
        static_cast<int64_t>(std::clamp(i, 0.0, static_cast<double>(axis.input - 1))));
    out.weight.push_back(weight);
    total += weight;
  }
  if (total != 0)
    for (size_t k = begin; k < out.weight.size(); ++k) out.weight[k] /= total;
}

}  // namespace

ResizeSamples resize_samples(const ResizeMode& mode, const ResizeAxis& axis) {
  if (axis.input == 0 && axis.output > 0)
    fail(Status::kRange, "an empty axis cannot be resized to {}", axis.output);
  const auto last = static_cast<double>(axis.input - 1);
  const bool crops = mode.coordinates == "tf_crop_and_resize";
  const bool nearest = mode.interpolation == "nearest" && !crops;
  ResizeSamples out;
  out.count = axis.output;
  if (nearest)
    out.index.reserve(static_cast<size_t>(axis.output));
  else
    out.first.reserve(static_cast<size_t>(axis.output) + 1);
  for (int64_t o = 0; o < axis.output; ++o) {
    const double x = source_of(mode.coordinates, axis, o);
    if (!std::isfinite(x)) fail(Status::kRange, "resize maps output {} to no input coordinate", o);
    if (!nearest) out.first.push_back(static_cast<int64_t>(out.index.size()));
    if (crops) out.beyond.push_back(x < 0 || x > last);
    if (out.extrapolated(o)) continue;
    if (mode.interpolation == "nearest") {
      out.index.push_back(static_cast<int64_t>(std::clamp(nearest_of(mode.nearest, x), 0.0, last)));
      if (crops) out.weight.push_back(1);
    } else {
      add_weighted(mode, axis, x, out);
    }
  }
  if (!nearest) out.first.push_back(static_cast<int64_t>(out.index.size()));
  return out;
}

}  // namespace xc
