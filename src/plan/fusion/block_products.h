#pragma once
// Products of rows with a matrix that all rows share, by the tile sizes of block_tiles.h.

#include <unordered_map>

#include "plan/fusion/block_rows.h"

namespace xc::fusion {

/// The row products of one task.
class RowProducts {
 public:
  /// `kernel` must outlive this.
  explicit RowProducts(BlockKernel& kernel);

  /// Once per task, in front of its blocks: brings matrices whose columns do not lie one element
  /// behind the other into scratch, where products along the row read them.
  void stage_matrices();
  /// A product of the block's rows, into scratch.
  void write(BlockRows& rows, const Node& product);

 private:
  /// Terms of a sum: from 0, or added to what is there.
  struct Terms {
    loop::Expr begin, end;
    bool adds;
  };

  void stage(const Node& product);
  loop::Expr matrix(uint32_t operand, const loop::Affine& k, const loop::Affine& column);
  void write_along_rows(BlockRows& rows, const Node& product);
  void write_over_lanes(BlockRows& rows, const Node& product);
  void write_tiles(BlockRows& rows, const Node& product, const loop::Buffer& left,
                   const loop::Buffer& out, const Terms& terms);

  BlockKernel& kernel_;
  const BlockRegion& region_;
  loop::KernelBuilder& builder_;
  std::unordered_map<uint32_t, loop::Buffer> staged_;  ///< by operand, columns outermost
};

}  // namespace xc::fusion
