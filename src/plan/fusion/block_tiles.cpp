// Two kinds of targets, by the registers they have; of all sizes only the rows of a block depend on
// the region too.
#include "plan/fusion/block_tiles.h"

#include <algorithm>

#include "base/checked.h"
#include "base/cpu_info.h"
#include "loop/dot.h"

namespace xc::fusion {
namespace {

constexpr int kLeastBlockRows = 4, kMostBlockRows = 256;
/// Of rows in memory: they stay in the second-level cache, and verification has room for a block.
constexpr int64_t kBlockBytes = 256'000;
/// Of such that stay in the first-level cache, with sums and factors.
constexpr int64_t kNearBytes = 24 << 10;
/// Of fewer rows vectors over the rows are hardly filled: only where so many leave no room in that
/// cache at all.
constexpr int kFilledRows = 8;
constexpr int64_t kFarBytes = 256;     // of a row: shorter ones are a stream side by side
constexpr int kVectorRegisters = 32;   // from here on tiles are wide
constexpr int64_t kRoundedTerms = 16;  // of a product in matrix units, whose tiles have 32

/// Bytes of the widest rows that are read from memory along the row; 0 where products over lanes
/// want all rows of their tile.
int64_t row_bytes_in_memory(const BlockRegion& region) {
  int64_t widest = 0;
  const auto add = [&](ValueId rows, int64_t width) {
    widest = std::max(widest, checked_mul(width, element_size(region.stored_type(rows))));
  };
  for (NodeId id : region.graph().order()) {
    if (region.role(id) != BlockRole::kRowProduct) continue;
    const Node& node = region.graph().node(id);
    if (!region.is_dot(node)) return 0;
    if (const Dim width = region.width(node.inputs[0]); width.is_constant())
      add(node.inputs[0], width.value());
  }
  for (const BlockColumn& c : region.columns())
    if (c.wide != kNone) add(c.wide, c.wide_width);
  return widest;
}

/// A size, or `any` where it is not known.
int64_t size_or(const Dim& dim, int64_t any) {
  return dim.is_constant() ? dim.value() : any;
}

/// The sums of a row product that matrix units would be asked for; else kDot.
loop::AccOp units_sums(const BlockRegion& region, const Node& product) {
  constexpr int64_t kAny = 1024;
  const int64_t depth = size_or(region.width(product.inputs[0]), kAny);
  if (region.may_round(product))
    return depth < kRoundedTerms ? loop::AccOp::kDot : loop::AccOp::kDotBf16;
  // Of those that are not known the code asks at each block.
  return loop::splits_product(size_or(region.space().rows, kAny),
                              size_or(region.width(product.outputs[0]), kAny), depth)
             ? loop::AccOp::kDotBf16x3
             : loop::AccOp::kDot;
}

/// Are a product's factors and sums of f32, in scratch too?
bool is_f32(const BlockRegion& region, const Node& product) {
  const ValueId result = product.outputs[0];
  return region.value_type(result) == DType::kF32 && region.stored_type(result) == DType::kF32 &&
         region.stored_type(product.inputs[1]) == DType::kF32;
}

bool wants_matrix_units(const BlockRegion& region) {
  const auto& order = region.graph().order();
  return std::any_of(order.begin(), order.end(), [&](NodeId id) {
    if (region.role(id) != BlockRole::kRowProduct) return false;
    const Node& product = region.graph().node(id);
    return !region.is_dot(product) && is_f32(region, product) &&
           loop::needs_matrix_units(units_sums(region, product));
  });
}

}  // namespace

bool BlockTiles::is_generated(const BlockRegion& region, const Node& product) const {
  return multiplies && is_f32(region, product);
}

loop::AccOp BlockTiles::sums_of(const BlockRegion& region, const Node& product) const {
  return matrix_units && is_generated(region, product) ? units_sums(region, product)
                                                       : loop::AccOp::kDot;
}

bool BlockTiles::adds_by_rows(const BlockColumn& product) const {
  return product.narrow_width * kRowsAtOnce <= tile_of(product.type, column_factors);
}

/// Rows that are read again, by columns (X'(Xv)), come from a cache then: from the first-level one
/// where small blocks cost nothing (40 MB by rows of 2000 bytes, four columns, 0.88 of the time of
/// blocks of 128 rows, 2 MB by rows of 4000 bytes 0.8; Xeon with AMX. 0.4 MB by rows of 4000 bytes,
/// four of which leave half of the cache and eight nothing, 0.95, 4 MB 0.92; AMD Zen 4).
void BlockTiles::choose_block_rows(const BlockRegion& region, const loop::TargetWidth& target,
                                   int most) {
  const int64_t row_bytes = row_bytes_in_memory(region);
  block_rows = row_bytes == 0 ? most : kBlockRows;
  if (row_bytes < kFarBytes) return;
  block_rows = kMostBlockRows;
  const auto& columns = region.columns();
  const bool by_rows = !columns.empty() && std::ranges::all_of(columns, [&](const BlockColumn& c) {
    return c.wide == kNone || adds_by_rows(c);
  });
  const int64_t near = by_rows ? kNearBytes : kBlockBytes;
  while (block_rows > kFilledRows && block_rows * row_bytes > near) block_rows /= 2;
  if (by_rows && block_rows == kFilledRows && block_rows * row_bytes > target.near_bytes * 3 / 4)
    block_rows /= 2;
  while (block_rows > kLeastBlockRows && block_rows * row_bytes > kBlockBytes) block_rows /= 2;
  far_rows = block_rows >= kFarRows;
}

BlockTiles::BlockTiles(const BlockRegion& region, const loop::TargetWidth& target)
    : multiplies(target.multiplies),
      matrix_units(target.matrix_units && wants_matrix_units(region) && grant_matrix_units()) {
  const bool wide = target.registers >= kVectorRegisters;
  tile_columns = wide ? 8 : 4;
  product_lanes = wide ? 2 * loop::kReductionLanes : loop::kReductionLanes;
  column_vectors = wide ? 12 : 6;
  column_factors = wide ? 16 : 8;
  const int rows = wide ? 2 * kBlockRows : kBlockRows;
  choose_block_rows(region, target, matrix_units ? 4 * kBlockRows : rows);
}

}  // namespace xc::fusion
