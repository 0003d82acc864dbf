#pragma once
// What is known of a float without running anything: bounds such as quantisation writes.

#include <functional>
#include <limits>

#include "loop/expr.h"

namespace xc::loop {

struct KnownRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool number = false;  ///< not NaN
};

/// Of all values of an integer type of at most 4 bytes.
KnownRange known_range(DType type);

/// Of a float; looks so many nodes deep, for what nodes share is met once for each. `reg`: of a
/// register; absent: nothing is known of them.
KnownRange known_range(const Expr& e, const std::function<KnownRange(uint32_t reg)>& reg = {},
                       int depth = 8);

}  // namespace xc::loop
