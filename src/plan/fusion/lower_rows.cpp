#include <algorithm>
#include <functional>
#include <unordered_set>

#include "loop/schedule.h"
#include "plan/fusion/loop_body.h"
#include "plan/fusion/lower_loops.h"

namespace xc::fusion {
namespace {

using loop::Expr;
using loop::KernelBuilder;
using loop::Var;

constexpr int64_t kTile = 64;        // rows and columns of a tile
constexpr double kMostWeight = 160;  // of operations per element, written once per piece
constexpr size_t kMostGuards = 2;    // parts that every element may be looked for in
constexpr int kManyRegisters = 32;   // TargetWidth::registers of AVX-512
constexpr double kLightWeight = 6;   // of a pass: so few operations fit any registers

/// The loops of a region. A cell's innermost plays the part of the row, with one pass.
struct Loops {
  std::vector<LoopAxis> outer;
  std::optional<LoopAxis> abreast;  ///< the last of them, where its rows are in lanes
  std::optional<LoopAxis> across;   ///< of a cell by tiles: along which `lying_across` is adjacent
  std::vector<uint32_t> lying_across;
  std::vector<LoopAxis> around;  ///< of a row of several loops: all but the innermost
  std::optional<LoopAxis> row;   ///< the innermost; none: one element

  /// All, outermost first.
  std::vector<const LoopAxis*> axes() const {
    std::vector<const LoopAxis*> out;
    for (const LoopAxis& axis : outer) out.push_back(&axis);
    if (abreast) out.push_back(&*abreast);
    if (across) out.push_back(&*across);
    for (const LoopAxis& axis : around) out.push_back(&axis);
    if (row) out.push_back(&*row);
    return out;
  }
  LoopAxis take_innermost() {
    LoopAxis axis = std::move(outer.back());
    outer.pop_back();
    return axis;
  }
};

/// The loop along which elements lie side by side of operands that lie across the row, and which
/// those are. None where tiles would hold a few vectors.
std::optional<size_t> axis_across(const LoopRegion& region, const Loops& loops,
                                  std::vector<uint32_t>& operands) {
  const auto is_short = [](const LoopAxis& axis) {
    return axis.size.is_constant() && axis.size.value() < loop::kReductionLanes;
  };
  std::optional<size_t> out;
  if (is_short(*loops.row)) return out;
  for (uint32_t k = 0; k < region.spec().inputs.size(); ++k) {
    const AxisStride& step = loops.row->strides[k];
    if (step.value == Dim(0) || step.value == Dim(1)) continue;
    for (size_t a = 0; a < loops.outer.size(); ++a) {
      const LoopAxis& axis = loops.outer[a];
      if (!(axis.strides[k].value == Dim(1)) || is_short(axis) || out.value_or(a) != a) continue;
      out = a;
      operands.push_back(k);
    }
  }
  return out;
}

Loops loops_of(const LoopRegion& region) {
  Loops out;
  const Iteration& iteration = region.iteration();
  out.outer = iteration.outer;
  if (!iteration.row.empty()) {
    out.row = iteration.row.back();
    out.around.assign(iteration.row.begin(), iteration.row.end() - 1);
    if (iteration.rows_abreast) out.abreast = out.take_innermost();
  } else if (!out.outer.empty()) {
    out.row = out.take_innermost();
  }
  if (!out.row || !region.region().row_axes.none() || !region.mapped().reads().reads.empty())
    return out;
  if (const auto axis = axis_across(region, out, out.lying_across)) {
    const auto at = out.outer.begin() + static_cast<std::ptrdiff_t>(*axis);
    std::rotate(at, at + 1, out.outer.end());
    out.across = out.take_innermost();
  }
  return out;
}

/// Rows of several loops: what is broadcast along some of their axes does not step evenly over all.
/// They add up what the innermost loop gives, which has to be worth its beginning and end.
Verdict judge_loops_of_row(const LoopRegion& region) {
  constexpr int64_t kShort = 32;
  const Iteration& iteration = region.iteration();
  if (iteration.row.size() < 2) return Verdict::ok();
  const Dim& inside = iteration.row.back().size;
  if (iteration.rows_abreast || !region.mapped().reads().reads.empty() ||
      (inside.is_constant() && inside.value() < kShort) || region.keeps_values())
    return Verdict::no("the row axes of an operand are not contiguous");
  return Verdict::ok();
}

/// Rows of so few elements that vectors stay empty: a step that knows of them is faster than few
/// operations so, or any on bytes, which AVX2 has no masks for.
bool leaves_vectors_empty(const LoopRegion& region, const LoopAxis& row) {
  constexpr int64_t kFew = 4, kFewBytes = 8;
  constexpr double kMany = 16;
  const StepSpec& spec = region.spec();
  if (!row.size.is_constant() || row.size.value() >= kFewBytes) return false;
  for (size_t k = 0; k < spec.inputs.size() + spec.outputs.size(); ++k)
    if (element_size(operand_at(spec, k).dtype) == 1 && !(row.strides[k].value == Dim(0)))
      return true;
  return row.size.value() <= kFew && region.weight() < kMany;
}

/// Rows in the lanes of a vector. The more, the longer the lines of memory that a step along the
/// row reads, and the less it waits for the sums; the operations of a heavy pass have to find
/// registers for all of them, and work on the lanes of the last block that no row is left for.
int lanes_of(const LoopRegion& region, const LoopAxis& abreast, const loop::TargetWidth& target) {
  const Dim& rows = abreast.size;
  const auto padded = [&](int64_t lanes) { return align_up(rows.value(), lanes); };
  const bool fills =
      rows.is_constant() && padded(kRowsAbreast) * 10 <= padded(loop::kReductionLanes) * 11;
  const bool wide =
      region.heaviest_pass() <= kLightWeight || (target.registers >= kManyRegisters && fills);
  int64_t lanes = wide ? kRowsAbreast : loop::kReductionLanes;
  while (rows.is_constant() && lanes > loop::kReductionLanes && lanes / 2 >= rows.value())
    lanes /= 2;
  return static_cast<int>(lanes);
}

/// What one pass over a row makes.
struct Pass {
  int stage = 0;
  std::vector<NodeId> reductions;
  std::vector<ValueId> stores;  ///< full values that are kept or put out
  std::vector<loop::Acc> accs;  ///< of the reductions
};

/// Does what a pass computes read an index map?
bool reads_map(const LoopRegion& region, const Pass& pass, ValueId map) {
  std::unordered_set<ValueId> seen;  // a value is met once for each path to it
  const std::function<bool(ValueId)> reads = [&](ValueId v) {
    if (v == kNone || region.input_of(v) || region.graph().value(v).is_constant()) return false;
    if (!seen.insert(v).second) return false;
    if (region.mapped().has(v)) return v == map;
    const StagedValue& staged = *region.find(v);
    if (!staged.full || (staged.kept && staged.stage < pass.stage)) return false;
    const auto& inputs = region.producer(v).inputs;
    return std::any_of(inputs.begin(), inputs.end(), reads);
  };
  return std::any_of(pass.stores.begin(), pass.stores.end(), reads) ||
         std::any_of(pass.reductions.begin(), pass.reductions.end(),
                     [&](NodeId id) { return reads(region.graph().node(id).inputs[0]); });
}

/// Writes the loops of a cell or row region into a kernel.
class RowWriter {
 public:
  RowWriter(const Loops& loops, LoopBody& body)
      : loops_(loops), region_(body.region()), builder_(body.builder()), body_(body) {}

