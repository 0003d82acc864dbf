// Two kinds of targets, by the registers they have; of all sizes only the rows of a block depend on
// the region too.
#include "plan/fusion/block_tiles.h"

#include "base/checked.h"

namespace xc::fusion {
namespace {

constexpr int kLeastBlockRows = 4;
constexpr int64_t kBlockBytes = 16 << 10;  // of rows that are read twice
constexpr int kVectorRegisters = 32;       // from here on tiles are wide

/// Rows that a product reads along the row and another by columns (X'(Xv)) come from the
/// first-level cache the second time: 1000 columns of f32 take 0.87 of the time. Products over
/// lanes want all rows of their tile, `most`.
int choose_block_rows(const BlockRegion& region, int most) {
  for (NodeId id : region.graph().order())
    if (region.role(id) == BlockRole::kRowProduct && !region.is_dot(region.graph().node(id)))
      return most;
  int rows = kBlockRows;
  for (const BlockColumn& c : region.columns()) {
    if (c.wide == kNone || region.users(c.wide).size() < 2) continue;
    const int64_t row_bytes = checked_mul(c.wide_width, element_size(region.stored_type(c.wide)));
    while (rows > kLeastBlockRows && rows * row_bytes > kBlockBytes) rows /= 2;
  }
  return rows;
}

}  // namespace

BlockTiles::BlockTiles(const BlockRegion& region, const loop::TargetWidth& target)
    : multiplies(target.multiplies) {
  const bool wide = target.registers >= kVectorRegisters;
  block_rows = choose_block_rows(region, wide ? 2 * kBlockRows : kBlockRows);
  tile_columns = wide ? 8 : 4;
  product_lanes = wide ? 2 * loop::kReductionLanes : loop::kReductionLanes;
  column_vectors = wide ? 12 : 6;
  column_factors = wide ? 16 : 8;
}

}  // namespace xc::fusion
