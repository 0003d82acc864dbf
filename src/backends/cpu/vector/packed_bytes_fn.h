#pragma once
// Products of bytes with a right side that is packed for the product at hand: exact sums modulo
// 2^32, of any size, for processors with dot products of four bytes.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

/// The right side [k, n]. Signed bytes, or unsigned ones that mean 128 less.
struct BytesToPack {
  const void* data;
  bool is_signed;
  int64_t k, n;
  int64_t row, column;  ///< bytes from one to the next
};

/// Rows of a left side, dense along k, by a right side that was packed for their type.
struct BytesProduct {
  int64_t m, n, k;
  const void* left;
  bool left_signed;
  int64_t left_row;  ///< bytes
  const uint8_t* right;
  int32_t* sums;
  int64_t sums_row;  ///< elements
};

struct PackedBytesFns {
  /// Four rows lie together, a column's four bytes side by side, in panels of 64 columns. `sums`
  /// [n]: of the signed bytes of a column, if not null.
  void (*pack)(const BytesToPack& from, bool left_signed, uint8_t* to, int32_t* sums);
  void (*multiply)(const BytesProduct& product);
};
/// Null where the processor has no such instructions.
const PackedBytesFns* packed_bytes_fns(const CpuInfo& cpu);

constexpr int64_t packed_bytes(int64_t k, int64_t n) {
  return (k + 3) / 4 * 4 * ((n + 15) / 16 * 16);
}

namespace avx512 {
const PackedBytesFns& packed_bytes_fns();
}

}  // namespace xc::cpu
