#pragma once
// Column products t(U) W and sums over the rows: added up over the blocks of a task in memory that
// outlives the kernel, then over the tasks in their order, which depends on the sizes alone.

#include <optional>
#include <vector>

#include "plan/fusion/block_rows.h"

namespace xc::fusion {

/// What one task adds up of BlockRegion::columns().
class ColumnSums {
 public:
  /// `task`: where tasks have sums of their own; never absent where there are columns. `kernel`
  /// must outlive this.
  ColumnSums(BlockKernel& kernel, std::optional<loop::Var> task);

  /// In front of the task's blocks.
  void clear();
  /// Adds a block's rows to what `node`, a column product or sum, has so far.
  void add(BlockRows& rows, NodeId node);

 private:
  void add_sum(BlockRows& rows, const BlockColumn& column, const loop::Buffer& sums);
  void add_product(BlockRows& rows, const BlockColumn& column, const loop::Buffer& sums);
  void add_product_by_rows(BlockRows& rows, const BlockColumn& column, const loop::Buffer& narrow,
                           const loop::Buffer& sums);
  void add_product_by_columns(BlockRows& rows, const BlockColumn& column,
                              const loop::Buffer& narrow, const loop::Buffer& sums);

  BlockKernel& kernel_;
  const BlockRegion& region_;
  loop::KernelBuilder& builder_;
  std::optional<loop::Var> task_;
  std::vector<loop::Buffer> sums_;  ///< per column: [task, narrow, wide], rows of whole vectors
};

/// Tells how the tasks' sums become the outputs: a temp and a RegionSum per column, in their order.
void add_column_results(const BlockRegion& region, RegionCode& out);

}  // namespace xc::fusion
