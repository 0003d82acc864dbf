#pragma once

#include <cmath>

namespace xc::test {

/// The larger of two errors; NaN as soon as one is, which std::max passes over.
inline double worst_of(double a, double b) {
  return std::isnan(a) || b <= a ? a : b;
}

}  // namespace xc::test
