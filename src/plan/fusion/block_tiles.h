#pragma once
// How many rows, columns and sums the loops of a row-block region take at a time, so that a tile
// stays in the target's registers and a block in its caches.

#include "loop/schedule.h"
#include "plan/fusion/block_region.h"

namespace xc::fusion {

constexpr int kBlockRows = 32;       // of a block, where nothing asks for more or fewer
constexpr int64_t kTaskRows = 1024;  // without batch axes: rows of a task
constexpr int kFarRows = 4;          // the fewest of a block whose rows are read far apart
constexpr int kRowsAtOnce = 4;       // of a column product whose factors stay in registers

struct BlockTiles {
  /// `region` is analysed.
  BlockTiles(const BlockRegion& region, const loop::TargetWidth& target);

  bool multiplies;     ///< TargetWidth::multiplies
  bool matrix_units;   ///< TargetWidth::matrix_units, wanted here, and this process may
  int block_rows = 0;  ///< a power of two that divides kTaskRows
  /// Rows that are read from memory side by side lie a part of the block apart. Neighbouring ones
  /// are streams so close to each other that the hardware's prefetching takes them for one (rows of
  /// 4000 bytes, AMD Zen 4: 15 GB/s, apart 22; from huge pages 17 and 29).
  bool far_rows = false;
  int tile_columns;    ///< of a row product, side by side
  int product_lanes;   ///< rows of a row product in lanes
  int column_vectors;  ///< of sums of a column product
  int column_factors;  ///< numbers of the narrow side of a column product, in registers

  /// Does the code generator make tiles of a row product over lanes by itself?
  bool is_generated(const BlockRegion& region, const Node& product) const;
  /// Its sums.
  loop::AccOp sums_of(const BlockRegion& region, const Node& product) const;
  /// Whether a column product is added up by rows, kRowsAtOnce at a time with their factors in
  /// registers, so that its sums pass by as often whatever the block's size.
  bool adds_by_rows(const BlockColumn& product) const;

 private:
  void choose_block_rows(const BlockRegion& region, const loop::TargetWidth& target, int most);
};

/// Columns or sums of a type in a tile that has `registers` of f32: a register holds half as many
/// numbers of 8 bytes.
inline int tile_of(DType type, int registers) {
  return type == DType::kF64 ? registers / 2 : registers;
}

}  // namespace xc::fusion
