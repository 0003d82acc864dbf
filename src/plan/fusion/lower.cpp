// A region as loop IR. The region's graph, composites expanded, consists of scalar functions and
// reductions over neighbouring axes of one iteration space:
// - cell: one loop nest that stores every output. Where operands lie across the others, it goes by
//   tiles: what those have of a tile is transposed into scratch first;
// - row: per row, loops over the row axes ("stages") with scalars between them. A value that a
//   later stage needs again is recomputed when that is cheap, else kept in a scratch row. Where the
//   elements of a row lie apart and those of its neighbours side by side (the channels of an
//   image, the steps of a sequence), rows are walked abreast, one in each lane;
// - aggregate: blocks of fixed size, each with its partial results, then one pass over those: the
//   order of summation depends on the sizes alone, never on how tasks are cut.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "loop/builder.h"
#include "loop/schedule.h"
#include "plan/fusion/access.h"
#include "plan/fusion/blocks.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/iteration.h"
#include "plan/fusion/mapped_reads.h"

namespace xc {
namespace {

using loop::Expr;
using loop::KernelBuilder;
using loop::Var;

constexpr double kRecomputeWeight = 6;    // additions: above, a value is kept in scratch
constexpr double kFarWeight = 8;          // of a load whose lanes lie apart
constexpr int64_t kTaskElements = 16384;  // elements per task, at least
constexpr int64_t kTile = 64;             // rows and columns of a tile
constexpr double kMostWeight = 160;       // of operations per element, written once per piece
constexpr size_t kMostGuards = 2;         // parts that every element may be looked for in
constexpr int kManyRegisters = 32;        // TargetWidth::registers of AVX-512
constexpr double kLightWeight = 6;        // of a pass: so few operations fit any registers

class Lowering {
 public:
  Lowering(const Region& region, const StepSpec& spec, const loop::TargetWidth& target,
           RegionGraph region_graph)
      : region_(region),
        spec_(spec),
        target_(target),
        g_(std::move(region_graph)),
        mapped_(region_, spec_, g_.graph, operand_of_) {
    for (uint32_t k = 0; k < g_.operands.size(); ++k) operand_of_[g_.operands[k]] = k;
  }

  Verdict lower(RegionCode& code) {
    if (!expand_composites(g_.graph)) return Verdict::no("an operator does not expand");
    merge_equal_nodes(g_.graph);
    if (const Verdict v = mapped_.analyse(); !v.yes()) return v;
    if (const Verdict v = analyse(); !v.yes()) return v;
    if (const Verdict v = build_iteration(region_, spec_, reduced_, mapped_.reads(), iteration_);
        !v.yes())
      return v;
    choose_scratch();
    code.picks = mapped_.picks();
    code.repeats = mapped_.repeats();
    if (region_.aggregate) return lower_aggregate(code);
    return lower_rows(code);
  }

 private:
  const Graph& graph() const { return g_.graph; }

  /// Stages of values. A value of the full space has the stage of the row loop that can compute it;
  /// a per-row scalar is known after its stage's loop.
  struct Info {
    bool full = false;
    int stage = 0;      // full: first loop that can compute it; scalar: known after that loop
    double weight = 0;  // of recomputing it from loads and scalars
    bool scratch = false;
  };

  /// Which values are of the full space, and the stage of each.
  Verdict analyse() {
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      const ValueId out = node.outputs[0];
      const SymDims& dims = *graph().value(out).type.dims;
      Info info;
      if (mapped_.has(out)) {
        if (!graph().is_output(out)) continue;
        if (!(dims == region_.space))
          return Verdict::no("an output is smaller than the iteration space");
        info.full = true;
        infos_[out] = info;
        continue;
      }
      if (node.op->reduction) {
        const Info* from = find(node.inputs[0]);
        info.stage = from ? (from->full ? from->stage : from->stage + 1) : 0;
        if (from && !from->full) return Verdict::no("a reduction of what is reduced already");
        infos_[out] = info;
        continue;
      }
      if (!node.op->scalar)
        return Verdict::no("operator " + std::string(node.op->name) + " has no scalar form");
      info.full = region_.row_axes.none() || dims == region_.space || !per_row(dims);
      // A vector along the row, as the widened scale of a norm of a half type.
      if (!(dims == region_.space) && info.full && graph().is_output(out))
        return Verdict::no("an output is smaller than the iteration space");
      for (ValueId v : node.inputs) {
        const Info* from = v == kNone ? nullptr : find(v);
        if (!from) continue;
        if (info.full) {
          info.stage = std::max(info.stage, from->full ? from->stage : from->stage + 1);
        } else {
          if (from->full) return Verdict::no("a row scalar reads a whole row");
          info.stage = std::max(info.stage, from->stage);
        }
      }
      infos_[out] = info;
    }
    for (ValueId v : graph().outputs) {
      const NodeId p = graph().value(v).producer;
      const bool reduction = p != kNone && graph().node(p).op->reduction.has_value();
      reduced_.push_back(reduction && graph().node(p).attrs.get_int("keepdims", 1) == 0);
    }
    return Verdict::ok();
  }

