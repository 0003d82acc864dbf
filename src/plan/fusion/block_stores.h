#pragma once
// Loops over the rows of a block that store what values of it are: into scratch, as reductions
// along the row, and as the region's outputs.

#include "plan/fusion/block_rows.h"

namespace xc::fusion {

/// Puts rows into scratch, if they are not there, and tells where.
loop::Buffer materialise(BlockRows& rows, ValueId v);

/// A reduction of rows too wide to be unrolled, one number per row into scratch. What it reads is
/// kept on the way where that pays (BlockRegion::is_kept).
void write_row_reduction(BlockRows& rows, const Node& node);

/// Stores rows that are an output of the region. `operand`: among inputs and outputs.
void write_output(BlockRows& rows, ValueId v, uint32_t operand);

}  // namespace xc::fusion
