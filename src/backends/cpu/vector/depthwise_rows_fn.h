#pragma once
// Rows of a depthwise convolution's result, every channel a sum of its own: sums, bias and bounds
// in registers until they are stored.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Windows along one axis: tap k of result i reads position first + i * stride + k * dilation of
/// the `input` ones that the image has, or nothing.
struct DepthwiseAxis {
  int64_t taps = 1, stride = 1, dilation = 1;
  int64_t first = 0, input = 1;
};

/// y[r * y_row + i * y_pixel + c] for result rows r, pixels i and channels c is bias[c] + the sum
/// of x[row * x_row + col * x_pixel + c] * w(k, j, c) over the kernel rows k and columns j that
/// read a row and a column of the image, row by row, then kept within [low, high] (NaN stays).
/// Strides in elements. A pixel's bits do not depend on which ones are computed with it.
///
/// Weights lie in panels of `lanes` neighbouring channels [k][j][channel], one behind the other;
/// the last one has the last `lanes` channels, of which some may be in the one before too.
struct DepthwiseRows {
  const float* x;  ///< row 0, column 0 of the image
  int64_t x_row, x_pixel;
  DepthwiseAxis down, across;  ///< from the first result row and pixel on
  const float* w;
  const float* bias;  ///< null: zeros
  float* y;
  int64_t y_row, y_pixel;
  int64_t rows, pixels, channels;  ///< of these `lanes` at least
  float low, high;
};
struct DepthwiseRowsFns {
  void (*run)(const DepthwiseRows&);
  int64_t lanes;
  int64_t rows;  ///< computed side by side, where their windows share some
};
DepthwiseRowsFns depthwise_rows_fns(Isa isa);

namespace baseline {
DepthwiseRowsFns depthwise_rows_fns();
}
namespace avx2 {
DepthwiseRowsFns depthwise_rows_fns();
}
namespace avx512 {
DepthwiseRowsFns depthwise_rows_fns();
}

}  // namespace xc::cpu