  /// Chooses the index map whose pieces get loops of their own. Comes before write(); the reason
  /// when a row is joined of too many parts for that and for looking every element up.
  Verdict split() {
    if (!loops_.row || loops_.abreast) return Verdict::ok();
    const auto most = static_cast<size_t>(kMostWeight / region_.weight());
    split_ = region_.mapped().split(body_.axes(), most);
    if (split_ == kNone && region_.mapped().joins_along(body_.axes()) > std::max(most, kMostGuards))
      return Verdict::no("a row is joined of more parts than its code is written for");
    return Verdict::ok();
  }

  void write() {
    columns_ = loops_.row ? body_.access().extent(*loops_.row) : loop::i64(1);
    elements_ = columns_;
    for (const LoopAxis& axis : loops_.around) {
      around_.push_back(body_.access().extent(axis));
      elements_ = elements_ * around_.back();
    }
    std::vector<Expr> extents;
    for (const LoopAxis& axis : loops_.outer) extents.push_back(body_.access().extent(axis));
    if (extents.empty() && split_ != kNone)
      write_flat();
    else
      write_nest(extents, {});
  }

 private:
  using Indices = std::vector<loop::Index>;

  void write_nest(const std::vector<Expr>& extents, const Indices& outside) {
    const size_t depth = outside.size();
    if (depth < extents.size()) {
      builder_.loop("i" + std::to_string(depth), 0, extents[depth],
                    [&](Var i) { write_nest(extents, with(outside, loop::Index(i))); });
    } else if (loops_.abreast) {
      write_abreast(outside);
    } else if (loops_.across) {
      write_tiles(outside);
    } else {
      write_row(outside);
    }
  }

