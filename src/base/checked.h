#pragma once
// Overflow-checked arithmetic on sizes a model can drive. Every size in xc is computed here.

#include <cstdint>
#include <span>

#include "base/error.h"

namespace xc {

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) [[unlikely]]
    fail(Status::kLimit, "size overflow: {} * {} does not fit in 64 bits", a, b);
  return out;
}

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) [[unlikely]]
    fail(Status::kLimit, "size overflow: {} + {} does not fit in 64 bits", a, b);
  return out;
}

/// Rounds up to a multiple of `unit` (a power of two).
inline int64_t align_up(int64_t value, int64_t unit) {
  return checked_add(value, unit - 1) & ~(unit - 1);
}

/// What is reserved for `bytes` that may come to be more: a quarter more, in multiples of 64; what
/// nobody can give as it is.
inline int64_t room_to_grow(int64_t bytes) {
  constexpr int64_t kAddressable = int64_t{1} << 57;
  return bytes > kAddressable ? bytes : align_up(bytes > 51 ? bytes + bytes / 4 : 64, 64);
}

/// Product of the dims; 1 for rank 0. Rejects negative dims and overflow, also behind a zero dim.
inline int64_t element_count(std::span<const int64_t> dims) {
  int64_t product = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) [[unlikely]]
      fail(Status::kInvalidModel, "negative dimension {}", dim);
    if (dim == 0)
      empty = true;
    else
      product = checked_mul(product, dim);
  }
  return empty ? 0 : product;
}

inline int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}
inline int64_t ceil_div(int64_t a, int64_t b) {
  return -floor_div(-a, b);
}

}  // namespace xc
