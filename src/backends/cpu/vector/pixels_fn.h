#pragma once
// Channels of pixels that lie channels-last, side by side in registers: statistics of each over all
// pixels, and functions that differ by channel.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// `pixels` rows of `channels` adjacent elements, `stride` elements from row to row.
struct Pixels {
  const float* x;
  int64_t pixels, stride, channels;
};
struct PixelFns {
  /// sums[c] += sum over the pixels of x[c]
  void (*sums)(const Pixels& p, double* sums);
  /// sums[c] += sum over the pixels of (x[c] - centre[c])^2
  void (*squares)(const Pixels& p, const float* centre, double* sums);
  /// y[c] = (x[c] - centre[c]) * factor[c] + shift[c]
  void (*affine)(const Pixels& p, const float* centre, const float* factor, const float* shift,
                 float* y, int64_t y_stride);
  /// y[c] = x[c] + bias[c], kept within [low, high] (NaN stays)
  void (*bounded)(const Pixels& p, const float* bias, float low, float high, float* y,
                  int64_t y_stride);
};
const PixelFns& pixel_fns(Isa isa);

namespace baseline {
const PixelFns& pixel_fns();
}
namespace avx2 {
const PixelFns& pixel_fns();
}
namespace avx512 {
const PixelFns& pixel_fns();
}

}  // namespace xc::cpu
