#pragma once
// Neighbouring elements of a row as a sum of taps: convolutions of planes, by vectors along the
// row.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Most results of one call: what the taps have loaded serves all of them.
constexpr int64_t kPlaneResults = 4;

/// Row r of `results`, y[r * y_by + i] for i in [0, count), is bias[r] + the sum over taps t of
/// x[i + offsets[t]] * w[r * taps + t], in the order of t, then kept within [low, high] (NaN
/// stays). Nothing behind the last element is read. Without a bias it is 0.
struct PlaneRow {
  const float* x;
  const int64_t* offsets;
  const float* w;
  int64_t taps;
  const float* bias;
  float* y;
  int64_t y_by, results;
  int64_t count;
  float low, high;
};
struct PlaneRowFns {
  void (*run)(const PlaneRow&);
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
