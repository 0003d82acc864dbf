// Tables that are read no more make room for those that need one of the same shape: a block's rows
// have to stay in the cache.
#include "plan/fusion/block_stores.h"

#include <algorithm>
#include <optional>

namespace xc::fusion {

using loop::Affine;
using loop::Expr;
using loop::Var;

namespace {

const std::vector<ValueId>& inputs_of(const BlockRegion& region, ValueId computed) {
  const Graph& graph = region.graph();
  return graph.node(graph.value(computed).producer).inputs;
}

/// A table of the same shape that `v` is computed from and nobody reads after node `now`.
std::optional<loop::Buffer> reusable(BlockRows& rows, ValueId v, NodeId now, SeenValues& seen) {
  if (!seen.insert(v).second) return std::nullopt;
  const BlockRegion& region = rows.kernel().region();
  for (ValueId in : inputs_of(region, v)) {
    if (in == kNone || !region.computed(in) || !(region.width(in) == region.width(v))) continue;
    if (const loop::Buffer* table = rows.find_table(in)) {
      if (region.value_type(in) == region.value_type(v) && !region.read_later(in, now))
        return *table;
    } else if (const auto found = reusable(rows, in, now, seen)) {
      return found;
    }
  }
  return std::nullopt;
}

/// Is what a value is computed from in scratch, as far as it is by columns?
bool is_in_tables(BlockRows& rows, ValueId v, SeenValues& seen) {
  if (!seen.insert(v).second) return true;
  const BlockRegion& region = rows.kernel().region();
  if (rows.find_table(v) || region.width(v) == Dim(1) || region.graph().value(v).is_constant())
    return true;
  if (!region.computed(v)) return false;
  const std::vector<ValueId>& inputs = inputs_of(region, v);
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](ValueId in) { return in == kNone || is_in_tables(rows, in, seen); });
}

/// Rows of a light value in registers at a time: two side by side do not wait for each other's
/// sums; dear values keep one busy.
int reduction_lanes(BlockRows& rows, ValueId in) {
  SeenValues seen;
  const BlockKernel& kernel = rows.kernel();
  return !kernel.region().is_dear(in) && is_in_tables(rows, in, seen) ? kernel.tiles().product_lanes
                                                                      : loop::kReductionLanes;
}

/// Brings what lies in scratch column by column, and `v` is made of, into rows: a copy that
/// transposes tiles in registers, where walking a row would gather.
void turn(BlockRows& rows, ValueId v, SeenValues& seen) {
  if (!seen.insert(v).second) return;
  const BlockRegion& region = rows.kernel().region();
  const Dim width = region.width(v);
  if (!region.computed(v) || is_narrow(width) || !width.is_constant() || rows.is_turned(v)) return;
  const loop::Buffer* table = rows.find_table(v);
  if (!table) {
    for (ValueId in : inputs_of(region, v))
      if (in != kNone) turn(rows, in, seen);
    return;
  }
  if (region.value_type(v) != DType::kF32) return;
  const int64_t columns = width.value();
  loop::KernelBuilder& builder = rows.kernel().builder();
  const loop::Buffer turned =
      builder.scratch("u" + std::to_string(v), DType::kF32,
                      loop::i64(rows.kernel().tiles().block_rows * columns), {columns, 1});
  rows.for_lanes([&](BlockRow& row) {
    rows.for_columns(row, width, [&](const Affine& j) {
      builder.store(turned.at({loop::Index(row.lane), loop::Index(j)}), rows.at(*table, j, row));
    });
  });
  rows.set_turned(v, turned);
}

}  // namespace