  /// A full value used in a later loop than its own is kept when recomputing costs too much.
  void choose_scratch() {
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      const auto it = infos_.find(node.outputs[0]);
      if (it == infos_.end() || !it->second.full || mapped_.has(node.outputs[0])) continue;
      Info& info = it->second;
      info.weight = node.op->weight;
      for (ValueId v : node.inputs) {
        const Info* from = v == kNone ? nullptr : find(v);
        if (from && from->full) info.weight += from->weight;
        if (!from && v != kNone && lies_across(v)) info.weight += kFarWeight;
      }
    }
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      if (mapped_.has(node.outputs[0])) continue;
      const int needed = node.op->reduction             ? infos_[node.outputs[0]].stage
                         : infos_[node.outputs[0]].full ? infos_[node.outputs[0]].stage
                                                        : -1;
      for (ValueId v : node.inputs) {
        if (v == kNone) continue;
        const auto it = infos_.find(v);
        if (it != infos_.end() && it->second.full && needed > it->second.stage &&
            it->second.weight > kRecomputeWeight)
          it->second.scratch = true;
      }
    }
  }

  /// Rows of so few elements that vectors stay empty: a step that knows of them is faster than few
  /// operations so, or any on bytes, which AVX2 has no masks for.
  bool leaves_vectors_empty(const LoopAxis& row, double weight) const {
    constexpr int64_t kFew = 4, kFewBytes = 8;
    constexpr double kMany = 16;
    if (!row.size.is_constant() || row.size.value() >= kFewBytes) return false;
    for (size_t k = 0; k < spec_.inputs.size() + spec_.outputs.size(); ++k)
      if (element_size(operand_at(spec_, k).dtype) == 1 && !(row.strides[k].value == Dim(0)))
        return true;
    return row.size.value() <= kFew && weight < kMany;
  }

  /// Is it an operand whose elements lie apart for the lanes of a vector?
  bool lies_across(ValueId v) const {
    const auto it = operand_of_.find(v);
    if (it == operand_of_.end() || iteration_.row.empty()) return false;
    const LoopAxis& lanes =
        iteration_.rows_abreast ? iteration_.outer.back() : iteration_.row.back();
    const AxisStride& stride = lanes.strides[it->second];
    if (stride.value == Dim(0)) return false;
    return !(spec_.inputs[it->second].strides[stride.ref.axis] == Dim(1));
  }

  /// Is a value of these dims, broadcast to the space, the same along the row axes?
  bool per_row(const SymDims& dims) const {
    if (dims.size() > region_.space.size()) return false;
    const size_t lead = region_.space.size() - dims.size();
    for (size_t k = 0; k < dims.size(); ++k)
      if (region_.row_axes.has(lead + k) && !(dims[k] == Dim(1))) return false;
    return true;
  }

  const Info* find(ValueId v) const {
    const auto it = infos_.find(v);
    return it == infos_.end() ? nullptr : &it->second;
  }

  // ---- expressions ------------------------------------------------------------------------------

  /// One loop body being written: where loads take their indices from, and what is known already.
  struct Scope {
    Access* access = nullptr;
    std::vector<const LoopAxis*> axes;
    std::vector<loop::Index> indices;
    std::optional<uint32_t> piece;  // of split_, when in one of its loops
    std::unordered_map<ValueId, Expr> values;
  };

  Expr load(Scope& scope, uint32_t operand) {
    const Operand& o = spec_.inputs[operand];
    if (is_scalar_constant(o)) return literal(o.constant);
    if (const auto tile = tiles_.find(operand); tile != tiles_.end())
      return tile->second.at(in_tile_);
    return scope.access->buffer(operand, scope.axes).at(scope.indices);
  }

  Expr value(Scope& scope, ValueId v, int stage, const std::optional<loop::Index>& column) {
    if (const auto it = scope.values.find(v); it != scope.values.end()) return it->second;
    Expr e;
    if (const auto it = operand_of_.find(v); it != operand_of_.end()) {
      e = load(scope, it->second);
    } else if (mapped_.has(v)) {
      e = mapped_.value(
          v, {*scope.access, scope.axes, scope.indices, v == split_ ? scope.piece : std::nullopt});
    } else if (graph().value(v).is_constant()) {
      e = expansion_constant(graph().value(v).constant);
    } else if (const auto row = scalars_.find(v); row != scalars_.end()) {
      e = row->second;
    } else if (const Info& info = infos_.at(v); info.full && info.scratch && info.stage < stage) {
      e = kept(v, *column);
    } else {
      e = apply(scope, graph().node(graph().value(v).producer), stage, column);
    }
    scope.values.emplace(v, e);
    return e;
  }

  Expr apply(Scope& scope, const Node& node, int stage, const std::optional<loop::Index>& column) {
    std::vector<Expr> args;
    for (ValueId v : node.inputs)
      args.push_back(v == kNone ? Expr() : value(scope, v, stage, column));
    return scalar_value(node, args, graph().value(node.outputs[0]).type.dtype);
  }

  /// Output positions in the region's operand order that show value v.
  std::vector<uint32_t> output_operands(ValueId v) const {
    std::vector<uint32_t> out;
    for (uint32_t k = 0; k < graph().outputs.size(); ++k)
      if (graph().outputs[k] == v) out.push_back(static_cast<uint32_t>(spec_.inputs.size()) + k);
    return out;
  }

  // ---- cell and row -----------------------------------------------------------------------------

  Verdict lower_rows(RegionCode& code) {
    if (const Verdict v = judge_loops_of_row(); !v.yes()) return v;
    RegionPhase phase;
    KernelBuilder builder(region_.pattern);
    Access access(builder, spec_, phase, mapped_.reads().reads);
    // A cell's innermost loop plays the part of the row, with one stage.
    std::vector<LoopAxis> outer = iteration_.outer;
    const auto innermost = [&] {
      LoopAxis axis = std::move(outer.back());
      outer.pop_back();
      return axis;
    };
    std::optional<LoopAxis> row, abreast, across;
    if (!iteration_.row.empty()) {
      row = iteration_.row.back();
      around_.assign(iteration_.row.begin(), iteration_.row.end() - 1);
      if (iteration_.rows_abreast) abreast = innermost();
    } else if (!outer.empty()) {
      row = innermost();
    }
    double weight = 1;
    for (const auto& [v, info] : infos_)
      weight += graph().node(graph().value(v).producer).op->weight;
    if (row && !outer.empty() && region_.row_axes.none() && leaves_vectors_empty(*row, weight))
      return Verdict::no("rows of a few elements");
    std::vector<uint32_t> lying_across;
    if (row && region_.row_axes.none() && mapped_.reads().reads.empty())
      if (const auto axis = axis_across(outer, *row, lying_across)) {
        std::rotate(outer.begin() + static_cast<std::ptrdiff_t>(*axis),
                    outer.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, outer.end());
        across = innermost();
      }
    Scope scope;
    scope.access = &access;
    for (const LoopAxis& axis : outer) scope.axes.push_back(&axis);
    if (abreast) scope.axes.push_back(&*abreast);
    if (across) scope.axes.push_back(&*across);
    for (const LoopAxis& axis : around_) scope.axes.push_back(&axis);
    if (row) scope.axes.push_back(&*row);
    if (row && !abreast) {
      const auto most = static_cast<size_t>(kMostWeight / weight);
      split_ = mapped_.split(scope.axes, most);
      if (split_ == kNone && mapped_.joins_along(scope.axes) > std::max(most, kMostGuards))
        return Verdict::no("a row is joined of more parts than its code is written for");
    }
    const Expr columns = row ? access.extent(*row) : loop::i64(1);
    elements_ = columns;
    for (const LoopAxis& axis : around_) {
      around_extents_.push_back(access.extent(axis));
      elements_ = elements_ * around_extents_.back();
    }
    std::vector<Expr> extents;
    for (const LoopAxis& axis : outer) extents.push_back(access.extent(axis));

    const std::function<void(size_t, std::vector<loop::Index>)> nest =
        [&](size_t depth, std::vector<loop::Index> indices) {
          if (depth < outer.size()) {
            builder.loop("i" + std::to_string(depth), 0, extents[depth], [&](Var i) {
              std::vector<loop::Index> inner = indices;
              inner.emplace_back(i);
              nest(depth + 1, std::move(inner));
            });
            return;
          }
          if (abreast)
            write_abreast(builder, scope, *abreast, std::move(indices), columns);
          else if (across)
            write_tiles(builder, scope, *across, *row, lying_across, indices);
          else
            write_row(builder, scope, std::move(indices), columns, row.has_value());
        };
    if (outer.empty() && split_ != kNone)
      write_flat(builder, scope, *row, columns);
    else
      nest(0, {});
    loop::Kernel kernel = builder.finish();
    access.finish();
    if (abreast) kernel = loop::vectorize(std::move(kernel), "l", lanes_of(*abreast));
    phase.kernel = loop::schedule_default(std::move(kernel), {});
    if (abreast && row->size.is_constant()) {  // then no size of scratch depends on the dims
      const std::vector<int64_t> dims(phase.kernel.dims.size(), 0);
      if (loop::scratch_bytes(phase.kernel, dims) > kMostTableBytes)
        return Verdict::no("rows side by side would keep tables that no cache holds");
    }
    // A flat loop was cut into blocks of that size.
    const LoopAxis* const beside = abreast ? &*abreast : across ? &*across : nullptr;
    const bool flat = outer.empty() && !beside;
    const int64_t elements =
        flat ? kTaskElements : elements_inside(outer, row ? &*row : nullptr, beside, kTaskElements);
    phase.grain = std::max<int64_t>(1, kTaskElements / elements);
    code.phases.push_back(std::move(phase));
    return Verdict::ok();
  }

  /// Rows of several loops: what is broadcast along some of their axes does not step evenly over
  /// all. They add up what the innermost loop gives, which has to be worth its beginning and end.
  Verdict judge_loops_of_row() const {
    constexpr int64_t kShort = 32;
    if (iteration_.row.size() < 2) return Verdict::ok();
    const Dim& inside = iteration_.row.back().size;
    if (iteration_.rows_abreast || !mapped_.reads().reads.empty() ||
        (inside.is_constant() && inside.value() < kShort) ||
        std::any_of(infos_.begin(), infos_.end(), [](const auto& i) { return i.second.scratch; }))
      return Verdict::no("the row axes of an operand are not contiguous");
    return Verdict::ok();
  }

  /// The loop along which elements lie side by side of operands that lie across the row, and which
  /// those are. None where tiles would hold a few vectors.
  std::optional<size_t> axis_across(const std::vector<LoopAxis>& outer, const LoopAxis& row,
                                    std::vector<uint32_t>& operands) const {
    const auto is_short = [](const LoopAxis& axis) {
      return axis.size.is_constant() && axis.size.value() < loop::kReductionLanes;
    };
    std::optional<size_t> out;
    if (is_short(row)) return out;
    for (uint32_t k = 0; k < spec_.inputs.size(); ++k) {
      const AxisStride& step = row.strides[k];
      if (step.value == Dim(0) || step.value == Dim(1)) continue;
      for (size_t a = 0; a < outer.size(); ++a) {
        if (!(outer[a].strides[k].value == Dim(1)) || is_short(outer[a]) || out.value_or(a) != a)
          continue;
        out = a;
        operands.push_back(k);
      }
    }
    return out;
  }

  /// A cell by tiles of two loops. What lies across is copied to where it lies along the row.
  void write_tiles(KernelBuilder& builder, Scope& scope, const LoopAxis& across,
                   const LoopAxis& row, const std::vector<uint32_t>& lying_across,
                   const std::vector<loop::Index>& outside) {
    struct Block {
      Var number;
      Expr begin, end;
    };
    const auto blocks_of = [&](const char* name, const LoopAxis& axis,
                               const std::function<void(const Block&)>& body) {
      OperandDims blocks = axis.extent;
      blocks.divisor = kTile;
      const Expr count = scope.access->extent(axis);
      builder.loop(name, 0, scope.access->extent(blocks), [&](Var b) {
        const Expr begin = loop::loop_var(b) * loop::i64(kTile);
        body({b, begin, loop::min(begin + loop::i64(kTile), count)});
      });
    };
    blocks_of("bi", across, [&](const Block& rows) {
      blocks_of("bj", row, [&](const Block& columns) {
        const auto at = [&](Var i, Var j) {
          scope.indices = outside;
          scope.indices.emplace_back(i);
          scope.indices.emplace_back(j);
          in_tile_ = {loop::Index(loop::Affine(i) - loop::Affine(rows.number) * kTile),
                      loop::Index(loop::Affine(j) - loop::Affine(columns.number) * kTile)};
        };
        tiles_.clear();
        std::unordered_map<uint32_t, loop::Buffer> tiles;
        for (uint32_t operand : lying_across) {
          const DType type = loop::value_type(spec_.inputs[operand].dtype);
          const loop::Buffer tile = builder.scratch("t" + std::to_string(operand), type,
                                                    loop::i64(kTile * kTile), {kTile, 1});
          // Lanes along the tile's rows, which the code generator knows as a transposing copy.
          const auto lanes = static_cast<int>(loop::kReductionLanes);
          const auto copy = [&](Var j) {
            builder.loop("i", rows.begin, rows.end, [&](Var i) {
              at(i, j);
              builder.store(tile.at(in_tile_), load(scope, operand));
            });
          };
          builder.loop("j", columns.begin, columns.end, copy, loop::LoopKind::kVector, lanes);
          tiles.emplace(operand, tile);
        }
        tiles_ = std::move(tiles);
        const Stage stage = stage_of(builder, 0);
        builder.loop("i", rows.begin, rows.end, [&](Var i) {
          builder.loop("j", columns.begin, columns.end, [&](Var j) {
            at(i, j);
            write_element(builder, scope, stage, std::nullopt);
          });
        });
        tiles_.clear();
      });
    });
  }

  /// A flat loop whose pieces differ, cut into tasks here: each block has a part of every piece.
  void write_flat(KernelBuilder& builder, Scope& scope, const LoopAxis& axis, const Expr& columns) {
    OperandDims blocks = axis.extent;
    blocks.divisor = kTaskElements;
    builder.loop("b", 0, scope.access->extent(blocks), [&](Var b) {
      const Expr begin = loop::loop_var(b) * loop::i64(kTaskElements);
      block_ = {begin, loop::min(begin + loop::i64(kTaskElements), columns)};
      write_row(builder, scope, {}, columns, true);
      block_.reset();
    });
  }

  /// Blocks of rows side by side, in vector lanes.
  void write_abreast(KernelBuilder& builder, Scope& scope, const LoopAxis& axis,
                     std::vector<loop::Index> rows, const Expr& columns) {
    table_rows_ = table_rows(axis.size);
    OperandDims blocks = axis.extent;
    blocks.divisor = kRowsAbreast;
    const Expr count = scope.access->extent(axis);
    builder.loop("b", 0, scope.access->extent(blocks), [&](Var b) {
      const Expr begin = loop::loop_var(b) * loop::i64(kRowsAbreast);
      const Expr end = loop::min(begin + loop::i64(kRowsAbreast), count);
      builder.loop("l", begin, end, [&](Var l) {
        lane_ = loop::Index(loop::Affine(l) - loop::Affine(b) * kRowsAbreast);
        rows.emplace_back(l);
        write_row(builder, scope, rows, columns, true);
        rows.pop_back();
        lane_.reset();
      });
    });
  }
  /// Rows in the lanes of a vector. The more, the longer the lines of memory that a step along the
  /// row reads, and the less it waits for the sums; the operations of a heavy pass have to find
  /// registers for all of them, and work on the lanes of the last block that no row is left for.
  int lanes_of(const LoopAxis& abreast) const {
    const Dim& rows = abreast.size;
    const auto padded = [&](int64_t lanes) { return align_up(rows.value(), lanes); };
    const bool fills =
        rows.is_constant() && padded(kRowsAbreast) * 10 <= padded(loop::kReductionLanes) * 11;
    const bool wide =
        heaviest_pass() <= kLightWeight || (target_.registers >= kManyRegisters && fills);
    int64_t lanes = wide ? kRowsAbreast : loop::kReductionLanes;
    while (rows.is_constant() && lanes > loop::kReductionLanes && lanes / 2 >= rows.value())
      lanes /= 2;
    return static_cast<int>(lanes);
  }

  /// Operations per element of the pass over a row that has most of them.
  double heaviest_pass() const {
    std::vector<double> passes;
    for (const auto& [v, info] : infos_) {
      const Node& node = graph().node(graph().value(v).producer);
      if (!info.full && !node.op->reduction) continue;
      passes.resize(std::max(passes.size(), static_cast<size_t>(info.stage) + 1));
      passes[static_cast<size_t>(info.stage)] += node.op->weight;
    }
    return passes.empty() ? 0 : *std::max_element(passes.begin(), passes.end());
  }

  loop::AccOrder acc_order() const {
    return lane_ || !around_.empty() ? loop::AccOrder::kSequential : loop::AccOrder::kLanes;
  }
  /// The place of a value that later stages read.
  loop::Element kept(ValueId v, const loop::Index& column) const {
    return lane_ ? scratch_.at(v).at({column, *lane_}) : scratch_.at(v).at({column});
  }
  loop::Buffer scratch_for(KernelBuilder& builder, ValueId v, const Expr& columns) const {
    const std::string name = "r" + std::to_string(v);
    const DType type = loop::value_type(graph().value(v).type.dtype);
    if (!lane_) return builder.scratch(name, type, columns);
    return builder.scratch(name, type, columns * loop::i64(table_rows_), {table_rows_, 1});
  }

  /// What one pass over a row makes.
  struct Stage {
    int number = 0;
    std::vector<NodeId> reductions, stores;  ///< stores: full rows that are kept or put out
    std::vector<loop::Acc> accs;             ///< of the reductions
  };

  Stage stage_of(KernelBuilder& builder, int number) const {
    Stage out;
    out.number = number;
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      const Info* info = find(node.outputs[0]);  // none of index maps that are read at once
      if (!info || info->stage != number) continue;
      if (node.op->reduction)
        out.reductions.push_back(id);
      else if (info->full && (info->scratch || !output_operands(node.outputs[0]).empty()))
        out.stores.push_back(id);
    }
    for (NodeId id : out.reductions)
      out.accs.push_back(builder.acc("a" + std::to_string(id), graph().node(id).op->reduction->op,
                                     acc_type(id), acc_order()));
    return out;
  }

  void write_row(KernelBuilder& builder, Scope& scope, std::vector<loop::Index> rows,
                 const Expr& columns, bool has_row) {
    scalars_.clear();
    int stages = 1;
    for (const auto& [v, info] : infos_) stages = std::max(stages, info.stage + 1);
    for (NodeId id : graph().order()) {
      const ValueId v = graph().node(id).outputs[0];
      if (const Info* info = find(v); info && info->scratch)
        scratch_[v] = scratch_for(builder, v, columns);
    }
    for (int number = 0; number < stages; ++number) {
      const Stage stage = stage_of(builder, number);
      if (!stage.reductions.empty() || !stage.stores.empty())
        write_pass(builder, scope, stage, rows, columns, has_row);
      scope.indices = rows;
      scope.indices.resize(rows.size() + around_.size() + (has_row ? 1 : 0), int64_t{0});
      write_scalars(builder, scope, stage);
    }
  }

  /// A pass of several loops. The innermost has accumulators of its own, of which the row's get the
  /// results one after the other.
  void write_loops(KernelBuilder& builder, Scope& scope, const Stage& stage,
                   std::vector<loop::Index> indices, const Expr& columns, size_t depth = 0) {
    if (depth < around_.size()) {
      builder.loop("k" + std::to_string(depth), 0, around_extents_[depth], [&](Var k) {
        indices.emplace_back(k);
        write_loops(builder, scope, stage, indices, columns, depth + 1);
        indices.pop_back();
      });
      return;
    }
    Stage inside = stage;
    for (size_t k = 0; k < stage.reductions.size(); ++k) {
      const NodeId id = stage.reductions[k];
      inside.accs[k] =
          builder.acc("b" + std::to_string(id), graph().node(id).op->reduction->op, acc_type(id));
    }
    builder.loop("j", 0, columns, [&](Var j) {
      scope.indices = indices;
      scope.indices.emplace_back(j);
      write_element(builder, scope, inside, loop::Index(j));
    });
    for (size_t k = 0; k < stage.reductions.size(); ++k)
      builder.accumulate(stage.accs[k], inside.accs[k].value());
  }

  /// What a stage does at one point of the space, that of scope.indices.
  void write_element(KernelBuilder& builder, Scope& scope, const Stage& stage,
                     const std::optional<loop::Index>& column) {
    scope.values.clear();
    for (size_t k = 0; k < stage.reductions.size(); ++k)
      accumulate(builder, scope, stage.reductions[k], stage.accs[k], stage.number, column);
    for (NodeId id : stage.stores) {
      const ValueId v = graph().node(id).outputs[0];
      const Expr e = value(scope, v, stage.number, column);
      if (infos_.at(v).scratch) builder.store(kept(v, *column), e);
      for (uint32_t operand : output_operands(v))
        builder.store(scope.access->buffer(operand, scope.axes).at(scope.indices), e);
    }
  }

  /// The loop of a stage along a row, in pieces where it reads an index map that is split.
  void write_pass(KernelBuilder& builder, Scope& scope, const Stage& stage,
                  const std::vector<loop::Index>& rows, const Expr& columns, bool has_row) {
    const auto body = [&](const std::optional<loop::Index>& column) {
      scope.indices = rows;
      if (column) scope.indices.push_back(*column);
      write_element(builder, scope, stage, column);
    };
    if (!has_row) return body(std::nullopt);
    if (!around_.empty()) return write_loops(builder, scope, stage, rows, columns);
    if (!reads_split(stage.reductions, stage.stores, stage.number)) {
      const auto [begin, end] = block_.value_or(std::pair(loop::i64(0), columns));
      builder.loop("j", begin, end, [&](Var j) { body(loop::Index(j)); });
      return;
    }
    for (const MappedReads::Piece& piece :
         mapped_.pieces(split_, {*scope.access, scope.axes, rows}, columns)) {
      scope.piece = piece.piece;
      const Expr begin = block_ ? loop::max(block_->first, piece.begin) : piece.begin;
      const Expr end = block_ ? loop::min(block_->second, piece.end) : piece.end;
      builder.loop("j", begin, end, [&](Var j) { body(loop::Index(j)); });
      scope.piece.reset();
    }
  }

  /// An element of what a reduction folds.
  void accumulate(KernelBuilder& builder, Scope& scope, NodeId id, const loop::Acc& acc, int stage,
                  const std::optional<loop::Index>& column) {
    const Node& node = graph().node(id);
    Expr x = loop::cast(acc_type(id), value(scope, node.inputs[0], stage, column));
    if (node.op->reduction->pre) x = node.op->reduction->pre(x);
    builder.accumulate(acc, x);
  }

  /// Behind a pass: what its reductions gave, and the scalars made of it.
  void write_scalars(KernelBuilder& builder, Scope& scope, const Stage& stage) {
    scope.values.clear();
    for (size_t k = 0; k < stage.reductions.size(); ++k) {
      const Node& node = graph().node(stage.reductions[k]);
      Expr e = stage.accs[k].value();
      if (node.op->reduction->post)
        e = node.op->reduction->post(e, loop::cast(e.type(), elements_));
      define_scalar(builder, scope, node.outputs[0], result_of(stage.reductions[k], e));
    }
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      const Info* info = find(node.outputs[0]);
      if (!info || node.op->reduction || info->full || info->stage != stage.number) continue;
      define_scalar(builder, scope, node.outputs[0],
                    apply(scope, node, stage.number, std::nullopt));
    }
  }

  /// Does what a stage's loop computes read the index map that is split?
  bool reads_split(const std::vector<NodeId>& reductions, const std::vector<NodeId>& stores,
                   int stage) const {
    if (split_ == kNone) return false;
    std::unordered_set<ValueId> seen;  // a value is met once for each path to it
    const std::function<bool(ValueId)> reads = [&](ValueId v) {
      if (v == kNone || operand_of_.count(v) || graph().value(v).is_constant()) return false;
      if (!seen.insert(v).second) return false;
      if (mapped_.has(v)) return v == split_;
      const Info& info = infos_.at(v);
      if (!info.full || (info.scratch && info.stage < stage)) return false;
      const auto& inputs = graph().node(graph().value(v).producer).inputs;
      return std::any_of(inputs.begin(), inputs.end(), reads);
    };
    return std::any_of(stores.begin(), stores.end(),
                       [&](NodeId id) { return reads(graph().node(id).outputs[0]); }) ||
           std::any_of(reductions.begin(), reductions.end(),
                       [&](NodeId id) { return reads(graph().node(id).inputs[0]); });
  }

  void define_scalar(KernelBuilder& builder, Scope& scope, ValueId v, const Expr& e) {
    const Expr reg = builder.let("v" + std::to_string(v), e);
    scalars_[v] = reg;
    scope.values[v] = reg;
    for (uint32_t operand : output_operands(v))
      builder.store(scope.access->buffer(operand, scope.axes).at(scope.indices), reg);
  }

  // ---- aggregate --------------------------------------------------------------------------------

  Verdict lower_aggregate(RegionCode& code) {
    if (iteration_.outer.size() != 1)
      return Verdict::no("the operands of an aggregate are not contiguous");
    const LoopAxis& axis = iteration_.outer.front();
    std::vector<NodeId> reductions;
    for (NodeId id : graph().order()) {
      if (!graph().node(id).op->reduction) continue;
      if (output_operands(graph().node(id).outputs[0]).empty())
        return Verdict::no("an aggregate that is used inside its region");
      reductions.push_back(id);
    }
    OperandDims blocks = axis.extent;
    blocks.divisor = loop::kSumBlock;
    code.phases.push_back(aggregate_blocks(axis, blocks, reductions));
    code.phases.push_back(aggregate_result(axis, blocks, reductions));
    for (NodeId id : reductions) code.temps.push_back({acc_type(id), blocks});
    return Verdict::ok();
  }

  /// A partial result of each block, and what is stored by element.
  RegionPhase aggregate_blocks(const LoopAxis& axis, const OperandDims& blocks,
                               const std::vector<NodeId>& reductions) {
    RegionPhase phase;
    KernelBuilder builder("aggregate_blocks");
    Access access(builder, spec_, phase);
    Scope scope;
    scope.access = &access;
    scope.axes = {&axis};
    const Expr n = access.extent(axis), block_count = access.extent(blocks);
    std::vector<loop::Buffer> temps;
    for (size_t k = 0; k < reductions.size(); ++k)
      temps.push_back(access.temp(static_cast<uint32_t>(k), acc_type(reductions[k]), true));
    builder.loop("b", 0, block_count, [&](Var b) {
      std::vector<loop::Acc> accs;
      for (NodeId id : reductions)
        accs.push_back(builder.acc("a" + std::to_string(id), graph().node(id).op->reduction->op,
                                   acc_type(id)));
      const Expr begin = loop::loop_var(b) * loop::i64(loop::kSumBlock);
      builder.loop("j", begin, loop::min(begin + loop::i64(loop::kSumBlock), n), [&](Var j) {
        scope.indices = {loop::Index(j)};
        scope.values.clear();
        for (size_t k = 0; k < reductions.size(); ++k)
          accumulate(builder, scope, reductions[k], accs[k], 0, std::nullopt);
        for (NodeId id : graph().order()) {
          const ValueId v = graph().node(id).outputs[0];
          if (graph().node(id).op->reduction) continue;
          for (uint32_t operand : output_operands(v))
            builder.store(access.buffer(operand, scope.axes).at(scope.indices),
                          value(scope, v, 0, std::nullopt));
        }
      });
      for (size_t k = 0; k < reductions.size(); ++k) builder.store(temps[k](b), accs[k].value());
    });
    loop::Kernel kernel = builder.finish();
    access.finish();
    phase.kernel = loop::schedule_default(std::move(kernel), {});
    return phase;
  }

  /// The blocks' partial results put together.
  RegionPhase aggregate_result(const LoopAxis& axis, const OperandDims& blocks,
                               const std::vector<NodeId>& reductions) {
    RegionPhase phase;
    KernelBuilder builder("aggregate_result");
    Access access(builder, spec_, phase);
    const Expr n = access.extent(axis), block_count = access.extent(blocks);
    for (size_t k = 0; k < reductions.size(); ++k) {
      const Node& node = graph().node(reductions[k]);
      const loop::Buffer temp =
          access.temp(static_cast<uint32_t>(k), acc_type(reductions[k]), false);
      // One partial per 16,384 elements: too few for lanes to be worth their code.
      const loop::Acc acc = builder.acc("a" + std::to_string(k), node.op->reduction->op,
                                        acc_type(reductions[k]), loop::AccOrder::kSequential);
      builder.loop("b", 0, block_count, [&](Var b) { builder.accumulate(acc, temp(b)); });
      Expr e = acc.value();
      if (node.op->reduction->post) e = node.op->reduction->post(e, loop::cast(e.type(), n));
      for (uint32_t operand : output_operands(node.outputs[0]))
        builder.store(access.buffer(operand, {}).at({}), result_of(reductions[k], e));
    }
    loop::Kernel kernel = builder.finish();
    access.finish();
    phase.kernel = loop::schedule_default(std::move(kernel), {});
    return phase;
  }

  DType acc_type(NodeId id) const {
    const Node& node = graph().node(id);
    return sum_type(node, graph().value(node.inputs[0]).type.dtype);
  }
  /// What a reduction gives, rounded as its step does.
  Expr result_of(NodeId id, const Expr& e) const {
    const DType type = graph().value(graph().node(id).outputs[0]).type.dtype;
    return as_stored(loop::cast(loop::value_type(type), e), type);
  }

  const Region& region_;
  const StepSpec& spec_;
  const loop::TargetWidth& target_;
  RegionGraph g_;
  std::unordered_map<ValueId, uint32_t> operand_of_;
  MappedReads mapped_;
  std::unordered_map<ValueId, Info> infos_;
  std::vector<bool> reduced_;
  Iteration iteration_;
  std::unordered_map<ValueId, Expr> scalars_;  // per row: registers
  std::unordered_map<ValueId, loop::Buffer> scratch_;
  std::optional<std::pair<Expr, Expr>> block_;        // of write_flat(): the innermost loops' range
  std::optional<loop::Index> lane_;                   // of rows abreast: of a row, in its block
  std::unordered_map<uint32_t, loop::Buffer> tiles_;  // of a cell: operands that lie across it
  std::vector<loop::Index> in_tile_;                  // the current element's place there
  int64_t table_rows_ = 0;                            // of rows abreast: that scratch has room for
  std::vector<LoopAxis> around_;      // of a row of several loops: all but the innermost
  std::vector<Expr> around_extents_;  // and how far they go
  Expr elements_;                     // of a row
  ValueId split_ = kNone;             // an index map whose pieces have loops of their own
};

loop::Accuracy accuracy_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::kStrict:
      return loop::Accuracy::kStrict;
    case Numerics::kFast:
      return loop::Accuracy::kFast;
    default:
      return loop::Accuracy::kDefault;
  }
}

}  // namespace

Verdict lower_region(const Graph& graph, const Region& region, const StepSpec& spec,
                     const loop::TargetWidth& target, RegionCode& out) {
  try {
    const Verdict verdict =
        region.blocks ? lower_blocks(region, spec, extract_region(graph, region), target, out)
                      : Lowering(region, spec, target, extract_region(graph, region)).lower(out);
    for (RegionPhase& phase : out.phases) phase.kernel.accuracy = accuracy_of(spec.numerics);
    return verdict;
  } catch (const Error& error) {
    return Verdict::no(error.message());
  }
}

}  // namespace xc
