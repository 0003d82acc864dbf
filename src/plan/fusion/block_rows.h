#pragma once
// The rows of the block being written: loops over them, and what a value of a row is in such a
// loop. An element is an operand's, or lies in scratch, or is computed from others in place.
// Scratch has a table per value as [column][row of the block], so that rows are in vector lanes.

#include <functional>
#include <map>
#include <unordered_map>

#include "plan/fusion/block_kernel.h"

namespace xc::fusion {

/// One row (a vector variable or not) of the block, and what is known of it so far.
struct BlockRow {
  loop::Affine global, lane;  ///< its index in the space and in the block
  loop::Expr exists = {};     ///< absent: it does
  std::unordered_map<ValueId, std::map<int64_t, loop::Expr>> values = {};  ///< by constant column
  std::unordered_map<ValueId, loop::Expr> current = {};                    ///< at the loop's column
  bool by_row = false;                                                     ///< columns are in lanes
  SeenValues prepared = {};
};

class BlockRows {
 public:
  /// `kernel` must outlive this. Nothing may be asked before begin().
  explicit BlockRows(BlockKernel& kernel);

  BlockKernel& kernel() { return kernel_; }

  /// Starts the next block, with nothing in scratch.
  void begin(loop::Var block);
  /// Rows of the block that exist.
  const loop::Expr& count() const { return rows_; }
  /// Index in the space of a row of the block.
  loop::Affine global(const loop::Affine& r) const { return first_ + r; }
  BlockRow row_at(loop::Var r) const {
    return {.global = global(loop::Affine(r)), .lane = loop::Affine(r)};
  }

  /// Loops over the block's rows, `at_once` in each turn, `row_of(q)` the q-th of them in the
  /// block: side by side or, with BlockTiles::far_rows, an `at_once`th of the block apart; the last
  /// ones alone. No load needs a guard.
  using RowOf = std::function<loop::Affine(int q)>;
  void for_groups(const char* name, int at_once,
                  const std::function<void(const RowOf& row_of, int at_once)>& body);
  /// The same, two in each turn, half of the block apart. Where their number is odd, the one in the
  /// middle comes twice: the body writes each row's values anew.
  void for_pairs(
      const char* name,
      const std::function<void(const loop::Affine& row, const loop::Affine& other)>& body);
  /// All rows of the block and what fills their last vector, so many at a time.
  void for_lanes(const std::function<void(BlockRow&)>& body, int lanes = loop::kReductionLanes);
  void for_columns(BlockRow& row, const Dim& width,
                   const std::function<void(const loop::Affine&)>& body);

  /// A value of the row at a column, which is constant or that of the loop around; registers it
  /// needs are written where the kernel stands.
  loop::Expr value(BlockRow& row, ValueId v, loop::Affine column);
  /// Computes in front of a loop over columns what does not change with the column.
  void prepare(BlockRow& row, ValueId v);

  /// Where a value's rows lie in scratch; nullptr: they do not.
  const loop::Buffer* find_table(ValueId v) const;
  /// The same, with room made for them at first: value() reads there from now on.
  const loop::Buffer& table(ValueId v);
  /// Lets a value without a table have that of another one.
  void take_table(ValueId v, const loop::Buffer& table) { tables_.emplace(v, table); }
  static loop::Element at(const loop::Buffer& table, const loop::Affine& column,
                          const BlockRow& row);

  /// Are a table's rows there as [row][column] too?
  bool is_turned(ValueId v) const { return turned_.count(v) > 0; }
  /// Rows walked by_row are read from there.
  void set_turned(ValueId v, const loop::Buffer& rows) { turned_[v] = rows; }

 private:
  void once(const char* name, const loop::Expr& number, const std::function<void(loop::Var)>& body);
  loop::Expr compute(BlockRow& row, const Node& node, const loop::Affine& column);
  loop::Expr reduce_narrow(BlockRow& row, const Node& node);

  BlockKernel& kernel_;
  const BlockRegion& region_;
  loop::KernelBuilder& builder_;
  loop::Affine first_;       ///< index in the space of the block's first row
  loop::Expr rows_, lanes_;  ///< of the block; lanes_: whole vectors
  std::unordered_map<ValueId, loop::Buffer> tables_;
  std::unordered_map<ValueId, loop::Buffer> turned_;  ///< of tables_, rows outermost
};

}  // namespace xc::fusion
