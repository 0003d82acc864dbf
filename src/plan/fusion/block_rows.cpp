// All lanes are always computed: those past the last row read nothing from memory, under the guard
// of BlockRow::exists. Values are computed where they are read, once per row and column, unless
// somebody has put them into scratch.
#include "plan/fusion/block_rows.h"

namespace xc::fusion {

using loop::Affine;
using loop::Expr;
using loop::Var;

namespace {

// A vector of so few rows costs more than it saves: what it stores, masked, cannot be forwarded to
// the loads that follow at once.
constexpr int kFewestLanes = 4;

Expr combine(loop::AccOp op, const Expr& a, const Expr& b) {
  switch (op) {
    case loop::AccOp::kSum:
      return a + b;
    case loop::AccOp::kProd:
      return a * b;
    case loop::AccOp::kMax:
      return loop::max(a, b);
    case loop::AccOp::kMin:
      return loop::min(a, b);
    case loop::AccOp::kMaxNumber:
      return loop::select(loop::gt(b, a), b, a);
    default:
      fail(Status::kUnsupported, "a reduction that carries an index");
  }
}

}  // namespace

BlockRows::BlockRows(BlockKernel& kernel)
    : kernel_(kernel), region_(kernel.region()), builder_(kernel.builder()) {}

void BlockRows::begin(Var block) {
  tables_.clear();
  turned_.clear();
  const int block_rows = kernel_.tiles().block_rows;
  first_ = Affine(block) * block_rows;
  rows_ = loop::min(loop::i64(block_rows), kernel_.extent(region_.space().rows) -
                                               loop::loop_var(block) * loop::i64(block_rows));
  const Expr vector = loop::i64(loop::kReductionLanes);
  lanes_ = block_rows > kBlockRows
               ? (rows_ + loop::i64(loop::kReductionLanes - 1)) / vector * vector
               : loop::i64(block_rows);
}

// ---- loops --------------------------------------------------------------------------------------

/// A number as a variable, which indices are sums of: a loop of one turn.
void BlockRows::once(const char* name, const Expr& number, const std::function<void(Var)>& body) {
  builder_.loop(name, number, number + loop::i64(1), body);
}

void BlockRows::for_groups(const char* name, int at_once,
                           const std::function<void(const RowOf& row_of, int at_once)>& body) {
  const auto groups = [&](const Expr& begin, const Expr& end, int rows, int64_t step,
                          const Affine& distance) {
    builder_.loop(name, begin, end, [&](Var g) {
      body([&](int q) { return Affine(g) * step + distance * q; }, rows);
    });
  };
  const Expr none = loop::i64(0), together = loop::i64(at_once);
  const Expr whole = rows_ / together;
  if (kernel_.tiles().far_rows)
    once("d", whole, [&](Var d) { groups(none, loop::loop_var(d), at_once, 1, d); });
  else
    groups(none, whole, at_once, at_once, 1);
  groups(whole * together, rows_, 1, 1, 1);
}

void BlockRows::for_pairs(const char* name,
                          const std::function<void(const Affine& row, const Affine& other)>& body) {
  const Expr half = rows_ / loop::i64(2);
  once("d", half, [&](Var d) {
    builder_.loop(name, loop::i64(0), rows_ - loop::loop_var(d),
                  [&](Var r) { body(Affine(r), Affine(r) + Affine(d)); });
  });
}

void BlockRows::for_lanes(const std::function<void(BlockRow&)>& body, int lanes) {
  if (kernel_.tiles().block_rows <= kFewestLanes) {
    builder_.loop("r", loop::i64(0), rows_, [&](Var r) {
      BlockRow row = row_at(r);
      body(row);
    });
    return;
  }
  builder_.loop(
      "r", loop::i64(0), lanes_,
      [&](Var r) {
        BlockRow row = row_at(r);
        row.exists = loop::lt(loop::loop_var(r), rows_);
        body(row);
      },
      loop::LoopKind::kVector, lanes);
}

void BlockRows::for_columns(BlockRow& row, const Dim& width,
                            const std::function<void(const Affine&)>& body) {
  builder_.loop("j", 0, kernel_.extent(width), [&](Var j) {
    row.current.clear();
    body(Affine(j));
  });
  row.current.clear();
}

// ---- values -------------------------------------------------------------------------------------

Expr BlockRows::value(BlockRow& row, ValueId v, Affine column) {
  if (region_.width(v) == Dim(1)) column = 0;
  const auto slot = [&]() -> Expr& {
    return column.is_constant() ? row.values[v][column.constant()] : row.current[v];
  };
  if (const Expr& known = slot()) return known;
  const Value& definition = region_.graph().value(v);
  Expr e;
  if (const loop::Buffer* brought = row.by_row ? nullptr : find_table(v);
      brought && region_.is_operand(v)) {
    e = at(*brought, column, row);
  } else if (region_.is_operand(v)) {
    e = kernel_.load(region_.operand_of(v), row.global, column, row.exists);
  } else if (definition.is_constant()) {
    e = expansion_constant(definition.constant);
  } else if (const auto rows = turned_.find(v); row.by_row && rows != turned_.end()) {
    e = rows->second.at({loop::Index(row.lane), loop::Index(column)});
  } else if (const loop::Buffer* table = find_table(v)) {
    e = at(*table, column, row);
  } else {
    e = compute(row, region_.graph().node(definition.producer), column);
  }
  return slot() = e;  // looked up again: the maps may have grown meanwhile
}

Expr BlockRows::compute(BlockRow& row, const Node& node, const Affine& column) {
  if (node.op->reduction) return reduce_narrow(row, node);
  const ValueId out = node.outputs[0];
  std::vector<Expr> args;
  for (ValueId v : node.inputs) args.push_back(v == kNone ? Expr() : value(row, v, column));
  return builder_.let("v" + std::to_string(out),
                      scalar_value(node, args, region_.stored_type(out)));
}

/// A reduction of a narrow value: between its columns.
Expr BlockRows::reduce_narrow(BlockRow& row, const Node& node) {
  const ValueId in = node.inputs[0];
  const int64_t width = region_.width(in).value();
  const DType type = sum_type(node, region_.stored_type(in));
  Expr folded;
  for (int64_t c = 0; c < width; ++c) {
    Expr x = loop::cast(type, value(row, in, c));
    if (node.op->reduction->pre) x = node.op->reduction->pre(x);
    folded = folded ? combine(node.op->reduction->op, folded, x) : x;
  }
  if (node.op->reduction->post)
    folded =
        node.op->reduction->post(folded, loop::constant(folded.type(), static_cast<double>(width)));
  const ValueId out = node.outputs[0];
  folded = loop::cast(region_.value_type(out), folded);
  return builder_.let("v" + std::to_string(out), as_stored(folded, region_.stored_type(out)));
}

void BlockRows::prepare(BlockRow& row, ValueId v) {
  if (!region_.computed(v) || find_table(v) || !row.prepared.insert(v).second) return;
  const Graph& graph = region_.graph();
  for (ValueId in : graph.node(graph.value(v).producer).inputs) {
    if (in == kNone || graph.value(in).is_constant()) continue;
    if (!(region_.width(in) == Dim(1))) {
      prepare(row, in);
      continue;
    }
    const Expr e = value(row, in, 0);
    if (e->op == loop::Op::kLoad) row.values[in][0] = builder_.let("u" + std::to_string(in), e);
  }
}

// ---- scratch ------------------------------------------------------------------------------------

const loop::Buffer* BlockRows::find_table(ValueId v) const {
  const auto it = tables_.find(v);
  return it == tables_.end() ? nullptr : &it->second;
}

const loop::Buffer& BlockRows::table(ValueId v) {
  const auto [it, fresh] = tables_.try_emplace(v);
  const int block_rows = kernel_.tiles().block_rows;
  if (fresh)
    it->second =
        builder_.scratch("t" + std::to_string(v), region_.value_type(v),
                         kernel_.extent(region_.width(v)) * loop::i64(block_rows), {block_rows, 1});
  return it->second;
}

loop::Element BlockRows::at(const loop::Buffer& table, const Affine& column, const BlockRow& row) {
  return table.at({loop::Index(column), loop::Index(row.lane)});
}

}  // namespace xc::fusion
