#pragma once
// The kernel of a row-block region while it is written: its sizes, and elements of operands by row
// and column of the region's space.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/fusion/access.h"
#include "plan/fusion/block_region.h"
#include "plan/fusion/block_tiles.h"

namespace xc::fusion {

class BlockKernel {
 public:
  /// Both must outlive this.
  BlockKernel(const BlockRegion& region, const BlockTiles& tiles);
  BlockKernel(const BlockKernel&) = delete;
  BlockKernel& operator=(const BlockKernel&) = delete;

  const BlockRegion& region() const { return region_; }
  const BlockTiles& tiles() const { return tiles_; }
  loop::KernelBuilder& builder() { return builder_; }

  /// The same expression whenever it is asked for.
  loop::Expr extent(const Dim& dim);

  /// From here on elements are those at `index` along a batch axis of the space.
  void enter_batch(size_t axis, const loop::Affine& index) { batch_[axis] = index; }
  /// An element of an operand, or of an output, that is rows or broadcasts to rows.
  loop::Element element(uint32_t operand, const loop::Affine& row, const loop::Affine& column);
  /// The value of an input's element; 0 without access where `guard` is false and rows differ.
  loop::Expr load(uint32_t operand, const loop::Affine& row, const loop::Affine& column,
                  const loop::Expr& guard = {});
  /// Memory that outlives the kernel: [task, narrow, wide].
  loop::Buffer temp(uint32_t index, const BlockColumn& column);

  /// finish() writes so many iterations of a loop side by side.
  void jam(loop::Var var, int copies) { jams_.emplace_back(var, copies); }
  /// The kernel, jammed and verified, with its parameters; nothing may be asked afterwards.
  RegionPhase finish();

 private:
  std::vector<loop::Index> indices(uint32_t operand, const loop::Affine& row,
                                   const loop::Affine& column) const;

  const BlockRegion& region_;
  const BlockTiles& tiles_;
  RegionPhase phase_;
  loop::KernelBuilder builder_;
  Access access_;
  std::map<std::string, loop::Expr> extents_;
  std::vector<loop::Affine> batch_;  ///< per batch axis of the space
  std::vector<std::pair<loop::Var, int>> jams_;
};

}  // namespace xc::fusion
