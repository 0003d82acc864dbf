// Sums over the rows keep a task's total in memory and add a block at a time to it: sums of narrow
// values in registers per column, products with elements of the wide side in lanes.
#include "plan/fusion/block_columns.h"

#include <algorithm>

#include "plan/fusion/block_stores.h"

namespace xc::fusion {

using loop::Affine;
using loop::Expr;
using loop::Var;

ColumnSums::ColumnSums(BlockKernel& kernel, std::optional<Var> task)
    : kernel_(kernel), region_(kernel.region()), builder_(kernel.builder()), task_(task) {}

void ColumnSums::clear() {
  for (const BlockColumn& c : region_.columns()) {
    const loop::Buffer sums = kernel_.temp(static_cast<uint32_t>(sums_.size()), c);
    builder_.loop(
        "j", 0, c.elements(),
        [&](Var j) { builder_.store(sums(*task_, 0, j), loop::constant(c.type, 0)); },
        loop::LoopKind::kVector, 16);
    sums_.push_back(sums);
  }
}

void ColumnSums::add(BlockRows& rows, NodeId node) {
  const std::vector<BlockColumn>& columns = region_.columns();
  const auto column = std::find_if(columns.begin(), columns.end(),
                                   [&](const BlockColumn& c) { return c.node == node; });
  const loop::Buffer& sums = sums_[static_cast<size_t>(column - columns.begin())];
  column->wide == kNone ? add_sum(rows, *column, sums) : add_product(rows, *column, sums);
}

void ColumnSums::add_sum(BlockRows& rows, const BlockColumn& column, const loop::Buffer& sums) {
  std::vector<loop::Acc> accs;
  for (int64_t i = 0; i < column.narrow_width; ++i)
    accs.push_back(builder_.acc("s", loop::AccOp::kSum, column.type, loop::AccOrder::kLanes16));
  builder_.loop(
      "r", loop::i64(0), rows.count(),
      [&](Var r) {
        BlockRow row = rows.row_at(r);
        for (int64_t i = 0; i < column.narrow_width; ++i)
          builder_.accumulate(accs[static_cast<size_t>(i)], rows.value(row, column.narrow, i));
      },
      loop::LoopKind::kVector, loop::kReductionLanes);
  for (int64_t i = 0; i < column.narrow_width; ++i) {
    const loop::Element sum = sums(*task_, 0, Affine(i) * column.row());
    builder_.store(sum, Expr(sum) + accs[static_cast<size_t>(i)].value());
  }
}

void ColumnSums::add_product(BlockRows& rows, const BlockColumn& column, const loop::Buffer& sums) {
  const loop::Buffer narrow = materialise(rows, column.narrow);
  if (kernel_.tiles().adds_by_rows(column))
    add_product_by_rows(rows, column, narrow, sums);
  else
    add_product_by_columns(rows, column, narrow, sums);
}

/// Few narrow columns: the factors of some rows stay in registers, and the sums pass by them.
void ColumnSums::add_product_by_rows(BlockRows& rows, const BlockColumn& column,
                                     const loop::Buffer& narrow, const loop::Buffer& sums) {
  const uint32_t wide = region_.operand_of(column.wide);
  rows.for_groups("g", kRowsAtOnce, [&](const BlockRows::RowOf& row_of, int at_once) {
    std::vector<std::vector<Expr>> factors(static_cast<size_t>(column.narrow_width));
    for (int64_t i = 0; i < column.narrow_width; ++i)
      for (int q = 0; q < at_once; ++q)
        factors[static_cast<size_t>(i)].push_back(builder_.let("f", narrow(Affine(i), row_of(q))));
    builder_.loop(
        "j", loop::i64(0), loop::i64(column.wide_width),
        [&](Var j) {
          std::vector<Expr> elements;
          for (int q = 0; q < at_once; ++q)
            elements.push_back(
                builder_.let("x", kernel_.load(wide, rows.global(row_of(q)), Affine(j))));
          for (int64_t i = 0; i < column.narrow_width; ++i) {
            const loop::Element total = sums(*task_, i, j);
            Expr sum = total;
            for (int q = 0; q < at_once; ++q)
              sum = loop::fma(elements[static_cast<size_t>(q)],
                              factors[static_cast<size_t>(i)][static_cast<size_t>(q)], sum);
            builder_.store(total, sum);
          }
        },
        loop::LoopKind::kVector, loop::kReductionLanes);
  });
}

/// Many: sums of some elements stay in registers while all rows of the block pass by.
void ColumnSums::add_product_by_columns(BlockRows& rows, const BlockColumn& column,
                                        const loop::Buffer& narrow, const loop::Buffer& sums) {
  const uint32_t wide = region_.operand_of(column.wide);
  const int most = tile_of(column.type, kernel_.tiles().column_vectors);
  const auto lanes = [&] {
    for (const int l : {64, 32, 16})
      if (l <= 16 || column.narrow_width * l / 16 <= most) return l;
    return 16;
  }();
  builder_.loop("c", 0, column.narrow_width, [&](Var i) {
    builder_.loop(
        "j", loop::i64(0), loop::i64(column.wide_width),
        [&](Var j) {
          const loop::Element total = sums(*task_, i, j);
          const loop::Acc sum = builder_.acc("s", loop::AccOp::kDot, column.type,
                                             loop::AccOrder::kSequential, Expr(total));
          builder_.loop("r", loop::i64(0), rows.count(), [&](Var r) {
            builder_.accumulate(sum, kernel_.load(wide, rows.global(r), Affine(j)), narrow(i, r));
          });
          builder_.store(total, sum.value());
        },
        loop::LoopKind::kVector, lanes);
    kernel_.jam(i, static_cast<int>(column.narrow_width));
  });
}

void add_column_results(const BlockRegion& region, RegionCode& out) {
  const std::vector<ValueId>& outputs = region.graph().outputs;
  for (const BlockColumn& c : region.columns()) {
    const ValueId result = region.graph().node(c.node).outputs[0];
    const auto position = std::find(outputs.begin(), outputs.end(), result);
    XC_CHECK(position != outputs.end());
    const auto output = static_cast<uint32_t>(position - outputs.begin());
    const auto axes = static_cast<uint32_t>(region.spec().outputs[output].dims.size());
    RegionSum sum;
    sum.temp = static_cast<uint32_t>(out.temps.size());
    sum.operand = static_cast<uint32_t>(region.spec().inputs.size()) + output;
    sum.dtype = region.stored_type(result);
    const bool swapped = c.wide != kNone && !c.narrow_first;
    const auto axis_of = [&](bool narrow) -> std::optional<uint32_t> {
      if (c.wide == kNone) return narrow ? std::optional(axes - 1) : std::nullopt;
      return axes - (narrow != swapped ? 2 : 1);
    };
    sum.axes = {{{axis_of(true), c.narrow_width, c.row()}, {axis_of(false), c.wide_width, 1}}};
    out.sums.push_back(sum);
    OperandDims elements = region.dim_of(region.space().rows);
    elements.divisor = kTaskRows;
    elements.multiple = c.elements();
    out.temps.push_back({c.type, elements, c.elements()});
  }
}

}  // namespace xc::fusion
