#pragma once
// Rows of 4-byte elements picked out of rows of a source, a register at a time: what resampling by
// the nearest element does along the last axis, at any scale of a half or more.

#include <optional>

#include "backends/cpu/axis_sources.h"
#include "backends/cpu/vector/lines_fn.h"

namespace xc::cpu {

class PickedRows {
 public:
  /// Rows of adjacent elements that `columns` finds in a source row, which `rows` finds. Nothing
  /// where an element has no source, registers cannot be picked from, or the elements of one lie in
  /// more than two registers.
  static std::optional<PickedRows> of(const AxisSources& rows, const AxisSources& columns);

  /// Rows [begin, end) of y, `y_step` apart.
  void run(const void* x, void* y, int64_t y_step, int64_t begin, int64_t end) const;
  int64_t bytes() const {
    return static_cast<int64_t>(rows_.size() * 8 + from_.size() * 8 + index_.size() * 4);
  }

 private:
  std::vector<int64_t> rows_, from_;
  std::vector<int32_t> index_;
  PickedLine line_{};
};

}  // namespace xc::cpu
