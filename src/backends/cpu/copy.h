#pragma once
// Strided copies of any rank: the data movement inside other kernels, and the steps of
// copy_ops.cpp.

#include <cstdint>
#include <span>

#include "backends/cpu/strided_space.h"

namespace xc::cpu {

/// A copy prepared for given dims and strides (in elements): coalesced, and tiled where one side
/// runs along another axis than the other.
class CopyPlan {
 public:
  CopyPlan() = default;
  CopyPlan(std::span<const int64_t> dims, std::span<const int64_t> from_strides,
           std::span<const int64_t> to_strides, int64_t element_bytes);
  /// Copies all; from and to are element 0.
  void run(const void* from, void* to) const { run(from, to, 0, units_); }
  /// Copies units [begin, end) of units(): disjoint parts of the destination.
  void run(const void* from, void* to, int64_t begin, int64_t end) const;
  int64_t units() const { return units_; }
  int64_t bytes() const { return bytes_; }  ///< copied in total

 private:
  /// kSplit: a transposition of few rows, the channels of pixels, whose columns are divided.
  enum class Kind : uint8_t { kRuns, kStrided, kTransposed, kSplit };
  /// What is done with the last axis and another one of `rows` elements.
  Kind kind_with_rows(int64_t rows, int64_t row_from, int64_t row_to) const;

  Kind kind_ = Kind::kRuns;
  int64_t element_bytes_ = 1;
  int64_t bytes_ = 0;
  int64_t units_ = 0;
  // Outer axes, then the last one or two, which the inner loop takes.
  Dims outer_dims_, outer_from_, outer_to_;
  int64_t rows_ = 1, row_to_ = 0;  ///< kTransposed, kSplit: second inner axis, dense in the source
  int64_t cols_ = 1, col_from_ = 1, col_to_ = 1;
  int64_t pieces_ = 1;  ///< units per outer index
};

/// Of a matrix; strides in elements.
struct MatrixCopy {
  int64_t rows, columns;
  int64_t from_row, from_column, to_row, to_column;
  int64_t element_bytes;
};
/// What is not worth a plan, for a run has many sizes or finds them out: takes no memory.
void copy_matrix(MatrixCopy m, const void* from, void* to);

}  // namespace xc::cpu
