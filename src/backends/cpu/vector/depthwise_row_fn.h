#pragma once
// Pixels of a depthwise convolution's result, every channel a sum of its own: sums, bias and bounds
// in registers until they are stored.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// y[i * y_pixel + c] for pixels i and channels c is bias[c] + the sum over kernel rows k and
/// columns j, of those of them the caller names, of
/// x[i * x_pixel + k * x_row + j * x_col + c] * w(first + k * w_row + j, c), row by row, then kept
/// within [low, high] (NaN stays). Strides in elements. A pixel's bits do not depend on which ones
/// are computed with it.
///
/// Weights of `taps` taps lie in panels of neighbouring channels [tap][channel], one behind the
/// other: of `panel` channels while there are so many, then of `lanes`, where fewer are left of the
/// last ones.
struct DepthwiseRow {
  const float* x;
  int64_t x_pixel, x_row, x_col;
  int64_t rows, cols;  ///< of the kernel, within the image; either may be none
  const float* w;
  int64_t first, w_row, taps;
  const float* bias;  ///< null: zeros
  float* y;
  int64_t y_pixel;
  int64_t pixels, channels;  ///< of these `lanes` at least
  float low, high;
};
struct DepthwiseRowFns {
  void (*run)(const DepthwiseRow&);
  int64_t lanes, panel;  ///< channels; two vectors are a panel
};
DepthwiseRowFns depthwise_row_fns(Isa isa);

namespace baseline {
DepthwiseRowFns depthwise_row_fns();
}
namespace avx2 {
DepthwiseRowFns depthwise_row_fns();
}
namespace avx512 {
DepthwiseRowFns depthwise_row_fns();
}

}  // namespace xc::cpu
