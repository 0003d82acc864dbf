#pragma once
// Neighbouring elements of rows as sums over windows: convolutions of planes, by vectors along the
// rows.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Most results of one call: what a tap has loaded serves all of them.
constexpr int64_t kPlaneResults = 4;

/// Where the taps of a window lie, in elements: planes, rows of each and columns of each row.
struct PlaneWindow {
  const int64_t* planes;  ///< the first tap of each
  int64_t plane_count;
  int64_t rows, row_by;
  const int64_t* cols;
  int64_t col_count;
  int64_t taps() const { return plane_count * rows * col_count; }
};

/// Element i of row j of result r, y[r * y_by + j * y_row_by + i] for i in [0, count), is bias[r] +
/// the sum over taps, in their order, of x[j * x_row_by + i + where the tap lies] * w[r * taps +
/// tap], then kept within [low, high] (NaN stays). Up to a vector behind what the
/// last element needs is read. Without a bias it is 0.
struct PlaneRows {
  const float* x;
  int64_t x_row_by;
  PlaneWindow window;
  const float* w;
  const float* bias;
  float* y;
  int64_t y_by, results;  ///< up to kPlaneResults
  int64_t y_row_by, rows;
  int64_t count;
  float low, high;
};
/// Rows of an image into rows in which the columns of each phase of a stride lie side by side:
/// column i is number i + first of the row it goes to, and that number n lies at to[n % stride *
/// phase_by + n / stride]. Columns lie x_col_by elements apart.
struct PhaseRows {
  const float* x;
  int64_t x_row_by, rows, columns;
  float* to;
  int64_t to_row_by, first, stride, phase_by;
  int64_t x_col_by = 1;
};
/// Rows of the phases of a stride, each side by side: of each row, y[i] is
/// x[n % stride * x_phase_by + i / stride] for n = first + i, i in [0, count).
struct WovenRows {
  const float* x;
  int64_t x_row_by, x_phase_by, stride, first;
  float* y;
  int64_t y_row_by, rows, count;
};
struct PlaneRowFns {
  void (*run)(const PlaneRows&);
  void (*copy)(const PhaseRows&);
  void (*weave)(const WovenRows&);
  int64_t lanes;
};
PlaneRowFns plane_row_fns(Isa isa);

namespace baseline {
PlaneRowFns plane_row_fns();
}
namespace avx2 {
PlaneRowFns plane_row_fns();
}
namespace avx512 {
PlaneRowFns plane_row_fns();
}

}  // namespace xc::cpu
