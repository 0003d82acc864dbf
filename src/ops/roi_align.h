#pragma once
// Where RoiAlign samples an image, and the bins of MaxRoiPool.

#include <cstdint>
#include <utility>

#include "ir/graph.h"

namespace xc::roi_align {

/// The pixels that a coordinate lies between along one axis, and what the second one counts.
struct AxisTap {
  int64_t low = -1, high = -1;
  double part = 0;
  bool outside() const { return low < 0; }
};
AxisTap axis_tap(double v, int64_t size);
/// Bilinear taps of one point in a plane of h x w; none when it is outside.
struct Taps {
  int64_t count = 0;
  int64_t index[4];
  double weight[4];
};
Taps taps_at(double y, double x, int64_t h, int64_t w);

/// One region along one axis.
struct Span {
  double start, bin;
  int64_t samples;  ///< per bin

  /// Sample i of bin p.
  double at(int64_t p, int64_t i) const {
    return start + bin * (static_cast<double>(p) +
                          (static_cast<double>(i) + 0.5) / static_cast<double>(samples));
  }
};
/// Fails with kRange for a region of no sensible size.
Span span_of(const Node& node, double begin, double end, int64_t pooled);
/// Of a bin; fails with kRange where they are too many to be meant.
int64_t samples_of(const Span& down, const Span& across);

}  // namespace xc::roi_align

namespace xc::roi_pool {

/// A region in whole pixels of an image; its ends belong to it.
struct Region {
  int64_t image;
  double x1, y1, x2, y2;
};
/// Of five numbers: the image, then x1, y1, x2, y2, which are scaled. Fails with kRange for an
/// image that is not there, and edges beyond all images.
Region region_of(const double* numbers, double scale, int64_t images);
/// Pixels [first, second) of bin p of `pooled` of a region from `begin` to `end`, cut to
/// [0, size).
std::pair<int64_t, int64_t> bin_of(double begin, double end, int64_t pooled, int64_t p,
                                   int64_t size);

}  // namespace xc::roi_pool