  static Indices with(Indices indices, loop::Index index) {
    indices.push_back(std::move(index));
    return indices;
  }

  /// A cell by tiles of two loops. What lies across is copied to where it lies along the row.
  void write_tiles(const Indices& outside) {
    const auto in_tiles = [&](const char* name, const LoopAxis& axis, const auto& tile) {
      in_blocks(name, axis, body_.access().extent(axis), kTile, tile);
    };
    in_tiles("bi", *loops_.across, [&](const Block& rows) {
      in_tiles("bj", *loops_.row, [&](const Block& columns) {
        const auto enter = [&](Var i, Var j) {
          body_.enter({.at = with(with(outside, loop::Index(i)), loop::Index(j))});
        };
        const auto place = [&](Var i, Var j) {
          return Indices{loop::Index(loop::Affine(i) - loop::Affine(rows.number) * kTile),
                         loop::Index(loop::Affine(j) - loop::Affine(columns.number) * kTile)};
        };
        LoopBody::Tiles tiles;
        for (uint32_t input : loops_.lying_across) {
          const DType type = loop::value_type(region_.spec().inputs[input].dtype);
          const loop::Buffer tile = builder_.scratch("t" + std::to_string(input), type,
                                                     loop::i64(kTile * kTile), {kTile, 1});
          // Lanes along the tile's rows, which the code generator knows as a transposing copy.
          const auto lanes = static_cast<int>(loop::kReductionLanes);
          const auto copy = [&](Var j) {
            builder_.loop("i", rows.begin, rows.end, [&](Var i) {
              enter(i, j);
              builder_.store(tile.at(place(i, j)), body_.load(input));
            });
          };
          builder_.loop("j", columns.begin, columns.end, copy, loop::LoopKind::kVector, lanes);
          tiles.emplace(input, tile);
        }
        body_.set_tiles(std::move(tiles));
        const Pass pass = pass_of(0);
        builder_.loop("i", rows.begin, rows.end, [&](Var i) {
          builder_.loop("j", columns.begin, columns.end, [&](Var j) {
            enter(i, j);
            body_.set_place_in_tiles(place(i, j));
            write_element(pass);
          });
        });
        body_.set_tiles({});
      });
    });
  }

  /// A loop of `count` iterations in blocks of `size`.
  struct Block {
    Var number;
    Expr begin, end;
  };
  void in_blocks(const char* name, const LoopAxis& axis, const Expr& count, int64_t size,
                 const std::function<void(const Block&)>& block) {
    OperandDims blocks = axis.extent;
    blocks.divisor = size;
    builder_.loop(name, 0, body_.access().extent(blocks), [&](Var b) {
      const Expr begin = loop::loop_var(b) * loop::i64(size);
      block({b, begin, loop::min(begin + loop::i64(size), count)});
    });
  }

