#pragma once
// Resampling along one axis: which input elements, with which weights, make each output element.
// Resize is separable, so this is all of its arithmetic.

#include <cstdint>
#include <string>
#include <vector>

namespace xc {

/// out/in as a quotient, so that a scale given by sizes maps integers to exact integers.
struct ResizeScale {
  double numerator = 1, denominator = 1;
  double value() const { return numerator / denominator; }
  double divide(double x) const { return x * denominator / numerator; }
};

struct ResizeMode {
  std::string interpolation = "nearest";   ///< nearest, linear, cubic
  std::string coordinates = "half_pixel";  ///< coordinate_transformation_mode
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
};

struct ResizeAxis {
  int64_t input = 1, output = 1;
  ResizeScale scale;
  double roi_begin = 0, roi_end = 1;  ///< normalised, for tf_crop_and_resize
};

/// One output element: sum of weight[i] * input[index[i]].
struct ResizeSample {
  std::vector<int64_t> index;  ///< inside [0, input)
  std::vector<double> weight;
  bool extrapolated = false;  ///< outside the input (tf_crop_and_resize only)
};

std::vector<ResizeSample> resize_samples(const ResizeMode& mode, const ResizeAxis& axis);

}  // namespace xc
