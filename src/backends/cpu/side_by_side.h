#pragma once
// Lines along one axis whose elements lie beside those of their neighbours, divided into tasks: a
// task of a line or two would read a line of the cache for each of its elements.

#include <algorithm>

#include "base/checked.h"

namespace xc::cpu {

/// `count` lines, each `row` of which lie side by side, in groups of neighbours. A `row` of 1:
/// lines that lie apart.
class LineGroups {
 public:
  LineGroups(int64_t count, int64_t row)
      : row_(std::max<int64_t>(row, 1)),
        per_row_(ceil_div(row_, kGroup)),
        count_(count / row_ * per_row_) {}
  int64_t count() const { return count_; }
  /// The first line of group i; behind the last group, the number of lines.
  int64_t first(int64_t i) const { return i / per_row_ * row_ + i % per_row_ * kGroup; }
  /// The first line of a task.
  int64_t of_task(int64_t task, int64_t tasks) const { return first(count_ * task / tasks); }

 private:
  static constexpr int64_t kGroup = 32;  ///< two vectors, or lines of the cache, of f32
  int64_t row_, per_row_, count_;
};

}  // namespace xc::cpu
