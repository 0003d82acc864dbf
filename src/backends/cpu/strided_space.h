#pragma once
// A loop nest over operands of equal dims with any strides, made as shallow as the strides allow.

#include <array>
#include <span>
#include <vector>

#include "tensor/dim.h"

namespace xc::cpu {

/// dims outermost first; strides[k] of operand k, in elements.
struct StridedSpace {
  Dims dims;
  std::vector<Dims> strides;
  int64_t count() const;
  int64_t bytes() const {
    return static_cast<int64_t>(sizeof(*this) + 8 * dims.size() * (strides.size() + 1));
  }
};

/// Drops dims of size 1, orders the axes by the strides of the last operand (the result), largest
/// first, and merges axes that are one for every operand. At least `min_rank` axes come back,
/// padded with size 1 in front.
StridedSpace coalesce(std::span<const int64_t> dims, std::vector<Dims> strides, size_t min_rank);

/// Strides of an operand over the dims of a result it broadcasts to (numpy rules).
Dims strides_over(std::span<const int64_t> result_dims, std::span<const int64_t> dims,
                  std::span<const int64_t> strides);

}  // namespace xc::cpu
