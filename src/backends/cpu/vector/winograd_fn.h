#pragma once
// Winograd's minimal filtering: windows of a convolution that overlap are computed together, in
// tiles, with fewer products than each alone (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016). Along an axis, `points` transformed inputs give `outputs` neighbouring
// results of a kernel of points - outputs + 1 taps; channels are summed between two transforms, as
// a matrix product per point.
//
// Points of interpolation: of four 0, 1, -1 and infinity; of six 0, +-sqrt(1/2), +-sqrt(2) and
// infinity: symmetric, and with their inverses among them, so that no coefficient is large
// (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep
// Neural Networks", 2020). Against f64 the largest error is about twice that of plain sums (the
// tests).

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// Along one axis. One point: a kernel of one tap, left as it is.
struct WinogradAxis {
  int points = 1;   ///< 1, 4 or 6
  int outputs = 1;  ///< 1; of 4 points 2; of 6 points 2 or 4
  int taps() const { return points - outputs + 1; }
  bool operator==(const WinogradAxis&) const = default;
};
constexpr int kMostPoints = 6, kMostOutputs = 4;  ///< along an axis

/// The input of one tile: a pointer to the channels of each pixel, row by row of the tile, and
/// where its points go, `v_point` elements apart. A point is whole vectors of channels, zeros
/// behind the last channel.
struct WinogradInput {
  const float* const* pixels;
  int64_t channels;
  float* v;
  int64_t v_point;
};
/// Sums over channels at each point, and where the tile's results go: pixels row by row, bias added
/// (whole vectors), kept within [low, high] (NaN stays).
struct WinogradOutput {
  const float* m;
  int64_t m_point;
  float* const* pixels;
  int64_t channels;
  const float* bias;
  float low, high;
};
/// Taps of one input channel's kernels for kWeightColumns output channels, [row tap][column tap]
/// [output channel], and where their points go, `to_point` elements apart. Sums in f64, in an order
/// that no instruction set changes.
struct WinogradWeights {
  const float* taps;
  int rows, cols;                           ///< points along each axis
  int row_taps, col_taps;                   ///< kMostTaps at most
  const double *row_factors, *col_factors;  ///< winograd_factors() of all points
  float* to;
  int64_t to_point;
};
constexpr int64_t kWeightColumns = 64;
constexpr int kMostTaps = 5;

struct WinogradFns {
  void (*weights)(const WinogradWeights&) = nullptr;
  void (*input)(const WinogradInput&) = nullptr;
  /// Whether every result was finite in front of the bounds. If not, they are worthless: what is
  /// infinite in one window spreads through the tile.
  bool (*output)(const WinogradOutput&) = nullptr;
  int64_t lanes = 1;
};
/// input is null for axes there is no code for: both have more than one point and not equally many,
/// or neither has.
WinogradFns winograd_fns(Isa isa, const WinogradAxis& rows, const WinogradAxis& cols);
/// What a kernel's taps are multiplied by to be its `point`-th of that axis: taps() factors.
void winograd_factors(const WinogradAxis& axis, int point, double* factors);

namespace baseline {
WinogradFns winograd_fns(const WinogradAxis& rows, const WinogradAxis& cols);
}
namespace avx2 {
WinogradFns winograd_fns(const WinogradAxis& rows, const WinogradAxis& cols);
}
namespace avx512 {
WinogradFns winograd_fns(const WinogradAxis& rows, const WinogradAxis& cols);
}

}  // namespace xc::cpu
