// A region of the row-block template as loop IR. Per task, blocks of kBlockRows rows, or fewer
// where rows that are read twice would not stay in the first-level cache:
// - a computed value that is kept lies in scratch as [column][row of the block], rows in vector
//   lanes: reductions along a row are then between registers, and a product's inner loop is a
//   vector of rows times one element of the shared matrix. All lanes are always computed; those
//   past the last row read nothing from memory and are stored nowhere;
// - rows times a narrow matrix, the rows read from memory, are dot products along the row;
// - column products add up over the blocks of a task, then over tasks in a second phase, in an
// order
//   that depends on the sizes alone.
// Rowwise functions are computed where they are read, but for what is dear or feeds a product.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "loop/verify.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "plan/fusion/access.h"
#include "plan/fusion/blocks.h"
#include "plan/fusion/classify.h"

namespace xc {
namespace {

using loop::Affine;
using loop::Expr;
using loop::KernelBuilder;
using loop::Var;

constexpr int kBlockRows = 32, kLeastBlockRows = 8;
constexpr int64_t kPanelTerms = 64;  // of long sums: rows of so many stay in the first-level cache
constexpr int64_t kBlockBytes = 32 << 10;  // of rows that are read twice
constexpr int64_t kTaskRows = 1024;        // without batch axes: rows of a task
constexpr double kRecomputeWeight = 6;     // additions: above, a value is kept in scratch
constexpr int kVectorRegisters = 32;       // from here on tiles are wide

/// The side of a Mul or Div that is one number per row, while the other is a whole row; or -1.
int row_scalar_side(const Graph& graph, const Node& node) {
  const bool quotient = node.op->name == "Div";
  if (!quotient && node.op->name != "Mul") return -1;
  const SymDims& whole = *graph.value(node.outputs[0]).type.dims;
  for (const int side : {1, 0}) {
    if (quotient && side == 0) break;
    const SymDims& scalar = *graph.value(node.inputs[static_cast<size_t>(side)]).type.dims;
    const SymDims& row = *graph.value(node.inputs[static_cast<size_t>(1 - side)]).type.dims;
    if (scalar.size() == whole.size() && scalar.back() == Dim(1) && row == whole) return side;
  }
  return -1;
}

/// Rows scaled by a number each, only to be multiplied by a matrix: the product's columns are
/// scaled instead, which are fewer, and no pass over the rows is left.
void scale_after_products(Graph& graph) {
  const auto users = graph.users();
  Patch patch(graph, "scale-after-product");
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& product = graph.node(id);
    if (product.op->name != "MatMul") continue;
    const NodeId left = graph.value(product.inputs[0]).producer;
    if (left == kNone) continue;
    const Node& scaled = graph.node(left);
    const int side = row_scalar_side(graph, scaled);
    if (side < 0 || graph.only_user(users, scaled.outputs[0]) == kNone) continue;
    const ValueId scale = scaled.inputs[static_cast<size_t>(side)];
    const ValueId rows = scaled.inputs[static_cast<size_t>(1 - side)];
    const auto first = patch.add_node(*product.op, {rows, product.inputs[1]}, 1, product.attrs);
    const auto then = patch.add_node(*scaled.op, {first[0], scale}, 1);
    patch.replace(product.outputs[0], then[0]);
    patch.remove(id);
    patch.remove(left);
  }
  if (patch.empty()) return;
  patch.apply();
  infer_types(graph);
}

/// Operands that are widened are read as they lie: an element of any type is f32 once it is loaded.
void read_halves(Graph& graph) {
  Patch patch(graph, "read-halves");
  std::unordered_map<ValueId, ValueId> halves;  // of results of Casts, and of their Transposes
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_widening_cast(graph, node) && graph.value(node.inputs[0]).producer == kNone)
      halves[node.outputs[0]] = node.inputs[0];
  }
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool transposed = node.op->name == "Transpose";
    std::vector<ValueId> inputs = node.inputs;
    if (!transposed && node.op->name != "MatMul" && !node.op->scalar) continue;
    for (ValueId& in : inputs)
      if (const auto it = halves.find(in); it != halves.end()) in = it->second;
    if (inputs == node.inputs) continue;
    const ValueId old = node.outputs[0];
    const ValueId now = patch.add_node(*node.op, inputs, 1, node.attrs)[0];
    graph.value(now).type = graph.value(old).type;
    if (transposed) {
      graph.value(now).type.dtype = graph.value(inputs[0]).type.dtype;
      halves[old] = now;
    }
    patch.replace(old, now);
    patch.remove(id);
  }
  patch.apply();
  const auto users = graph.users();
  for (const auto& [wide, half] : halves)
    if (const NodeId cast = graph.value(wide).producer;
        cast != kNone && is_widening_cast(graph, graph.node(cast)) && users[wide].empty() &&
        !graph.is_output(wide))
      patch.remove(cast);
  patch.apply();
}