loop::Buffer materialise(BlockRows& rows, ValueId v) {
  if (const loop::Buffer* table = rows.find_table(v)) return *table;
  const Dim width = rows.kernel().region().width(v);
  loop::KernelBuilder& builder = rows.kernel().builder();
  loop::Buffer made;
  rows.for_lanes([&](BlockRow& row) {
    if (is_narrow(width)) {
      std::vector<Expr> columns;
      for (int64_t c = 0; c < width.value(); ++c) columns.push_back(rows.value(row, v, c));
      made = rows.table(v);
      for (int64_t c = 0; c < width.value(); ++c)
        builder.store(rows.at(made, c, row), columns[static_cast<size_t>(c)]);
      return;
    }
    rows.prepare(row, v);
    rows.for_columns(row, width, [&](const Affine& j) {
      const Expr e = rows.value(row, v, j);
      made = rows.table(v);
      builder.store(rows.at(made, j, row), e);
    });
  });
  return made;
}

namespace {

/// Brings operands that `v` is made of, and whose rows lie in memory, into scratch column by
/// column: a copy that transposes tiles in registers, where lanes of rows would gather.
void bring(BlockRows& rows, ValueId v, SeenValues& seen) {
  if (v == kNone || !seen.insert(v).second || rows.find_table(v)) return;
  const BlockRegion& region = rows.kernel().region();
  if (region.lies_in_rows(v))
    materialise(rows, v);
  else if (region.computed(v))
    for (ValueId in : inputs_of(region, v)) bring(rows, in, seen);
}

}  // namespace

void write_row_reduction(BlockRows& rows, const Node& node) {
  BlockKernel& kernel = rows.kernel();
  const BlockRegion& region = kernel.region();
  loop::KernelBuilder& builder = kernel.builder();
  const ValueId in = node.inputs[0], out = node.outputs[0];
  const DType type = sum_type(node, region.stored_type(in));
  SeenValues brought;
  bring(rows, in, brought);
  const bool keep = region.is_kept(in) && !rows.find_table(in);
  SeenValues seen;
  const auto place =
      keep ? reusable(rows, in, region.graph().value(out).producer, seen) : std::nullopt;
  const auto write = [&](BlockRow& row) {
    rows.prepare(row, in);
    const loop::Acc acc =
        builder.acc("a", node.op->reduction->op, type, loop::AccOrder::kSequential);
    rows.for_columns(row, region.width(in), [&](const Affine& j) {
      Expr x = rows.value(row, in, j);
      if (keep) {
        if (place) rows.take_table(in, *place);
        builder.store(rows.at(rows.table(in), j, row), x);
      }
      x = loop::cast(type, x);
      if (node.op->reduction->pre) x = node.op->reduction->pre(x);
      builder.accumulate(acc, x);
    });
    Expr e = acc.value();
    if (node.op->reduction->post)
      e = node.op->reduction->post(e, loop::cast(type, kernel.extent(region.width(in))));
    e = as_stored(loop::cast(region.value_type(out), e), region.stored_type(out));
    builder.store(rows.at(rows.table(out), 0, row), e);
  };
  rows.for_lanes(write, reduction_lanes(rows, in));
}

void write_output(BlockRows& rows, ValueId v, uint32_t operand) {
  BlockKernel& kernel = rows.kernel();
  const Dim width = kernel.region().width(v);
  const auto store = [&](BlockRow& row, const Affine& column) {
    kernel.builder().store(kernel.element(operand, row.global, column), rows.value(row, v, column),
                           row.exists);
  };
  if (is_narrow(width)) {
    rows.for_lanes([&](BlockRow& row) {
      for (int64_t c = 0; c < width.value(); ++c) store(row, c);
    });
    return;
  }
  SeenValues seen;
  turn(rows, v, seen);
  kernel.builder().loop("r", loop::i64(0), rows.count(), [&](Var r) {
    BlockRow row = rows.row_at(r);
    row.by_row = true;
    rows.prepare(row, v);
    kernel.builder().loop(
        "j", loop::i64(0), kernel.extent(width),
        [&](Var j) {
          row.current.clear();
          store(row, Affine(j));
        },
        loop::LoopKind::kVector, 16);
  });
}

}  // namespace xc::fusion
