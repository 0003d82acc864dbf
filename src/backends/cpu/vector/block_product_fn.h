#pragma once
// Products with weights kept as small integers in panels of 64 columns.

#include <cstdint>

#include "base/cpu_info.h"

namespace xc::cpu {

constexpr int64_t kPanelColumns = 64;
constexpr int64_t kBlockRows = 4;  ///< of the left side at once, at most

/// One panel: row k is 64 bytes, or 32 of two 4-bit values (columns 0..31 low, 32..63 high), all
/// unsigned. Element (k, j) means (value - zeros[k / block][j]) * scales[k / block][j].
struct BlockPanel {
  const uint8_t* data;
  bool four_bits;
  int64_t k, block;
  const float* scales;  ///< [ceil(k / block)][64]
  const float* zeros;   ///< likewise
  int64_t row_bytes() const { return four_bits ? kPanelColumns / 2 : kPanelColumns; }
};

/// Some rows [rows, k] of a left side, rows <= kBlockRows, and the sums of their blocks.
struct BlockRows {
  const float* data;
  int64_t row;
  const float* sums;
  int64_t sums_row;
  int64_t rows;
};

struct BlockFns {
  /// y[rows, 64 * count] = x * panels, which agree in all but what they hold. A block's sum is made
  /// of the integers, before its scale: it must be within f32.
  void (*multiply)(const BlockPanel* panels, int64_t count, const BlockRows& x, float* y,
                   int64_t y_row);
  /// out[k1 - k0, 64] = rows [k0, k1) of the panel; row stride in elements.
  void (*dequantise)(const BlockPanel& panel, int64_t k0, int64_t k1, float* out, int64_t out_row);
  /// out[b] = sum of block b of k values. Returns the largest magnitude, NaN aside.
  float (*block_sums)(const float* x, int64_t k, int64_t block, float* out);
};
const BlockFns& block_fns(Isa isa);

namespace baseline {
const BlockFns& block_fns();
}
namespace avx2 {
const BlockFns& block_fns();
}
namespace avx512 {
const BlockFns& block_fns();
}

}  // namespace xc::cpu