class BlockLowering {
 public:
  BlockLowering(const Region& region, const StepSpec& spec, RegionGraph region_graph,
                const loop::TargetWidth& target, RegionCode& code)
      : spec_(spec), g_(std::move(region_graph)), code_(code), multiplies_(target.multiplies) {
    space_.batch.assign(region.space.begin(), region.space.end() - 1);
    space_.rows = region.space.back();
    for (uint32_t k = 0; k < g_.operands.size(); ++k) operand_of_[g_.operands[k]] = k;
    const bool wide = target.registers >= kVectorRegisters;
    most_rows_ = wide ? 2 * kBlockRows : kBlockRows;
    tile_columns_ = wide ? 8 : 4;
    product_lanes_ = wide ? 2 * loop::kReductionLanes : loop::kReductionLanes;
    column_vectors_ = wide ? 12 : 6;
  }

  Verdict lower() {
    if (!expand_composites(g_.graph, true)) return Verdict::no("an operator does not expand");
    scale_after_products(g_.graph);
    read_halves(g_.graph);
    users_ = graph().users();
    if (const Verdict v = analyse(); !v.yes()) return v;
    choose_block_rows();
    write_blocks();
    add_column_results();
    return Verdict::ok();
  }

 private:
  const Graph& graph() const { return g_.graph; }
  const SymDims& dims(ValueId v) const { return *graph().value(v).type.dims; }
  Dim width(ValueId v) const { return dims(v).empty() ? Dim(1) : dims(v).back(); }
  /// Values a walk has met: judged there, for a value may be met once for each path to it.
  using Seen = std::unordered_set<ValueId>;
  bool computed(ValueId v) const {
    return !operand_of_.count(v) && graph().value(v).producer != kNone;
  }
  BlockRole role(NodeId id) const { return block_role(graph(), id, space_, classify(graph(), id)); }
  DType stored_type(ValueId v) const { return graph().value(v).type.dtype; }
  DType value_type(ValueId v) const { return loop::value_type(graph().value(v).type.dtype); }

  // ---- analysis ---------------------------------------------------------------------------------

  /// A column product or sum: [narrow] x [wide], the narrow side in scratch.
  struct Column {
    NodeId node = kNone;
    ValueId narrow = kNone;
    ValueId wide = kNone;      ///< an operand; kNone: a sum
    DType type = DType::kF32;  ///< of the sums
    int64_t narrow_width = 1, wide_width = 1;
    bool narrow_first = true;  ///< the result is [narrow, wide], else [wide, narrow]
    loop::Buffer sums;         ///< [task, narrow, wide], rows of whole vectors
    int64_t row() const { return align_up(wide_width, loop::kReductionLanes); }
    int64_t elements() const { return narrow_width * row(); }
  };

