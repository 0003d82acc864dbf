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

/// What each output element is made of, one behind the other: axes may be long. Element o is the
/// sum of weight[k] * input[index[k]] for k in [begin(o), end(o)).
struct ResizeSamples {
  int64_t count = 0;           ///< outputs
  std::vector<int64_t> first;  ///< [count + 1]; none by the nearest element, which is one each
  std::vector<int64_t> index;  ///< inside [0, input)
  std::vector<double> weight;  ///< none by the nearest element: one
  std::vector<bool> beyond;    ///< outside the input; none but with tf_crop_and_resize

  bool empty() const { return count == 0; }
  int64_t begin(int64_t o) const { return first.empty() ? o : first[static_cast<size_t>(o)]; }
  int64_t end(int64_t o) const { return begin(o + 1); }
  bool extrapolated(int64_t o) const { return !beyond.empty() && beyond[static_cast<size_t>(o)]; }
};

ResizeSamples resize_samples(const ResizeMode& mode, const ResizeAxis& axis);

}  // namespace xc
