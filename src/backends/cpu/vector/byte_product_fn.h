#pragma once
// Products of rows rounded to 8 bits, block by block (ops/rounded_blocks.h), with panels of small
// integers.

#include <cstdint>

#include "backends/cpu/vector/block_product_fn.h"
#include "base/cpu_info.h"

namespace xc::cpu {

/// Bytes that a group of rows of a panel takes: four values of each column lie together, a byte
/// each; of 4 bits eight, the first four low.
constexpr int64_t kGroupBytes = 4 * kPanelColumns;
constexpr int64_t group_rows(bool four_bits) {
  return four_bits ? 8 : 4;
}

/// A panel in such groups, whole ones. Element (k, j) means (value - zeros[k / block][j]) *
/// scales[k / block][j]; `block` is one that rounds_beside() takes.
struct BytePanel {
  const uint8_t* data;
  bool four_bits;
  int64_t k, block;
  const float* scales;   ///< [ceil(k / block)][64]
  const uint8_t* zeros;  ///< likewise
};

/// Rows of a left side, rows <= kBlockRows, each with zeros up to a whole group.
struct ByteRows {
  const int8_t* data;
  int64_t row;          ///< bytes from one to the next
  const float* scales;  ///< [rows][blocks]
  const float* sums;    ///< [rows][blocks]: of a block's bytes
  int64_t blocks;
  int64_t rows;
};

struct ByteFns {
  /// y[rows, 64] = x * panel; sums of a block are exact.
  void (*multiply)(const BytePanel& panel, const ByteRows& x, float* y, int64_t y_row);
  /// Rounds a row of k values and makes scales and sums of its blocks; `out` has room for, and
  /// gets, zeros up to a multiple of 64. False: the row stays as it is (round_blocks()).
  bool (*round)(const float* x, int64_t k, int64_t block, int8_t* out, float* scales, float* sums);
};
/// Null where no instructions multiply such bytes without loss.
const ByteFns* byte_fns(const CpuInfo& cpu, bool four_bits);
/// y[64] = x[k] * panel, for a row that is not rounded.
void multiply_as_given(const float* x, const BytePanel& panel, float* y);

namespace avx2 {
const ByteFns& byte_fns();
}
namespace avx512 {
const ByteFns& byte_fns();
const ByteFns& byte_fns_vnni();
}  // namespace avx512

}  // namespace xc::cpu
