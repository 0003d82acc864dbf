#pragma once
// The grid that AffineGrid maps.

#include <cstdint>

namespace xc {

/// Point i of n between -1 and 1: at the ends, or in the middle of n equal cells.
double grid_point(int64_t i, int64_t n, bool align_corners);

}  // namespace xc
