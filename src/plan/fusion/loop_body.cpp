#include "plan/fusion/loop_body.h"

namespace xc::fusion {

using loop::Expr;

loop::Acc accumulator(const LoopRegion& region, loop::KernelBuilder& builder,
                      const std::string& name, NodeId reduction, loop::AccOrder order) {
  return builder.acc(name, region.graph().node(reduction).op->reduction->op,
                     region.acc_type(reduction), order);
}

void LoopBody::enter(LoopPoint point) {
  point_ = std::move(point);
  known_.clear();
}

void LoopBody::set_piece(ValueId split, std::optional<uint32_t> piece) {
  split_ = split;
  piece_ = piece;
}

Expr LoopBody::value(ValueId v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  Expr e;
  if (const auto input = region_.input_of(v)) {
    e = load(*input);
  } else if (region_.mapped().has(v)) {
    e = region_.mapped().value(v, {access_, axes_, point_.at, v == split_ ? piece_ : std::nullopt});
  } else if (region_.graph().value(v).is_constant()) {
    e = expansion_constant(region_.graph().value(v).constant);
  } else if (const auto row = of_row_.find(v); row != of_row_.end()) {
    e = row->second;
  } else if (const StagedValue* staged = region_.find(v);
             staged->full && staged->kept && staged->stage < point_.stage) {
    e = kept(v);
  } else {
    e = apply(region_.producer(v));
  }
  known_.emplace(v, e);
  return e;
}

Expr LoopBody::apply(const Node& node) {
  std::vector<Expr> args;
  for (ValueId v : node.inputs) args.push_back(v == kNone ? Expr() : value(v));
  return scalar_value(node, args, region_.graph().value(node.outputs[0]).type.dtype);
}

Expr LoopBody::load(uint32_t input) {
  const Operand& o = region_.spec().inputs[input];
  if (is_scalar_constant(o)) return literal(o.constant);
  if (const auto tile = tiles_.find(input); tile != tiles_.end()) return tile->second.at(in_tile_);
  return access_.buffer(input, axes_).at(point_.at);
}

void LoopBody::accumulate(NodeId reduction, const loop::Acc& acc) {
  const Node& node = region_.graph().node(reduction);
  Expr x = loop::cast(region_.acc_type(reduction), value(node.inputs[0]));
  if (node.op->reduction->pre) x = node.op->reduction->pre(x);
  builder_.accumulate(acc, x);
}

void LoopBody::store(ValueId v) {
  const Expr e = value(v);
  if (const StagedValue* staged = region_.find(v); staged && staged->kept)
    builder_.store(kept(v), e);
  put_out(v, e);
}

void LoopBody::define(ValueId v, const Expr& e) {
  const Expr reg = builder_.let("v" + std::to_string(v), e);
  of_row_[v] = reg;
  known_[v] = reg;
  put_out(v, reg);
}

void LoopBody::put_out(ValueId v, const Expr& e) {
  for (uint32_t operand : region_.outputs_of(v))
    builder_.store(access_.buffer(operand, axes_).at(point_.at), e);
}

void LoopBody::begin_row(const Expr& columns, int64_t rows) {
  of_row_.clear();
  for (NodeId id : region_.graph().order()) {
    const ValueId v = region_.graph().node(id).outputs[0];
    const StagedValue* staged = region_.find(v);
    if (!staged || !staged->kept) continue;
    const std::string name = "r" + std::to_string(v);
    const DType type = loop::value_type(region_.graph().value(v).type.dtype);
    kept_[v] = lane_ ? builder_.scratch(name, type, columns * loop::i64(rows), {rows, 1})
                     : builder_.scratch(name, type, columns);
  }
}

/// The place of a value that later passes read.
loop::Element LoopBody::kept(ValueId v) const {
  const loop::Index& column = *point_.column;
  return lane_ ? kept_.at(v).at({column, *lane_}) : kept_.at(v).at({column});
}

}  // namespace xc::fusion