  /// A flat loop whose pieces differ, cut into tasks here: each block has a part of every piece.
  void write_flat() {
    in_blocks("b", *loops_.row, columns_, kTaskElements, [&](const Block& block) {
      block_ = block;
      write_row({});
      block_.reset();
    });
  }

  /// Blocks of rows side by side, in vector lanes.
  void write_abreast(const Indices& outside) {
    const Expr rows = body_.access().extent(*loops_.abreast);
    in_blocks("b", *loops_.abreast, rows, kRowsAbreast, [&](const Block& block) {
      builder_.loop("l", block.begin, block.end, [&](Var l) {
        body_.set_lane(loop::Index(loop::Affine(l) - loop::Affine(block.number) * kRowsAbreast));
        write_row(with(outside, loop::Index(l)));
        body_.set_lane(std::nullopt);
      });
    });
  }

  void write_row(const Indices& outside) {
    body_.begin_row(columns_, loops_.abreast ? table_rows(loops_.abreast->size) : 1);
    for (int stage = 0; stage < region_.stages(); ++stage) {
      const Pass pass = pass_of(stage);
      if (!pass.reductions.empty() || !pass.stores.empty()) write_pass(pass, outside);
      Indices behind = outside;
      behind.resize(body_.axes().size(), int64_t{0});
      body_.enter({.at = std::move(behind), .stage = stage});
      write_scalars(pass);
    }
  }

  Pass pass_of(int stage) {
    const bool in_order = loops_.abreast || !loops_.around.empty();
    Pass out;
    out.stage = stage;
    for (NodeId id : region_.graph().order()) {
      const Node& node = region_.graph().node(id);
      const ValueId v = node.outputs[0];
      const StagedValue* staged = region_.find(v);  // none of index maps that are read at once
      if (!staged || staged->stage != stage) continue;
      if (node.op->reduction)
        out.reductions.push_back(id);
      else if (staged->full && (staged->kept || !region_.outputs_of(v).empty()))
        out.stores.push_back(v);
    }
    for (NodeId id : out.reductions)
      out.accs.push_back(
          acc("a", id, in_order ? loop::AccOrder::kSequential : loop::AccOrder::kLanes));
    return out;
  }
  loop::Acc acc(const char* name, NodeId id, loop::AccOrder order) {
    return accumulator(region_, builder_, name + std::to_string(id), id, order);
  }

  /// The loop of a pass along a row, in pieces where it reads an index map that is split.
  void write_pass(const Pass& pass, const Indices& outside) {
    if (!loops_.row) {
      body_.enter({.at = outside, .stage = pass.stage});
      return write_element(pass);
    }
    if (!loops_.around.empty()) return write_loops(pass, outside);
    if (split_ == kNone || !reads_map(region_, pass, split_))
      return write_along(pass, outside, block_ ? block_->begin : loop::i64(0),
                         block_ ? block_->end : columns_);
    for (const MappedReads::Piece& piece :
         region_.mapped().pieces(split_, {body_.access(), body_.axes(), outside}, columns_)) {
      body_.set_piece(split_, piece.piece);
      write_along(pass, outside, block_ ? loop::max(block_->begin, piece.begin) : piece.begin,
                  block_ ? loop::min(block_->end, piece.end) : piece.end);
      body_.set_piece(split_, std::nullopt);
    }
  }

  void write_along(const Pass& pass, const Indices& outside, const Expr& begin, const Expr& end) {
    builder_.loop("j", begin, end, [&](Var j) {
      const loop::Index column(j);
      body_.enter({.at = with(outside, column), .stage = pass.stage, .column = column});
      write_element(pass);
    });
  }

