// A region of the row-block template as loop IR. Per task, blocks of kBlockRows rows, or fewer
// where rows that are read twice would not stay in the first-level cache:
// - a computed value that is kept lies in scratch as [column][row of the block], rows in vector
//   lanes: reductions along a row are then between registers, and a product's inner loop is a
//   vector of rows times one element of the shared matrix. All lanes are always computed; those
//   past the last row read nothing from memory and are stored nowhere;
// - rows times a narrow matrix, the rows read from memory, are dot products along the row;
// - column products add up over the blocks of a task, then over tasks in a second phase, in an
//   order that depends on the sizes alone.
// Rowwise functions are computed where they are read, but for what is dear or feeds a product.
//
// Here is the order of things: tasks, blocks, and what is written of a block. How each is written:
// block_rows.h (values), block_stores.h (reductions, outputs), block_products.h, block_columns.h.
#include <algorithm>
#include <functional>

#include "plan/fusion/block_columns.h"
#include "plan/fusion/block_graph.h"
#include "plan/fusion/block_kernel.h"
#include "plan/fusion/block_products.h"
#include "plan/fusion/block_region.h"
#include "plan/fusion/block_rows.h"
#include "plan/fusion/block_stores.h"
#include "plan/fusion/block_tiles.h"
#include "plan/fusion/blocks.h"

namespace xc {

using loop::Expr;
using loop::Var;

namespace fusion {
namespace {

/// What has loops of its own, in the order of the graph, then the outputs.
void write_block(BlockRows& rows, RowProducts& products, ColumnSums& columns) {
  const BlockRegion& region = rows.kernel().region();
  for (NodeId id : region.graph().order()) {
    const Node& node = region.graph().node(id);
    switch (region.role(id)) {
      case BlockRole::kRowProduct:
        products.write(rows, node);
        break;
      case BlockRole::kRowwise:
        if (node.op->reduction && !is_narrow(region.width(node.inputs[0])))
          write_row_reduction(rows, node);
        break;
      case BlockRole::kColumnProduct:
      case BlockRole::kColumnSum:
        columns.add(rows, id);
        break;
      default:
        break;
    }
  }
  const std::vector<ValueId>& outputs = region.graph().outputs;
  for (uint32_t k = 0; k < outputs.size(); ++k)
    if (region.space().width(region.dims(outputs[k])) && !region.is_column(outputs[k]))
      write_output(rows, outputs[k], static_cast<uint32_t>(region.spec().inputs.size()) + k);
}

/// The blocks of [begin, end) with what is done once around them.
void write_task(BlockKernel& kernel, const Expr& begin, const Expr& end,
                const std::optional<Var>& task) {
  RowProducts products(kernel);
  ColumnSums columns(kernel, task);
  BlockRows rows(kernel);
  products.stage_matrices();
  columns.clear();
  kernel.builder().loop("b", begin, end, [&](Var b) {
    rows.begin(b);
    write_block(rows, products, columns);
  });
}

/// Batch axes that are loops, the largest first: it is cut into tasks.
std::vector<size_t> batch_loops(const RowSpace& space) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < space.batch.size(); ++a)
    if (!(space.batch[a] == Dim(1))) axes.push_back(a);
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) {
    return space.batch[a].constant().value_or(2) > space.batch[b].constant().value_or(2);
  });
  return axes;
}

/// Without batch axes: tasks of kTaskRows rows.
void write_row_tasks(BlockKernel& kernel, const Expr& blocks) {
  const int64_t task_blocks = kTaskRows / kernel.tiles().block_rows;
  kernel.builder().loop(
      "n", loop::i64(0), (blocks + loop::i64(task_blocks - 1)) / loop::i64(task_blocks),
      [&](Var task) {
        const Expr begin = loop::loop_var(task) * loop::i64(task_blocks);
        write_task(kernel, begin, loop::min(begin + loop::i64(task_blocks), blocks), task);
      },
      loop::LoopKind::kParallel);
}

/// With them: a loop per axis, of which the outermost is cut.
void write_batch_tasks(BlockKernel& kernel, const std::vector<size_t>& axes, const Expr& blocks) {
  const std::function<void(size_t)> nest = [&](size_t depth) {
    if (depth == axes.size()) return write_task(kernel, loop::i64(0), blocks, std::nullopt);
    kernel.builder().loop(
        "n", loop::i64(0), kernel.extent(kernel.region().space().batch[axes[depth]]),
        [&](Var i) {
          kernel.enter_batch(axes[depth], loop::Affine(i));
          nest(depth + 1);
        },
        depth == 0 ? loop::LoopKind::kParallel : loop::LoopKind::kSerial);
  };
  nest(0);
}

RegionPhase write_blocks(const BlockRegion& region, const BlockTiles& tiles) {
  BlockKernel kernel(region, tiles);
  const Expr blocks = (kernel.extent(region.space().rows) + loop::i64(tiles.block_rows - 1)) /
                      loop::i64(tiles.block_rows);
  const std::vector<size_t> axes = batch_loops(region.space());
  if (axes.empty())
    write_row_tasks(kernel, blocks);
  else
    write_batch_tasks(kernel, axes, blocks);
  return kernel.finish();
}

}  // namespace
}  // namespace fusion

Verdict lower_blocks(const Region& region, const StepSpec& spec, RegionGraph region_graph,
                     const loop::TargetWidth& target, RegionCode& out) {
  if (!fusion::prepare_block_graph(region_graph.graph))
    return Verdict::no("an operator does not expand");
  fusion::BlockRegion blocks(region, spec, std::move(region_graph));
  if (const Verdict v = blocks.analyse(); !v.yes()) return v;
  const fusion::BlockTiles tiles(blocks, target);
  out.phases.push_back(fusion::write_blocks(blocks, tiles));
  fusion::add_column_results(blocks, out);
  return Verdict::ok();
}

}  // namespace xc
