#pragma once
// Loops of the templates without matrix products. Each gives the reason where it cannot.

#include "plan/fusion/loop_region.h"

namespace xc::fusion {

/// Elements per task, at least.
constexpr int64_t kTaskElements = 16384;

/// - cell: one loop nest that stores every output. Where operands lie across the others, it goes by
///   tiles: what those have of a tile is transposed into scratch first;
/// - row: per row, passes over it with scalars between them. A value that a later pass needs again
///   is computed again when that is cheap, else kept in a scratch row. Where the elements of a row
///   lie apart and those of its neighbours side by side (the channels of an image, the steps of a
///   sequence), rows are walked abreast, one in each lane.
Verdict lower_rows(const LoopRegion& region, const loop::TargetWidth& target, RegionCode& out);

/// Blocks of fixed size, each with its partial results, then one pass over those: the order of
/// summation depends on the sizes alone, never on how tasks are cut.
Verdict lower_aggregate(const LoopRegion& region, RegionCode& out);

}  // namespace xc::fusion