  /// A pass of several loops. The innermost has accumulators of its own, of which the row's get the
  /// results one after the other.
  void write_loops(const Pass& pass, const Indices& outside, size_t depth = 0) {
    if (depth < around_.size()) {
      builder_.loop("k" + std::to_string(depth), 0, around_[depth],
                    [&](Var k) { write_loops(pass, with(outside, loop::Index(k)), depth + 1); });
      return;
    }
    Pass inside = pass;
    for (size_t k = 0; k < pass.reductions.size(); ++k)
      inside.accs[k] = acc("b", pass.reductions[k], loop::AccOrder::kLanes);
    write_along(inside, outside, loop::i64(0), columns_);
    for (size_t k = 0; k < pass.reductions.size(); ++k)
      builder_.accumulate(pass.accs[k], inside.accs[k].value());
  }

  /// What a pass does at one point.
  void write_element(const Pass& pass) {
    for (size_t k = 0; k < pass.reductions.size(); ++k)
      body_.accumulate(pass.reductions[k], pass.accs[k]);
    for (ValueId v : pass.stores) body_.store(v);
  }

  /// Behind a pass: what its reductions gave, and the scalars made of it.
  void write_scalars(const Pass& pass) {
    for (size_t k = 0; k < pass.reductions.size(); ++k) {
      const NodeId id = pass.reductions[k];
      body_.define(region_.graph().node(id).outputs[0],
                   region_.result_of(id, pass.accs[k].value(), elements_));
    }
    for (NodeId id : region_.graph().order()) {
      const Node& node = region_.graph().node(id);
      const StagedValue* staged = region_.find(node.outputs[0]);
      if (!staged || node.op->reduction || staged->full || staged->stage != pass.stage) continue;
      body_.define(node.outputs[0], body_.apply(node));
    }
  }

  const Loops& loops_;
  const LoopRegion& region_;
  KernelBuilder& builder_;
  LoopBody& body_;
  Expr columns_;                ///< elements along the innermost loop of a row
  std::vector<Expr> around_;    ///< how far Loops::around go
  Expr elements_;               ///< of a row
  std::optional<Block> block_;  ///< of write_flat(): the innermost loops' range
  ValueId split_ = kNone;       ///< an index map whose pieces have loops of their own
};

/// Iterations of the outermost loop that make a task.
int64_t grain_of(const Loops& loops) {
  const LoopAxis* const beside = loops.abreast  ? &*loops.abreast
                                 : loops.across ? &*loops.across
                                                : nullptr;
  // A flat loop was cut into blocks of that size.
  if (loops.outer.empty() && !beside) return 1;
  const int64_t elements =
      elements_inside(loops.outer, loops.row ? &*loops.row : nullptr, beside, kTaskElements);
  return std::max<int64_t>(1, kTaskElements / elements);
}

}  // namespace

Verdict lower_rows(const LoopRegion& region, const loop::TargetWidth& target, RegionCode& out) {
  if (const Verdict v = judge_loops_of_row(region); !v.yes()) return v;
  const Loops loops = loops_of(region);
  const bool nested = !loops.outer.empty() || loops.across;
  if (loops.row && nested && region.region().row_axes.none() &&
      leaves_vectors_empty(region, *loops.row))
    return Verdict::no("rows of a few elements");
  RegionPhase phase;
  KernelBuilder builder(region.region().pattern);
  Access access(builder, region.spec(), phase, region.mapped().reads().reads);
  LoopBody body(region, builder, access, loops.axes());
  RowWriter writer(loops, body);
  if (const Verdict v = writer.split(); !v.yes()) return v;
  writer.write();
  loop::Kernel kernel = builder.finish();
  access.finish();
  if (loops.abreast)
    kernel = loop::vectorize(std::move(kernel), "l", lanes_of(region, *loops.abreast, target));
  phase.kernel = loop::schedule_default(std::move(kernel), {});
  if (loops.abreast &&
      loops.row->size.is_constant()) {  // then no size of scratch depends on the dims
    const std::vector<int64_t> dims(phase.kernel.dims.size(), 0);
    if (loop::scratch_bytes(phase.kernel, dims) > kMostTableBytes)
      return Verdict::no("rows side by side would keep tables that no cache holds");
  }
  phase.grain = grain_of(loops);
  out.phases.push_back(std::move(phase));
  return Verdict::ok();
}

}  // namespace xc::fusion
