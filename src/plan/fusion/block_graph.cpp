// Rewrites that pay only where the rows of a region are walked in blocks, so they are no passes of
// the pipeline: they change what is computed between the products, never what is read or written.
#include "plan/fusion/block_graph.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "ir/patch.h"
#include "ops/infer.h"
#include "ops/is_op.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "plan/fusion/blocks.h"

namespace xc::fusion {
namespace {

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

const Node* made_by(const Graph& graph, ValueId v) {
  const NodeId producer = v == kNone ? kNone : graph.value(v).producer;
  return producer == kNone ? nullptr : &graph.node(producer);
}

/// Is `v` the reduction of each row of `rows` by itself, one number per row?
bool reduces_rows(const Graph& graph, ValueId v, std::string_view reduction, ValueId rows) {
  const Node* node = made_by(graph, v);
  if (!node || node->op->name != reduction || node->inputs[0] != rows) return false;
  SymDims dims = *graph.value(rows).type.dims;
  dims.back() = Dim(1);
  return *graph.value(v).type.dims == dims;
}

bool takes_maxima(const Graph& graph, ValueId v, ValueId rows) {
  return reduces_rows(graph, v, "ReduceMax", rows) ||
         reduces_rows(graph, v, "ReduceMaxNumber", rows);
}

/// exp(x - m), m the largest x of the row: numbers from 0 to 1, and in every row a 1.
bool is_stable_power(const Graph& graph, ValueId v) {
  const Node* power = made_by(graph, v);
  if (!power || (power->op->name != "Exp" && power->op->name != "ExpNormal")) return false;
  const Node* shifted = made_by(graph, power->inputs[0]);
  if (!shifted) return false;
  if (shifted->op->name == "Sub")
    return takes_maxima(graph, shifted->inputs[1], shifted->inputs[0]);
  if (shifted->op->name != "Add") return false;
  for (const size_t side : {0, 1})
    if (const Node* negative = made_by(graph, shifted->inputs[side]);
        negative && negative->op->name == "Neg" &&
        takes_maxima(graph, negative->inputs[0], shifted->inputs[1 - side]))
      return true;
  return false;
}

bool is_one(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  return value.is_constant() && value.constant.count() == 1 &&
         load_double(value.constant.data(), value.constant.dtype(), 0) == 1;
}

/// The sums of `rows` where multiplying by `scale`, or dividing where it is a quotient's, divides
/// by them; else kNone.
ValueId sums_divided_by(const Graph& graph, ValueId scale, bool quotient, ValueId rows) {
  ValueId sums = quotient ? scale : kNone;
  if (const Node* inverse = quotient ? nullptr : made_by(graph, scale)) {
    if (inverse->op->name == "Reciprocal") sums = inverse->inputs[0];
    if (inverse->op->name == "Div" && is_one(graph, inverse->inputs[0])) sums = inverse->inputs[1];
  }
  return sums != kNone && reduces_rows(graph, sums, "ReduceSum", rows) ? sums : kNone;
}

/// `scale`, made of sums, with a number for rows of no elements, whose sums are 0. No other sum is
/// below 1, or 1 - 2^-11 where exp is that far off: no bit of theirs changes, and NaN stays.
ValueId scale_of_any_rows(const Graph& graph, Patch& patch, ValueId scale, ValueId sums) {
  Tensor half(graph.value(sums).type.dtype, {});
  store_double(half.data(), half.dtype(), 0, 0.5);
  const ValueId least = patch.add_constant("least_sum", std::move(half));
  const ValueId divisor = patch.add_node(get_op("Max"), {sums, least}, 1)[0];
  if (scale == sums) return divisor;
  const Node& inverse = *made_by(graph, scale);
  std::vector<ValueId> inputs = inverse.inputs;
  std::replace(inputs.begin(), inputs.end(), sums, divisor);
  return patch.add_node(*inverse.op, std::move(inputs), 1, inverse.attrs)[0];
}

/// Rows divided by their sums, only to be multiplied by a matrix W: the product's columns are
/// divided instead, which are fewer, and no pass over the rows is left.
///
/// Only rows of a softmax that subtracts the maximum. Those are numbers e from 0 to 1 with a 1
/// among them, their sum s is from 1 to the row's length: no term e w is larger than an element of
/// W, and none is smaller than the (e / s) w that the model adds up. So the product without its
/// divisor overflows only where W is within a row's length of the largest number there is, and
/// loses nothing to underflow. Other rows have no such bound: exp(80) by its sum is fit to be
/// multiplied by 300, exp(80) is not. Of halves, whose products are rounded to 65504 at most, none
/// has. A row may have no element at all: the model divides nothing then, its product is 0, and so
/// is what is divided here by something else than the sum.
void divide_after_products(Graph& graph) {
  const auto users = graph.users();
  Patch patch(graph, "divide-after-product");
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    const Node& product = graph.node(id);
    if (!is_op(product, "MatMul") ||
        !loop::is_value_type(graph.value(product.outputs[0]).type.dtype))
      continue;
    const NodeId left = graph.value(product.inputs[0]).producer;
    if (left == kNone) continue;
    const Node& scaled = graph.node(left);
    const int side = row_scalar_side(graph, scaled);
    if (side < 0 || graph.only_user(users, scaled.outputs[0]) == kNone) continue;
    const ValueId scale = scaled.inputs[static_cast<size_t>(side)];
    const ValueId rows = scaled.inputs[static_cast<size_t>(1 - side)];
    if (!is_stable_power(graph, rows)) continue;
    const ValueId sums = sums_divided_by(graph, scale, scaled.op->name == "Div", rows);
    if (sums == kNone) continue;
    const bool has_elements = graph.value(rows).type.dims->back().lower_bound().value_or(0) >= 1;
    const ValueId by = has_elements ? scale : scale_of_any_rows(graph, patch, scale, sums);
    const auto first = patch.add_node(*product.op, {rows, product.inputs[1]}, 1, product.attrs);
    const auto then = patch.add_node(*scaled.op, {first[0], by}, 1);
    patch.replace(product.outputs[0], then[0]);
    patch.remove(id);
    patch.remove(left);
    if (by != scale && scale != sums && graph.only_user(users, scale) != kNone)
      patch.remove(graph.value(scale).producer);
  }
  if (patch.empty()) return;
  patch.apply();
  infer_types(graph);
}

/// By results of Casts that widen an operand, and of Transposes of those: what they are made of.
using Halves = std::unordered_map<ValueId, ValueId>;

Halves widened_operands(const Graph& graph) {
  Halves halves;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (is_widening_cast(graph, node) && graph.value(node.inputs[0]).producer == kNone)
      halves[node.outputs[0]] = node.inputs[0];
  }
  return halves;
}

void remove_unused_casts(Graph& graph, Patch& patch, const Halves& halves) {
  const auto users = graph.users();
  for (const auto& [wide, half] : halves)
    if (const NodeId cast = graph.value(wide).producer;
        cast != kNone && is_widening_cast(graph, graph.node(cast)) && users[wide].empty() &&
        !graph.is_output(wide))
      patch.remove(cast);
  patch.apply();
}

/// Operands that are widened are read as they lie: an element of any type is f32 once it is loaded.
void read_halves(Graph& graph) {
  Patch patch(graph, "read-halves");
  Halves halves = widened_operands(graph);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const bool transposed = node.op->name == "Transpose";
    std::vector<ValueId> inputs = node.inputs;
    if (!transposed && !is_op(node, "MatMul") && !node.op->scalar) continue;
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
  remove_unused_casts(graph, patch, halves);
}

}  // namespace

bool prepare_block_graph(Graph& graph) {
  if (!expand_composites(graph, true)) return false;
  divide_after_products(graph);
  read_halves(graph);
  return true;
}

}  // namespace xc::fusion
