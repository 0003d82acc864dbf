// The chain grows node by node, and each time the whole unit is put to the kernels: what they take
// of post-ops depends on those in front and on how the operands lie.
#include "plan/post_ops.h"

#include <algorithm>

#include "ops/is_op.h"
#include "ops/op.h"

namespace xc {
namespace {

constexpr size_t kMaxPostOps = 8;
constexpr size_t kMaxOperands = 4;  ///< of a post-op; a Sum may have thousands, and as many makers

/// An absent operand, or a constant of rank 0: what an elementwise node may have besides the
/// chain's result to be a unary post-op.
bool scalar_constant(const Graph& graph, ValueId v) {
  return v == kNone || (graph.value(v).is_constant() && graph.value(v).constant.count() == 1 &&
                        graph.value(v).constant.rank() == 0);
}

/// Post-ops are computed in the chain's type: may an operand, an exponent, have more digits?
bool is_wider(const Value& operand, DType type) {
  const DType given = operand.type.dtype;
  if (given == type || type == DType::kF64 || element_size(given) <= 2) return false;
  if (!operand.is_constant() || operand.constant.count() != 1) return true;
  const Tensor one = operand.constant.held();
  const double value = load_double(one.data(), one.dtype(), 0);
  return static_cast<float>(value) != value;
}

/// The user's function as the unit's next post-op, and its other operand, if it has one that is a
/// tensor, as the unit's next input. False: it is no function of `result` in the sense of PostOp.
bool append_post_op(const Graph& graph, const Node& user, ValueId result, Unit& unit) {
  if (user.inputs.size() > kMaxOperands) return false;
  PostOp post;
  post.op = user.op;
  post.attrs = user.attrs;
  std::vector<ValueId> others;
  for (ValueId v : user.inputs)
    if (v != result) others.push_back(v);
  if (others.size() + 1 != user.inputs.size()) return false;  // result used twice
  if (user.inputs.size() == 2 && user.inputs[0] != kNone && user.inputs[1] != kNone) {
    post.kind = PostOp::Kind::kBinary;
    post.anchor_first = user.inputs[0] == result;
    post.operand = static_cast<uint32_t>(unit.inputs.size());
    if (!graph.value(others[0]).type.dims) return false;
    if (is_wider(graph.value(others[0]), graph.value(result).type.dtype)) return false;
    unit.inputs.push_back(others[0]);
  } else if (user.inputs[0] == result && std::all_of(others.begin(), others.end(), [&](ValueId v) {
               return scalar_constant(graph, v);
             })) {
    for (ValueId v : others)
      post.constants.push_back(v == kNone ? Tensor() : graph.value(v).constant);
  } else {
    return false;
  }
  unit.post_ops.push_back(std::move(post));
  return true;
}

/// One element of its result for each of the chain's.
bool keeps_shape(const Graph& graph, const Node& user, ValueId result) {
  if (!user.op->scalar || user.outputs.size() != 1) return false;
  const Type &from = graph.value(result).type, &to = graph.value(user.outputs[0]).type;
  return to.dims && *to.dims == *from.dims;
}

bool keeps_type(const Graph& graph, const Node& user, ValueId result) {
  return graph.value(user.outputs[0]).type.dtype == graph.value(result).type.dtype;
}

/// A Cast of f32 to halves: how the chain's result is stored, after which it ends.
bool narrows(const Graph& graph, const Node& user, ValueId result) {
  const DType to = graph.value(user.outputs[0]).type.dtype;
  return is_op(user, "Cast") && graph.value(result).type.dtype == DType::kF32 &&
         loop::value_type(to) == DType::kF32 && to != DType::kF32;
}

}  // namespace

Unit single_unit(const Graph& graph, NodeId node) {
  return {{node}, graph.node(node).inputs, {}, graph.node(node).outputs};
}

Unit with_post_ops(const Graph& graph, const std::vector<std::vector<NodeId>>& users, NodeId anchor,
                   const std::function<bool(NodeId)>& taken,
                   const std::function<bool(const Unit&)>& has_kernel) {
  const Node& node = graph.node(anchor);
  Unit alone = single_unit(graph, anchor);
  const auto outputs_wanted =
      std::count_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v != kNone; });
  if (outputs_wanted != 1 || node.outputs[0] == kNone) return alone;
  Unit unit = alone;
  // Operands of post-ops come after every input the anchor could have.
  if (node.op->max_inputs > 0) unit.inputs.resize(static_cast<size_t>(node.op->max_inputs), kNone);
  ValueId result = node.outputs[0];
  while (unit.post_ops.size() < kMaxPostOps) {
    const NodeId next = graph.only_user(users, result);
    if (next == kNone || taken(next)) break;
    const Node& user = graph.node(next);
    if (!keeps_shape(graph, user, result)) break;
    const bool last = narrows(graph, user, result);
    if (!last && !keeps_type(graph, user, result)) break;
    Unit larger = unit;
    if (!append_post_op(graph, user, result, larger)) break;
    larger.nodes.push_back(next);
    larger.outputs = {user.outputs[0]};
    if (!has_kernel(larger)) break;
    unit = std::move(larger);
    result = user.outputs[0];
    if (last) break;
  }
  return unit.post_ops.empty() ? alone : unit;
}

}  // namespace xc