  Verdict analyse() {
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      switch (role(id)) {
        case BlockRole::kNone:
          return Verdict::no(std::string(node.op->name) + " is not by rows");
        case BlockRole::kColumnProduct:
        case BlockRole::kColumnSum:
          if (!add_column(id)) return Verdict::no("a column product of two wide values");
          break;
        case BlockRole::kRowwise:
          if (node.op->scalar) weigh(node);
          break;
        case BlockRole::kRowProduct:
          if (!computed(node.inputs[0]) && !width(node.inputs[0]).is_constant())
            return Verdict::no("rows of no fixed width in a product");
          break;
        default:
          break;
      }
    }
    for (ValueId v : graph().outputs)
      if (role(graph().value(v).producer) == BlockRole::kSwap)
        return Verdict::no("swapped rows are an output");
    return Verdict::ok();
  }

  /// Rows dear to compute that a reduction reads and others want too: kept in scratch on the way.
  bool is_kept(ValueId v) const {
    const auto weight = weights_.find(v);
    if (weight == weights_.end() || weight->second <= kRecomputeWeight || is_narrow(width(v)))
      return false;
    const auto reduces = [&](NodeId user) { return graph().node(user).op->reduction.has_value(); };
    return (users_[v].size() > 1 || graph().is_output(v)) &&
           std::any_of(users_[v].begin(), users_[v].end(), reduces);
  }

  /// Does anything that is written after node `now` read v, but through what is kept itself?
  bool read_later(ValueId v, NodeId now, Seen& seen) const {
    if (graph().is_output(v)) return true;
    if (!seen.insert(v).second) return false;
    const auto& order = graph().order();
    const auto position = [&](NodeId n) { return std::find(order.begin(), order.end(), n); };
    return std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId user) {
      const Node& node = graph().node(user);
      if (!node.op->scalar) return position(user) > position(now);
      const ValueId out = node.outputs[0];
      if (is_kept(out)) {  // computed where the first reduction of it stands
        for (NodeId reader : users_[out])
          if (graph().node(reader).op->reduction) return position(reader) > position(now);
      }
      return read_later(out, now, seen);
    });
  }

  /// A table of the same shape that `v` is computed from and nobody reads afterwards.
  std::optional<loop::Buffer> reusable(ValueId v, NodeId now, Seen& seen) const {
    if (!seen.insert(v).second) return std::nullopt;
    for (ValueId in : graph().node(graph().value(v).producer).inputs) {
      if (in == kNone || !computed(in) || !(width(in) == width(v))) continue;
      if (const auto it = tables_.find(in); it != tables_.end()) {
        Seen readers;
        if (value_type(in) == value_type(v) && !read_later(in, now, readers)) return it->second;
      } else if (const auto found = reusable(in, now, seen)) {
        return found;
      }
    }
    return std::nullopt;
  }

  void weigh(const Node& node) {
    double weight = node.op->weight;
    for (ValueId v : node.inputs)
      if (v != kNone && weights_.count(v)) weight += weights_.at(v);
    weights_[node.outputs[0]] = weight;
  }

  bool add_column(NodeId id) {
    const Node& node = graph().node(id);
    Column c;
    c.node = id;
    c.narrow = node.inputs[0];
    if (role(id) == BlockRole::kColumnProduct) {
      const ValueId left = graph().node(graph().value(node.inputs[0]).producer).inputs[0];
      const ValueId right = node.inputs[1];
      c.narrow_first = is_narrow(width(left)) && !computed(right);
      c.narrow = c.narrow_first ? left : right;
      c.wide = c.narrow_first ? right : left;
      if (computed(c.wide) || !width(c.wide).is_constant()) return false;
      c.wide_width = width(c.wide).value();
    }
    if (!is_narrow(width(c.narrow))) return false;
    c.narrow_width = width(c.narrow).value();
    c.type = value_type(node.outputs[0]);
    columns_.push_back(c);
    return true;
  }

  // ---- extents and operands ---------------------------------------------------------------------

  std::optional<OperandDims> find_dim(const Dim& dim) const {
    if (dim.is_constant()) return OperandDims{.factors = {}, .constant = dim.value()};
    for (size_t k = 0; k < spec_.inputs.size() + spec_.outputs.size(); ++k) {
      const Operand& o = operand_at(spec_, k);
      for (size_t a = 0; a < o.dims.size(); ++a)
        if (o.dims[a] == dim)
          return OperandDims{.factors = {{static_cast<uint32_t>(k), static_cast<uint32_t>(a)}}};
    }
    return std::nullopt;
  }
  OperandDims dim_of(const Dim& dim) const {
    const auto found = find_dim(dim);
    if (!found) fail(Status::kUnsupported, "size {} is no dim of an operand", dim.text());
    return *found;
  }
  Expr extent(const Dim& dim) {
    if (dim.is_constant()) return loop::i64(dim.value());
    auto [it, fresh] = extents_.try_emplace(dim.text());
    if (fresh) it->second = access_->extent(dim_of(dim));
    return it->second;
  }

  /// The indices of an operand, or of an output, that is rows or broadcasts to rows.
  std::vector<loop::Index> indices(uint32_t operand, const Affine& row,
                                   const Affine& column) const {
    const Operand& o = operand_at(spec_, operand);
    const size_t batch = space_.batch.size(), lead = batch + 2 - o.dims.size();
    std::vector<loop::Index> out;
    for (size_t a = 0; a < o.dims.size(); ++a) {
      const size_t axis = a + lead;
      if (o.dims[a] == Dim(1))
        out.emplace_back(0);
      else
        out.emplace_back(axis < batch ? batch_[axis] : axis == batch ? row : column);
    }
    return out;
  }
  Expr load(uint32_t operand, const Affine& row, const Affine& column, const Expr& guard = {}) {
    const Operand& o = spec_.inputs[operand];
    if (is_scalar_constant(o)) return literal(o.constant);
    const size_t lead = space_.batch.size() + 2 - o.dims.size();
    const size_t row_axis = space_.batch.size();
    const bool by_row = row_axis >= lead && !(o.dims[row_axis - lead] == Dim(1));
    return access_->whole_buffer(operand)
        .at(indices(operand, row, column))
        .guarded(by_row ? guard : Expr());
  }

  // ---- values -----------------------------------------------------------------------------------

  /// One row (a vector variable or not) of the block, and what is known of it so far.
  struct Row {
    Affine global, lane;
    Expr exists;                                                  ///< absent: it does
    std::unordered_map<ValueId, std::map<int64_t, Expr>> values;  ///< by constant column
    std::unordered_map<ValueId, Expr> current;                    ///< at the loop's column
    bool by_row = false;                                          ///< columns are in lanes
    Seen prepared = {};
  };

  Expr value(Row& row, ValueId v, Affine column) {
    if (width(v) == Dim(1)) column = 0;
    const auto slot = [&]() -> Expr& {
      return column.is_constant() ? row.values[v][column.constant()] : row.current[v];
    };
    if (const Expr& known = slot()) return known;
    Expr e;
    if (const auto it = operand_of_.find(v); it != operand_of_.end()) {
      e = load(it->second, row.global, column, row.exists);
    } else if (graph().value(v).is_constant()) {
      e = expansion_constant(graph().value(v).constant);
    } else if (const auto rows = turned_.find(v); row.by_row && rows != turned_.end()) {
      e = rows->second.at({loop::Index(row.lane), loop::Index(column)});
    } else if (const auto table = tables_.find(v); table != tables_.end()) {
      e = table->second.at({loop::Index(column), loop::Index(row.lane)});
    } else {
      e = compute(row, graph().node(graph().value(v).producer), column);
    }
    return slot() = e;  // looked up again: the maps may have grown meanwhile
  }

  Expr compute(Row& row, const Node& node, const Affine& column) {
    const ValueId out = node.outputs[0];
    const std::string name = "v" + std::to_string(out);
    if (node.op->reduction) {  // of a narrow value: between its columns
      const ValueId in = node.inputs[0];
      Expr folded;
      for (int64_t c = 0; c < width(in).value(); ++c) {
        Expr x = value(row, in, c);
        if (node.op->reduction->pre) x = node.op->reduction->pre(x);
        folded = folded ? combine(node.op->reduction->op, folded, x) : x;
      }
      if (node.op->reduction->post)
        folded = node.op->reduction->post(
            folded, loop::constant(folded.type(), static_cast<double>(width(in).value())));
      return builder_->let(name, folded);
    }
    std::vector<Expr> args;
    for (ValueId v : node.inputs) args.push_back(v == kNone ? Expr() : value(row, v, column));
    return builder_->let(name, scalar_value(node, args, graph().value(out).type.dtype));
  }

  static Expr combine(loop::AccOp op, const Expr& a, const Expr& b) {
    switch (op) {
      case loop::AccOp::kSum:
        return a + b;
      case loop::AccOp::kProd:
        return a * b;
      case loop::AccOp::kMax:
        return loop::max(a, b);
      case loop::AccOp::kMin:
        return loop::min(a, b);
      default:
        fail(Status::kUnsupported, "a reduction that carries an index");
    }
  }

  /// Computes in front of a loop over columns what does not change with the column.
  void prepare(Row& row, ValueId v) {
    if (!computed(v) || tables_.count(v) || !row.prepared.insert(v).second) return;
    for (ValueId in : graph().node(graph().value(v).producer).inputs) {
      if (in == kNone || graph().value(in).is_constant()) continue;
      if (!(width(in) == Dim(1))) {
        prepare(row, in);
        continue;
      }
      const Expr e = value(row, in, 0);
      if (e->op == loop::Op::kLoad) row.values[in][0] = builder_->let("u" + std::to_string(in), e);
    }
  }

  // ---- loops ------------------------------------------------------------------------------------

  Row row_of(Var r) const { return {block_row_ + Affine(r), Affine(r), {}, {}, {}}; }

  /// All rows of the block and what fills their last vector, so many at a time.
  void for_lanes(const std::function<void(Row&)>& body, int lanes = loop::kReductionLanes) {
    builder_->loop(
        "r", loop::i64(0), lanes_,
        [&](Var r) {
          Row row = row_of(r);
          row.exists = loop::lt(loop::loop_var(r), rows_);
          body(row);
        },
        loop::LoopKind::kVector, lanes);
  }
  void for_columns(Row& row, const Dim& width, const std::function<void(const Affine&)>& body) {
    builder_->loop("j", 0, extent(width), [&](Var j) {
      row.current.clear();
      body(Affine(j));
    });
    row.current.clear();
  }

  loop::Buffer& table(ValueId v) {
    const auto [it, fresh] = tables_.try_emplace(v);
    if (fresh)
      it->second = builder_->scratch("t" + std::to_string(v), value_type(v),
                                     extent(width(v)) * loop::i64(block_rows_), {block_rows_, 1});
    return it->second;
  }
  static loop::Element at(const loop::Buffer& table, const Affine& column, const Row& row) {
    return table.at({loop::Index(column), loop::Index(row.lane)});
  }

  /// Puts rows into scratch, columns outermost.
  loop::Buffer& materialise(ValueId v) {
    if (const auto it = tables_.find(v); it != tables_.end()) return it->second;
    const bool narrow = is_narrow(width(v));
    loop::Buffer made;
    for_lanes([&](Row& row) {
      if (narrow) {
        std::vector<Expr> columns;
        for (int64_t c = 0; c < width(v).value(); ++c) columns.push_back(value(row, v, c));
        made = table(v);
        for (int64_t c = 0; c < width(v).value(); ++c)
          builder_->store(at(made, c, row), columns[static_cast<size_t>(c)]);
        return;
      }
      prepare(row, v);
      for_columns(row, width(v), [&](const Affine& j) {
        const Expr e = value(row, v, j);
        made = table(v);
        builder_->store(at(made, j, row), e);
      });
    });
    return tables_.at(v);
  }

  /// A register holds half as many numbers of 8 bytes.
  static int tile_of(DType type, int registers) {
    return type == DType::kF64 ? registers / 2 : registers;
  }

  // ---- products ---------------------------------------------------------------------------------

  bool is_dot(const Node& node) const {
    return !computed(node.inputs[0]) && is_narrow(width(node.outputs[0]));
  }

  /// The shared matrix, its columns one after another: in place, or brought there once per task.
  void stage_matrix(const Node& node) {
    const uint32_t operand = operand_of_.at(node.inputs[1]);
    const Operand& o = spec_.inputs[operand];
    const int64_t depth = width(node.inputs[0]).value();
    const int64_t columns = width(node.outputs[0]).value();
    if (columns == 1 || o.strides[o.strides.size() - 2] == Dim(1) || staged_.count(operand)) return;
    const loop::Buffer copy =
        builder_->scratch("m" + std::to_string(operand), value_type(node.inputs[1]),
                          loop::i64(depth * columns), {depth, 1});
    builder_->loop("c", 0, columns, [&](Var c) {
      builder_->loop(
          "k", loop::i64(0), loop::i64(depth),
          [&](Var k) { builder_->store(copy(c, k), matrix(operand, k, Affine(c))); },
          loop::LoopKind::kVector, 16);
    });
    staged_[operand] = copy;
  }
  Expr matrix(uint32_t operand, const Affine& k, const Affine& column) {
    if (const auto it = staged_.find(operand); it != staged_.end())
      return it->second.at({loop::Index(column), loop::Index(k)});
    return load(operand, k, column);
  }

  void write_dot_product(const Node& node) {
    const uint32_t left = operand_of_.at(node.inputs[0]), right = operand_of_.at(node.inputs[1]);
    const int64_t columns = width(node.outputs[0]).value();
    const loop::Buffer out = table(node.outputs[0]);
    // Whole groups of rows: one past the last reads nothing.
    const int copies = columns <= 2 ? 4 : 2;
    const Expr groups = (rows_ + loop::i64(copies - 1)) / loop::i64(copies);
    builder_->loop("r", loop::i64(0), groups * loop::i64(copies), [&](Var r) {
      const Expr exists = loop::lt(loop::loop_var(r), rows_);
      std::vector<loop::Acc> sums;
      for (int64_t c = 0; c < columns; ++c)
        sums.push_back(builder_->acc("s", loop::AccOp::kDot, value_type(node.outputs[0]),
                                     loop::AccOrder::kLanes16));
      builder_->loop(
          "k", loop::i64(0), extent(width(node.inputs[0])),
          [&](Var k) {
            Expr x = load(left, block_row_ + Affine(r), Affine(k), exists);
            if (columns > 1) x = builder_->let("x", x);
            for (int64_t c = 0; c < columns; ++c)
              builder_->accumulate(sums[static_cast<size_t>(c)], x, matrix(right, k, c));
          },
          loop::LoopKind::kVector, loop::kReductionLanes);
      for (int64_t c = 0; c < columns; ++c)
        builder_->store(out(Affine(c), r), as_stored(sums[static_cast<size_t>(c)].value(),
                                                     stored_type(node.outputs[0])));
      jam_.emplace_back(r, copies);
    });
  }

  void write_lane_product(const Node& node) {
    const loop::Buffer rows = materialise(node.inputs[0]), out = table(node.outputs[0]);
    const Dim depth = width(node.inputs[0]), columns = width(node.outputs[0]);
    const bool is_short = depth.is_constant() && depth.value() <= 2 * kPanelTerms;
    const DType stored = stored_type(node.outputs[0]);  // halves: sums on the way are not rounded
    if (is_short || stored != value_type(node.outputs[0]))
      return write_tiles(node, rows, out, loop::i64(0), extent(depth), false);
    builder_->loop("j", 0, extent(columns), [&](Var j) {
      for_lanes([&](Row& row) {
        builder_->store(at(out, Affine(j), row), loop::constant(out.type(), 0));
      });
    });
    const Expr panels = (extent(depth) + loop::i64(kPanelTerms - 1)) / loop::i64(kPanelTerms);
    builder_->loop("p", loop::i64(0), panels, [&](Var p) {
      const Expr begin = loop::loop_var(p) * loop::i64(kPanelTerms);
      write_tiles(node, rows, out, begin, loop::min(begin + loop::i64(kPanelTerms), extent(depth)),
                  true);
    });
  }

  /// A product's sums over [begin, end), from 0 or added to what is there.
  void write_tiles(const Node& node, const loop::Buffer& rows, const loop::Buffer& out,
                   const Expr& begin, const Expr& end, bool adds) {
    const uint32_t right = operand_of_.at(node.inputs[1]);
    const Dim columns = width(node.outputs[0]);
    const DType type = value_type(node.outputs[0]);
    builder_->loop("j", 0, extent(columns), [&](Var j) {
      for_lanes(
          [&](Row& row) {
            const loop::Element total = at(out, Affine(j), row);
            const loop::Acc sum =
                builder_->acc("s", loop::AccOp::kDot, type, loop::AccOrder::kSequential,
                              adds ? Expr(total) : Expr());
            builder_->loop("k", begin, end, [&](Var k) {
              builder_->accumulate(sum, at(rows, Affine(k), row), matrix(right, k, Affine(j)));
            });
            builder_->store(total, as_stored(sum.value(), stored_type(node.outputs[0])));
          },
          product_lanes_);
      if (multiplies_ && type == DType::kF32 && stored_type(node.inputs[1]) == type &&
          stored_type(node.outputs[0]) == type)
        return;
      const int tile = tile_of(type, tile_columns_);
      const int copies =
          is_narrow(columns) ? static_cast<int>(std::min<int64_t>(columns.value(), tile)) : tile;
      jam_.emplace_back(j, copies);
    });
  }

  /// Is what a value is computed from in scratch, as far as it is by columns?
  bool is_in_tables(ValueId v) const {
    Seen seen;
    return is_in_tables(v, seen);
  }
  bool is_in_tables(ValueId v, Seen& seen) const {
    if (!seen.insert(v).second) return true;
    if (tables_.count(v) || width(v) == Dim(1) || graph().value(v).is_constant()) return true;
    if (!computed(v)) return false;
    const std::vector<ValueId>& inputs = graph().node(graph().value(v).producer).inputs;
    return std::all_of(inputs.begin(), inputs.end(),
                       [&](ValueId in) { return in == kNone || is_in_tables(in, seen); });
  }

  void write_row_reduction(const Node& node) {
    const ValueId in = node.inputs[0], out = node.outputs[0];
    const DType type = value_type(in);
    const bool keep = is_kept(in) && !tables_.count(in);
    Seen seen;
    const auto place = keep ? reusable(in, graph().value(out).producer, seen) : std::nullopt;
    // Two registers side by side do not wait for each other's sums; dear values keep one busy.
    const bool light = !weights_.count(in) || weights_.at(in) <= kRecomputeWeight;
    const int lanes = light && is_in_tables(in) ? product_lanes_ : loop::kReductionLanes;
    const auto write = [&](Row& row) {
      prepare(row, in);
      const loop::Acc acc =
          builder_->acc("a", node.op->reduction->op, type, loop::AccOrder::kSequential);
      for_columns(row, width(in), [&](const Affine& j) {
        Expr x = value(row, in, j);
        if (keep) {
          if (place) tables_.emplace(in, *place);
          builder_->store(at(table(in), j, row), x);
        }
        if (node.op->reduction->pre) x = node.op->reduction->pre(x);
        builder_->accumulate(acc, x);
      });
      Expr e = acc.value();
      if (node.op->reduction->post)
        e = node.op->reduction->post(e, loop::cast(type, extent(width(in))));
      builder_->store(at(table(out), 0, row), as_stored(e, graph().value(out).type.dtype));
    };
    for_lanes(write, lanes);
  }

  // ---- columns ----------------------------------------------------------------------------------

  void clear_columns() {
    for (size_t k = 0; k < columns_.size(); ++k) {
      Column& c = columns_[k];
      c.sums = access_->temp(static_cast<uint32_t>(k), c.type, true, {c.elements(), c.row(), 1});
      builder_->loop(
          "j", 0, c.elements(),
          [&](Var j) { builder_->store(c.sums(*task_, 0, j), loop::constant(c.type, 0)); },
          loop::LoopKind::kVector, 16);
    }
  }

  void write_column(Column& c) {
    if (c.wide == kNone) {
      std::vector<loop::Acc> sums;
      for (int64_t i = 0; i < c.narrow_width; ++i)
        sums.push_back(builder_->acc("s", loop::AccOp::kSum, c.type, loop::AccOrder::kLanes16));
      builder_->loop(
          "r", loop::i64(0), rows_,
          [&](Var r) {
            Row row = row_of(r);
            for (int64_t i = 0; i < c.narrow_width; ++i)
              builder_->accumulate(sums[static_cast<size_t>(i)], value(row, c.narrow, i));
          },
          loop::LoopKind::kVector, loop::kReductionLanes);
      for (int64_t i = 0; i < c.narrow_width; ++i) {
        const loop::Element sum = c.sums(*task_, 0, Affine(i) * c.row());
        builder_->store(sum, Expr(sum) + sums[static_cast<size_t>(i)].value());
      }
      return;
    }
    const loop::Buffer narrow = materialise(c.narrow);
    const uint32_t wide = operand_of_.at(c.wide);
    const auto lanes = [&] {
      for (const int l : {64, 32, 16})
        if (l <= 16 || c.narrow_width * l / 16 <= tile_of(c.type, column_vectors_)) return l;
      return 16;
    }();
    builder_->loop("c", 0, c.narrow_width, [&](Var i) {
      builder_->loop(
          "j", loop::i64(0), loop::i64(c.wide_width),
          [&](Var j) {
            const loop::Element total = c.sums(*task_, i, j);
            const loop::Acc sum = builder_->acc("s", loop::AccOp::kDot, c.type,
                                                loop::AccOrder::kSequential, Expr(total));
            builder_->loop("r", loop::i64(0), rows_, [&](Var r) {
              builder_->accumulate(sum, load(wide, block_row_ + Affine(r), Affine(j)),
                                   narrow(i, r));
            });
            builder_->store(total, sum.value());
          },
          loop::LoopKind::kVector, lanes);
      jam_.emplace_back(i, static_cast<int>(c.narrow_width));
    });
  }

  // ---- phases -----------------------------------------------------------------------------------

  /// Brings what lies in scratch column by column, and `v` is made of, into rows: a copy that
  /// transposes tiles in registers, where walking a row would gather.
  void turn(ValueId v) {
    if (!computed(v) || is_narrow(width(v)) || !width(v).is_constant() || turned_.count(v)) return;
    const auto table = tables_.find(v);
    if (table == tables_.end()) {
      for (ValueId in : graph().node(graph().value(v).producer).inputs)
        if (in != kNone) turn(in);
      return;
    }
    if (loop::value_type(graph().value(v).type.dtype) != DType::kF32) return;
    const int64_t columns = width(v).value();
    const loop::Buffer rows = builder_->scratch("u" + std::to_string(v), DType::kF32,
                                                loop::i64(block_rows_ * columns), {columns, 1});
    for_lanes([&](Row& row) {
      for_columns(row, width(v), [&](const Affine& j) {
        builder_->store(rows.at({loop::Index(row.lane), loop::Index(j)}),
                        at(table->second, j, row));
      });
    });
    turned_[v] = rows;
  }

  void write_output(ValueId v, uint32_t operand) {
    const auto store = [&](Row& row, const Affine& column) {
      builder_->store(access_->whole_buffer(operand).at(indices(operand, row.global, column)),
                      value(row, v, column), row.exists);
    };
    if (is_narrow(width(v))) {
      for_lanes([&](Row& row) {
        for (int64_t c = 0; c < width(v).value(); ++c) store(row, c);
      });
      return;
    }
    turn(v);
    builder_->loop("r", loop::i64(0), rows_, [&](Var r) {
      Row row = row_of(r);
      row.by_row = true;
      prepare(row, v);
      builder_->loop(
          "j", loop::i64(0), extent(width(v)),
          [&](Var j) {
            row.current.clear();
            store(row, Affine(j));
          },
          loop::LoopKind::kVector, 16);
    });
  }

  void write_block(Var block) {
    tables_.clear();
    turned_.clear();
    block_row_ = Affine(block) * block_rows_;
    rows_ = loop::min(loop::i64(block_rows_),
                      extent(space_.rows) - loop::loop_var(block) * loop::i64(block_rows_));
    const Expr vector = loop::i64(loop::kReductionLanes);
    lanes_ = block_rows_ > kBlockRows
                 ? (rows_ + loop::i64(loop::kReductionLanes - 1)) / vector * vector
                 : loop::i64(block_rows_);
    for (NodeId id : graph().order()) {
      const Node& node = graph().node(id);
      switch (role(id)) {
        case BlockRole::kRowProduct:
          is_dot(node) ? write_dot_product(node) : write_lane_product(node);
          break;
        case BlockRole::kRowwise:
          if (node.op->reduction && !is_narrow(width(node.inputs[0]))) write_row_reduction(node);
          break;
        case BlockRole::kColumnProduct:
        case BlockRole::kColumnSum:
          write_column(*std::find_if(columns_.begin(), columns_.end(),
                                     [&](const Column& c) { return c.node == id; }));
          break;
        default:
          break;
      }
    }
    for (uint32_t k = 0; k < graph().outputs.size(); ++k) {
      const ValueId v = graph().outputs[k];
      if (space_.width(dims(v)) && !is_column(v))
        write_output(v, static_cast<uint32_t>(spec_.inputs.size()) + k);
    }
  }
  bool is_column(ValueId v) const {
    const BlockRole r = role(graph().value(v).producer);
    return r == BlockRole::kColumnProduct || r == BlockRole::kColumnSum;
  }

  /// The blocks of [begin, end) with what is done once around them.
  void write_task(const Expr& begin, const Expr& end, const std::optional<Var>& task) {
    staged_.clear();
    task_ = task;
    for (NodeId id : graph().order())
      if (role(id) == BlockRole::kRowProduct && is_dot(graph().node(id)))
        stage_matrix(graph().node(id));
    clear_columns();
    builder_->loop("b", begin, end, [&](Var b) { write_block(b); });
  }

  /// Rows that a product reads along the row and another by columns (X'(Xv)) come from the
  /// first-level cache the second time: 1000 columns of f32 take 0.87 of the time. Products over
  /// lanes want all rows of their tile.
  void choose_block_rows() {
    for (NodeId id : graph().order())
      if (role(id) == BlockRole::kRowProduct && !is_dot(graph().node(id))) {
        block_rows_ = most_rows_;
        return;
      }
    for (const Column& c : columns_) {
      if (c.wide == kNone || users_[c.wide].size() < 2) continue;
      const int64_t row_bytes = checked_mul(c.wide_width, element_size(stored_type(c.wide)));
      while (block_rows_ > kLeastBlockRows && block_rows_ * row_bytes > kBlockBytes)
        block_rows_ /= 2;
    }
  }

  void write_blocks() {
    RegionPhase phase;
    KernelBuilder builder("blocks");
    Access access(builder, spec_, phase);
    builder_ = &builder;
    access_ = &access;
    const Expr blocks = (extent(space_.rows) + loop::i64(block_rows_ - 1)) / loop::i64(block_rows_);
    batch_.assign(space_.batch.size(), Affine(0));
    // The largest batch axis is cut into tasks; without one, the rows are.
    std::vector<size_t> axes;
    for (size_t a = 0; a < space_.batch.size(); ++a)
      if (!(space_.batch[a] == Dim(1))) axes.push_back(a);
    std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) {
      return space_.batch[a].constant().value_or(2) > space_.batch[b].constant().value_or(2);
    });
    const std::function<void(size_t)> nest = [&](size_t depth) {
      if (depth == axes.size()) return write_task(loop::i64(0), blocks, std::nullopt);
      builder.loop(
          "n", loop::i64(0), extent(space_.batch[axes[depth]]),
          [&](Var i) {
            batch_[axes[depth]] = Affine(i);
            nest(depth + 1);
          },
          depth == 0 ? loop::LoopKind::kParallel : loop::LoopKind::kSerial);
    };
    if (axes.empty()) {
      const int64_t kBlocks = kTaskRows / block_rows_;
      builder.loop(
          "n", loop::i64(0), (blocks + loop::i64(kBlocks - 1)) / loop::i64(kBlocks),
          [&](Var task) {
            const Expr begin = loop::loop_var(task) * loop::i64(kBlocks);
            write_task(begin, loop::min(begin + loop::i64(kBlocks), blocks), task);
          },
          loop::LoopKind::kParallel);
    } else {
      nest(0);
    }
    loop::Kernel kernel = builder.finish();
    access.finish();
    for (const auto& [var, copies] : jam_)
      if (copies > 1)
        kernel = loop::jam(std::move(kernel), std::string(kernel.vars[var.id]), copies);
    loop::verify(kernel, loop::Level::kScheduled);
    phase.kernel = std::move(kernel);
    code_.phases.push_back(std::move(phase));
  }

  /// Tells how the tasks' sums become the outputs.
  void add_column_results() {
    for (const Column& c : columns_) {
      const auto position = std::find(graph().outputs.begin(), graph().outputs.end(),
                                      graph().node(c.node).outputs[0]);
      XC_CHECK(position != graph().outputs.end());
      const auto output = static_cast<uint32_t>(position - graph().outputs.begin());
      const auto operand = static_cast<uint32_t>(spec_.inputs.size()) + output;
      const uint32_t axes = static_cast<uint32_t>(spec_.outputs[output].dims.size());
      RegionSum sum;
      sum.temp = static_cast<uint32_t>(code_.temps.size());
      sum.operand = operand;
      sum.dtype = stored_type(graph().node(c.node).outputs[0]);
      const bool swapped = c.wide != kNone && !c.narrow_first;
      const auto axis_of = [&](bool narrow) -> std::optional<uint32_t> {
        if (c.wide == kNone) return narrow ? std::optional(axes - 1) : std::nullopt;
        return axes - (narrow != swapped ? 2 : 1);
      };
      sum.axes = {{{axis_of(true), c.narrow_width, c.row()}, {axis_of(false), c.wide_width, 1}}};
      code_.sums.push_back(sum);
      OperandDims elements = dim_of(space_.rows);
      elements.divisor = kTaskRows;
      elements.multiple = c.elements();
      code_.temps.push_back({c.type, elements, c.elements()});
    }
  }

  const StepSpec& spec_;
  RegionGraph g_;
  RegionCode& code_;
  RowSpace space_;
  const bool multiplies_;  ///< loop::TargetWidth
  // Of row products: rows of a block, columns side by side, rows in lanes; vectors of sums of a
  // column product.
  int most_rows_, tile_columns_, product_lanes_, column_vectors_;
  int block_rows_ = kBlockRows;
  std::unordered_map<ValueId, uint32_t> operand_of_;
  std::vector<std::vector<NodeId>> users_;
  std::unordered_map<ValueId, double> weights_;
  std::vector<Column> columns_;
  // While the first phase is written.
  KernelBuilder* builder_ = nullptr;
  Access* access_ = nullptr;
  std::map<std::string, Expr> extents_;
  std::vector<Affine> batch_;
  std::optional<Var> task_;
  Affine block_row_;
  Expr rows_, lanes_;  ///< of the block; lanes_: whole vectors
  std::unordered_map<ValueId, loop::Buffer> tables_;
  std::unordered_map<ValueId, loop::Buffer> turned_;  ///< of tables_, rows outermost
  std::unordered_map<uint32_t, loop::Buffer> staged_;
  std::vector<std::pair<Var, int>> jam_;
};

}  // namespace

Verdict lower_blocks(const Region& region, const StepSpec& spec, RegionGraph region_graph,
                     const loop::TargetWidth& target, RegionCode& out) {
  return BlockLowering(region, spec, std::move(region_graph), target, out).lower();
}

}  // namespace xc
