#pragma once
// Walks along an axis for many lines side by side: f32 arg-reductions, running sums, weighted sums.

#include <cstdint>

#include "base/cpu_info.h"
#include "ops/sample_mode.h"

namespace xc::cpu {

constexpr int64_t kSideBySide = 64;  ///< lines walked at once, at most
constexpr int64_t kKeyBlock = 16;    ///< keys compared with a limit at once
constexpr int64_t kFewOfLines = 16;  ///< the best of each line, at most
constexpr int64_t kShortRow = 128;   ///< elements of a row that is one of several to a vector

/// Some rows and their weights.
struct WeightedTaps {
  const int64_t* index;
  const float* weight;
  int64_t count;
};

/// Of each output of an axis: elements k in [first[o], first[o + 1]), one at least, are input
/// index[k] - base, which counts weight[k].
struct AxisTable {
  const int64_t* first;
  const int64_t* index;
  const float* weight;
  int64_t base;
};

/// Elements that points read and what each counts, in rows of kMost points: tap t of point p is at
/// [t * kMost + p].
struct PointTaps {
  static constexpr int64_t kMost = 64;
  int32_t* index;  ///< below 0: no element, counts zero; so for rows of all kMost points
  float* weight;
  int64_t taps;

  static constexpr int64_t bytes(int64_t taps) { return taps * kMost * 8; }
};

/// Where points lie along one axis, as GridSample has it: in [-1, 1] if inside.
struct SampledAxis {
  const void* at;  ///< floats, or doubles where they are `wide`
  bool wide;
  int64_t step, n;  ///< elements from point to point; PointTaps::kMost points at most
  int64_t size;     ///< of the axis, from 1 to 2^30
  bool align_corners;
  SampleMode mode;
  SamplePadding padding;
};
/// What each point reads of one axis: an element, two or four; below 0: zero.
struct SampledTaps {
  int32_t index[4][PointTaps::kMost];
  double weight[4][PointTaps::kMost];
};

/// Points of a plane, each moved from its place in a window by an offset of its own.
struct MovedPoints {
  const double* row;  ///< of the windows' first pixels, n each
  const double* column;
  int64_t n;              ///< PointTaps::kMost at most
  int64_t height, width;  ///< of a plane of less than 2^30 pixels; what lies outside is zero
  double kernel_row = 0, kernel_column = 0;  ///< in the window
  const float* down = nullptr;               ///< offsets, n each
  const float* across = nullptr;
  const float* mask = nullptr;  ///< what each point counts; null: one
};

/// Bins of a plane, their means as sums over rows, then columns. `across` begins at its base.
struct PlaneBins {
  AxisTable down, across;
  int64_t down_count, across_count;
  int64_t stride;  ///< from row to row
  int64_t width;   ///< columns that are read, from the base on
};

/// A row of n elements of 4 bytes, picked out of a source row a register at a time: of register v,
/// lane i is lane index[v * lanes + i] of the one from x[from[2v]] on, or of the one from
/// x[from[2v + 1]] on where that counts on behind it. The last register ends with the row.
struct PickedLine {
  const int64_t* from;
  const int32_t* index;
  int64_t n;
  int64_t readable;  ///< elements behind from[0], where they do not fill a register
  bool two;          ///< whether any register has lanes of the second one
};

struct LineFns {
  /// For each of `lines` <= kSideBySide adjacent lines of n > 0 elements, `step` apart: the
  /// position of the largest (smallest) element; NaN before all others, of equal ones the first.
  void (*arg_best)(const float* x, int64_t n, int64_t step, int64_t lines, bool largest,
                   int32_t* best);
  /// The same for rows of n <= kShortRow adjacent elements that begin `stride` apart.
  void (*arg_best_of_rows)(const float* x, int64_t n, int64_t stride, int64_t rows, bool largest,
                           int32_t* best);
  /// The same for one row of 16 adjacent elements or more.
  int64_t (*arg_best_along)(const float* x, int64_t n, bool largest);
  /// order[r * kSideBySide + l] = position of the element of line l that comes r-th, r < k, of
  /// `lines` as above; 0 < k <= kFewOfLines and k <= n. NaN is the largest, of equal ones the
  /// first.
  void (*best_few)(const float* x, int64_t n, int64_t step, int64_t lines, bool largest, int64_t k,
                   int32_t* order);
  /// The same for `rows` <= kSideBySide rows of adjacent elements that begin `stride` apart.
  void (*best_few_of_rows)(const float* x, int64_t n, int64_t stride, int64_t rows, bool largest,
                           int64_t k, int32_t* order);
  /// Unsigned numbers in the order of the elements: zeros of both signs are equal, NaN is above
  /// all; `falling`: in the opposite order.
  void (*ordered_keys)(const float* x, int64_t n, bool falling, uint32_t* keys);
  /// How many keys from the first on, in whole blocks of kKeyBlock, are none above `limit`.
  int64_t (*none_above)(const uint32_t* keys, int64_t n, uint32_t limit);
  /// Sums up to each element, in f64; `exclusive`: without it. Steps may be negative.
  void (*running_sum)(const float* x, int64_t x_step, float* y, int64_t y_step, int64_t n,
                      int64_t lines, bool exclusive);
  /// to[i] = sum over taps of weight * from[index * n + i].
  void (*weighted_rows)(const float* from, const WeightedTaps& taps, int64_t n, float* to);
  /// to[o * n + i] = sum over the inputs of output o of weight * from[input * n + i].
  void (*resampled)(const float* from, const AxisTable& table, int64_t outputs, int64_t n,
                    float* to);
  void (*axis_taps)(const SampledAxis& axis, SampledTaps& taps);
  /// All choices of one of `each` taps per axis, for n points: the elements of a row-major array of
  /// these sizes, fewer than 2^30, and what each counts. From one to three axes.
  void (*join_taps)(const SampledTaps* axes, const int64_t* sizes, int64_t count, int64_t each,
                    int64_t n, const PointTaps& taps);
  /// The four pixels around each point, row above row, and what each counts.
  void (*moved_taps)(const MovedPoints& points, const PointTaps& taps);
  /// The bins, row by row, into y. `line` has room for the width and a vector more.
  void (*pooled_plane)(const float* plane, const PlaneBins& bins, float* line, float* y);
  /// y[p] = sum over the taps of point p of weight * from[index], for n points.
  void (*pick_taps)(const float* from, const PointTaps& taps, int64_t n, float* y);
  /// The same of four taps each and of `channels` that lie side by side, `stride` from pixel to
  /// pixel: row p of y, which rows begin `y_stride` apart.
  void (*pick_rows)(const float* from, int64_t stride, const PointTaps& taps, int64_t n,
                    int64_t channels, float* y, int64_t y_stride);
  /// to[2i] = to[2i + 1] = from[i], for n elements of 4 bytes each.
  void (*twice)(const void* from, int64_t n, void* to);
  int64_t picks;  ///< lanes of a register that picked() takes; 0 where there is no such function
  /// Row r of y, y_step elements from one to the next, is `line` of the source row at x + rows[r].
  void (*picked)(const void* x, const int64_t* rows, int64_t count, const PickedLine& line, void* y,
                 int64_t y_step);
};
const LineFns& line_fns(Isa isa);

namespace baseline {
const LineFns& line_fns();
}
namespace avx2 {
const LineFns& line_fns();
}
namespace avx512 {
const LineFns& line_fns();
}

}  // namespace xc::cpu
