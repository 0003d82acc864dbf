#pragma once
// Pixels of a convolution's result with everything in registers until they are stored: sums, bias
// and bounds.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// y[i * y_pixel + c] for pixels i and channels c is bias[c] + the sum over taps t of
/// x[i * x_pixel + offsets[t]] * w(t, c), in the order of t, then kept within [low, high] (NaN
/// stays). Strides in elements. A pixel's bits do not depend on which ones are computed with it.
///
/// Weights lie in panels of neighbouring channels [tap][channel], one behind the other, all whole
/// vectors: channels [0, align_up(channels, lanes)), cut by ConvRowFns::panel. So is the bias.
///
/// Groups of `width` > 0 channels, `lanes` channels together: tap t of lane l is
/// x[i * x_pixel + offsets[t / width] + l / width * width + t % width]. x is read in whole vectors.
struct ConvRow {
  const float* x;
  int64_t x_pixel;
  const int64_t* offsets;
  int64_t taps;
  const float* w;
  const float* bias;
  float* y;
  int64_t y_pixel;
  int64_t pixels, channels;
  float low, high;
  int64_t width = 0;  ///< 2, 4 or 8, less than `lanes`
};
struct ConvRowFns {
  void (*run)(const ConvRow&);
  int64_t lanes;
  /// Vectors of the first panel of `vectors`.
  int64_t (*panel)(int64_t vectors);
};
ConvRowFns conv_row_fns(Isa isa);

namespace baseline {
ConvRowFns conv_row_fns();
}
namespace avx2 {
ConvRowFns conv_row_fns();
}
namespace avx512 {
ConvRowFns conv_row_fns();
}

}  // namespace xc::cpu
