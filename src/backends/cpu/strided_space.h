#pragma once
// A loop nest over operands of equal dims with any strides, made as shallow as the strides allow.

#include <span>
#include <vector>

#include "tensor/dim.h"

namespace xc::cpu {

/// Dims, outermost first, and the strides of operands over them, in elements. One block of memory:
/// binding a new shape makes several.
class StridedSpace {
 public:
  StridedSpace() = default;
  /// Room for `operands`, which are added one by one.
  StridedSpace(std::span<const int64_t> dims, size_t operands);

  /// The next operand.
  void add(std::span<const int64_t> strides);
  /// The next operand, of `dims` that broadcast to those of the space (numpy rules).
  void add_broadcast(std::span<const int64_t> dims, std::span<const int64_t> strides);

  size_t rank() const { return rank_; }
  size_t operands() const { return operands_; }
  std::span<const int64_t> dims() const { return {numbers_.data(), rank_}; }
  std::span<const int64_t> strides(size_t operand) const {
    return {numbers_.data() + (operand + 1) * rank_, rank_};
  }
  int64_t count() const;
  int64_t bytes() const {
    return static_cast<int64_t>(sizeof(*this) + numbers_.capacity() * sizeof(int64_t));
  }

  /// Moves an axis to the place before the last, those behind it one forward.
  void move_before_last(size_t axis);

  /// The same elements without dims of size 1, the axes ordered by the strides of the last operand
  /// (the result), largest first, those that are one for every operand merged. At least `min_rank`
  /// axes, padded with size 1 in front. `dims` replaces those of the space: a part of it.
  StridedSpace coalesced(std::span<const int64_t> dims, size_t min_rank) const;
  StridedSpace coalesced(size_t min_rank) const { return coalesced(dims(), min_rank); }

 private:
  size_t rank_ = 0;
  size_t operands_ = 0;
  std::vector<int64_t> numbers_;  ///< dims, then the strides of each operand
};

/// Strides of an operand over the dims of a result it broadcasts to (numpy rules).
Dims strides_over(std::span<const int64_t> result_dims, std::span<const int64_t> dims,
                  std::span<const int64_t> strides);

}  // namespace xc::cpu
