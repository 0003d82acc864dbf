// Judges the nodes of a row-block region one by one, and the life of its values: what a value costs
// to compute again, and whether anybody still wants it at a given place of the execution order.
#include "plan/fusion/block_region.h"

#include <algorithm>

#include "plan/fusion/iteration.h"

namespace xc::fusion {
namespace {

constexpr double kRecomputeWeight = 6;  // additions: above, a value is kept in scratch

}  // namespace

BlockRegion::BlockRegion(const Region& region, const StepSpec& spec, RegionGraph graph)
    : spec_(spec), g_(std::move(graph)), users_(g_.graph.users()) {
  space_.batch.assign(region.space.begin(), region.space.end() - 1);
  space_.rows = region.space.back();
  for (uint32_t k = 0; k < g_.operands.size(); ++k) operand_of_[g_.operands[k]] = k;
}

Verdict BlockRegion::analyse() {
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
        if (node.op->reduction && width(node.inputs[0]) == Dim(0))
          return Verdict::no("a reduction over no columns");
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

BlockRole BlockRegion::role(NodeId id) const {
  const BlockRole found = block_role(graph(), id, space_, classify(graph(), id));
  if (found != BlockRole::kRowProduct) return found;
  // With as many rows as columns swapped rows look like rows.
  const ValueId left = graph().node(id).inputs[0];
  return computed(left) && role(graph().value(left).producer) == BlockRole::kSwap
             ? BlockRole::kColumnProduct
             : found;
}

void BlockRegion::weigh(const Node& node) {
  double weight = node.op->weight;
  for (ValueId v : node.inputs)
    if (v != kNone && weights_.count(v)) weight += weights_.at(v);
  weights_[node.outputs[0]] = weight;
}

bool BlockRegion::add_column(NodeId id) {
  const Node& node = graph().node(id);
  BlockColumn c;
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

bool BlockRegion::may_round(const Node& product) const {
  return rounds_to_bf16(product, spec_.numerics);
}

bool BlockRegion::is_dear(ValueId v) const {
  const auto weight = weights_.find(v);
  return weight != weights_.end() && weight->second > kRecomputeWeight;
}

bool BlockRegion::lies_in_rows(ValueId v) const {
  if (!is_operand(v) || is_narrow(width(v)) || element_size(stored_type(v)) != 4 ||
      value_type(v) != stored_type(v))
    return false;
  const Operand& o = spec_.inputs[operand_of(v)];
  const size_t rank = o.dims.size();
  return rank >= 2 && !(o.dims[rank - 2] == Dim(1)) && !(o.dims[rank - 1] == Dim(1)) &&
         o.strides[rank - 1] == Dim(1) && !(o.strides[rank - 2] == Dim(1));
}

bool BlockRegion::is_kept(ValueId v) const {
  if (!is_dear(v) || is_narrow(width(v))) return false;
  const auto reduces = [&](NodeId user) { return graph().node(user).op->reduction.has_value(); };
  return (users_[v].size() > 1 || graph().is_output(v)) &&
         std::any_of(users_[v].begin(), users_[v].end(), reduces);
}

bool BlockRegion::read_later(ValueId v, NodeId now) const {
  SeenValues seen;
  return read_later(v, now, seen);
}
bool BlockRegion::read_later(ValueId v, NodeId now, SeenValues& seen) const {
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

bool BlockRegion::is_column(ValueId output) const {
  const BlockRole r = role(graph().value(output).producer);
  return r == BlockRole::kColumnProduct || r == BlockRole::kColumnSum;
}

OperandDims BlockRegion::dim_of(const Dim& dim) const {
  if (dim.is_constant()) return {.factors = {}, .constant = dim.value()};
  for (size_t k = 0; k < spec_.inputs.size() + spec_.outputs.size(); ++k) {
    const Operand& o = operand_at(spec_, k);
    for (size_t a = 0; a < o.dims.size(); ++a)
      if (o.dims[a] == dim)
        return {.factors = {{static_cast<uint32_t>(k), static_cast<uint32_t>(a)}}};
  }
  fail(Status::kUnsupported, "size {} is no dim of an operand", dim.text());
}

}  // namespace xc::fusion
