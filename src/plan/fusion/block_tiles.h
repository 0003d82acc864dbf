#pragma once
// How many rows, columns and sums the loops of a row-block region take at a time, so that a tile
// stays in the target's registers and a block in its caches.

#include "loop/schedule.h"
#include "plan/fusion/block_region.h"

namespace xc::fusion {

constexpr int kBlockRows = 32;       // of a block, where nothing asks for more or fewer
constexpr int64_t kTaskRows = 1024;  // without batch axes: rows of a task

struct BlockTiles {
  /// `region` is analysed.
  BlockTiles(const BlockRegion& region, const loop::TargetWidth& target);

  bool multiplies;     ///< TargetWidth::multiplies
  int block_rows;      ///< a power of two that divides kTaskRows
  int tile_columns;    ///< of a row product, side by side
  int product_lanes;   ///< rows of a row product in lanes
  int column_vectors;  ///< of sums of a column product
  int column_factors;  ///< numbers of the narrow side of a column product, in registers
};

/// Columns or sums of a type in a tile that has `registers` of f32: a register holds half as many
/// numbers of 8 bytes.
inline int tile_of(DType type, int registers) {
  return type == DType::kF64 ? registers / 2 : registers;
}

}  // namespace xc::fusion
