// Quantised networks dequantise in front of every operator and quantise behind it, also where the
// operator only moves elements, or takes the largest of some: that is done to the bytes, and where
// both have one scale and zero point, nothing is left of the two. So are weights turned as bytes
// that a model turns as floats, as PyTorch's exporter writes Linear.

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

class Views {
 public:
  Views(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "lift-views") {}

  bool run() {
    const auto& order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id)
      for (ValueId result : graph_.node(*id).outputs)
        if (result != kNone && is_quantised(result)) quantised_.insert(result);
    for (NodeId id : order) {
      if (!turn_constant(id)) lift(id);
      spread(id);
    }
    if (patch_.empty())
      for (NodeId id : order) cancel(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  /// A QuantizeLinear or DequantizeLinear by one constant scale and zero point.
  bool is_by_one(const Node& node, std::string_view name) const {
    return is_op(node, name) && node.attrs.get_int("block_size", 0) == 0 &&
           node.attrs.get_int("precision", 0) == 0 &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId v) { return v == kNone || scalar_constant(graph_.value(v)); });
  }

  /// Is the result read by QuantizeLinear alone, behind views perhaps? Users are asked before.
  bool is_quantised(ValueId result) const {
    // Of a scalar, scales in a vector of one would make a vector.
    const auto& dims = graph_.value(result).type.dims;
    if (!dims || dims->empty() || graph_.is_output(result)) return false;
    return std::all_of(users_[result].begin(), users_[result].end(), [&](NodeId user) {
      const Node& node = graph_.node(user);
      return node.inputs[0] == result && (is_by_one(node, "QuantizeLinear") || all_quantised(node));
    });
  }
  /// A view or MaxPool of which all is.
  bool all_quantised(const Node& mover) const {
    return (mover.op->view || is_max_pool(mover)) &&
           std::all_of(mover.outputs.begin(), mover.outputs.end(),
                       [&](ValueId out) { return out == kNone || quantised_.contains(out); });
  }
  static bool is_max_pool(const Node& node) {
    return is_op(node, "MaxPool") && node.outputs.size() == 1;
  }
  /// Bytes that are the largest as such are the largest dequantised.
  bool keeps_order(const Node& dequantise) const {
    const DType from = graph_.value(dequantise.inputs[0]).type.dtype;
    const double scale = *scalar_constant(graph_.value(dequantise.inputs[1]));
    return (from == DType::kI8 || from == DType::kU8) && scale > 0 && std::isfinite(scale * 512);
  }

  /// The axis of a view of the same elements that tells apart what `axis` of its operand does.
  std::optional<size_t> axis_behind(const Node& view, const Dims& from, const Dims& to,
                                    size_t axis) const {
    if (is_op(view, "Transpose")) {
      const auto perm = known_permutation(graph_, view);
      if (!perm) return std::nullopt;
      return static_cast<size_t>(std::ranges::find(*perm, axis) - perm->begin());
    }
    const int64_t before = element_count(std::span(from).first(axis));
    for (size_t i = 0; i < to.size(); ++i)
      if (to[i] == from[axis] && element_count(std::span(to).first(i)) == before) return i;
    return std::nullopt;
  }

  /// A constant as a Transpose, or a view that keeps its order, shows it.
  Tensor seen_through(const Node& view, const Tensor& constant, const Dims& to) const {
    if (!is_op(view, "Transpose")) return constant.to_contiguous().reshaped(to);
    if (constant.rank() == 2 && to[0] == constant.dims()[1]) return turned_on_demand(constant);
    const auto perm = known_permutation(graph_, view);
    Dims strides;
    for (const size_t axis : *perm) strides.push_back(constant.strides()[axis]);
    return Tensor(constant.buffer(), constant.byte_offset(), constant.dtype(), to, strides)
        .to_contiguous();
  }

  /// Weights are bytes right behind a DequantizeLinear for the passes that look for them, however
  /// the model turns the floats: the bytes of a constant are turned, once.
  bool turn_constant(NodeId id) {
    const Node& view = graph_.node(id);
    if (!is_op(view, "Transpose") && !is_reshape(view)) return false;
    const NodeId producer = graph_.value(view.inputs[0]).producer;
    const auto& result = graph_.value(view.outputs[0]).type.dims;
    const auto to = result ? to_concrete(*result) : std::nullopt;
    if (producer == kNone || !to || to->empty()) return false;
    Node dequantise = graph_.node(producer);
    if (!is_op(dequantise, "DequantizeLinear") || dequantise.attrs.get_int("block_size", 0) != 0)
      return false;
    const Value& weights = graph_.value(dequantise.inputs[0]);
    const Tensor &bytes = weights.constant, &scale = graph_.value(dequantise.inputs[1]).constant;
    if (!bytes || !scale || bytes.rank() == 0 || bytes.count() == 0 ||
        element_count(*to) != bytes.count() ||
        (bytes.dtype() != DType::kI8 && bytes.dtype() != DType::kU8))
      return false;
    if (scale.count() != 1) {
      const auto rank = static_cast<size_t>(bytes.rank());
      const size_t axis = rank == 1 ? 0 : normalise_axis(dequantise.attrs.get_int("axis", 1), rank);
      const auto now = axis_behind(view, bytes.dims(), *to, axis);
      if (!now) return false;
      dequantise.attrs.set("axis", static_cast<int64_t>(*now));
    }
    const ValueId turned = view.outputs[0];
    const std::string name = weights.name;
    dequantise.inputs[0] = patch_.add_constant(name, seen_through(view, bytes, *to));
    dequantise.outputs.clear();
    patch_.replace(turned, add_typed(graph_, patch_, std::move(dequantise), 1)[0]);
    patch_.remove(id);
    context_.count("lift-views");
    return true;
  }

  /// mover(dequantised) of which all is quantised: that of what was dequantised.
  void lift(NodeId id) {
    const Node& mover = graph_.node(id);
    if (mover.outputs.empty() || !all_quantised(mover) || mover.inputs[0] == kNone) return;
    const NodeId producer = graph_.value(mover.inputs[0]).producer;
    if (producer == kNone || !is_by_one(graph_.node(producer), "DequantizeLinear") ||
        (is_max_pool(mover) && !keeps_order(graph_.node(producer))))
      return;
    const std::vector<ValueId> results = mover.outputs;
    Node dequantise = graph_.node(producer), moved = mover;
    moved.inputs[0] = dequantise.inputs[0];
    moved.outputs.clear();
    dequantise.outputs.clear();
    const auto bytes =
        add_typed(graph_, patch_, std::move(moved), static_cast<uint32_t>(results.size()));
    for (size_t k = 0; k < results.size(); ++k) {
      if (results[k] == kNone) continue;
      dequantise.inputs[0] = bytes[k];
      patch_.replace(results[k], add_typed(graph_, patch_, dequantise, 1)[0]);
    }
    patch_.remove(id);
    context_.count("lift-views");
  }

  /// Concat of what was dequantised, of which all is quantised in one way: so is each part.
  void spread(NodeId id) {
    const Node& quantise = graph_.node(id);
    if (!is_by_one(quantise, "QuantizeLinear")) return;
    const NodeId producer = graph_.value(quantise.inputs[0]).producer;
    if (producer == kNone || graph_.only_user(users_, quantise.inputs[0]) != id) return;
    Node joined = graph_.node(producer);
    if (!is_op(joined, "Concat") ||
        !std::all_of(joined.inputs.begin(), joined.inputs.end(), [&](ValueId part) {
          const NodeId from = graph_.value(part).producer;
          return from != kNone && is_by_one(graph_.node(from), "DequantizeLinear");
        }))
      return;
    const ValueId result = quantise.outputs[0];
    Node each = quantise;
    each.outputs.clear();
    joined.outputs.clear();
    for (ValueId& part : joined.inputs) {
      each.inputs[0] = part;
      part = add_typed(graph_, patch_, each, 1)[0];
    }
    patch_.replace(result, add_typed(graph_, patch_, std::move(joined), 1)[0]);
    patch_.remove(id);
    context_.count("lift-views");
  }

  /// Have both (by one) the same constant at input k, or none?
  bool same(const Node& a, const Node& b, size_t k) const {
    const auto at = [&](const Node& node) {
      return k < node.inputs.size() ? node.inputs[k] : kNone;
    };
    if (at(a) == kNone || at(b) == kNone) return at(a) == at(b);
    const Value &x = graph_.value(at(a)), &y = graph_.value(at(b));
    return x.type.dtype == y.type.dtype && scalar_constant(x) == scalar_constant(y);
  }

  /// Quantised as it was dequantised: the same number, for a product of 16 bits and a scale, in
  /// f32, is nearer to itself than half a scale, where it is finite. Floats of a few bits are left
  /// alone: infinities saturate, and fractions of a tiny scale are no longer told apart.
  void cancel(NodeId id) {
    const Node& quantise = graph_.node(id);
    if (!is_by_one(quantise, "QuantizeLinear")) return;
    const Value& between = graph_.value(quantise.inputs[0]);
    if (between.producer == kNone) return;
    const Node& dequantise = graph_.node(between.producer);
    if (!is_by_one(dequantise, "DequantizeLinear")) return;
    const ValueId from = dequantise.inputs[0], to = quantise.outputs[0];
    const Value& scale = graph_.value(quantise.inputs[1]);
    if (!is_integer(graph_.value(from).type.dtype) || between.type.dtype != DType::kF32 ||
        scale.type.dtype != DType::kF32 ||
        !std::isfinite(static_cast<float>(*scalar_constant(scale) * 0x1p17)))
      return;
    if (!same(quantise, dequantise, 1) || !same(quantise, dequantise, 2) ||
        graph_.value(from).type.dtype != graph_.value(to).type.dtype ||
        !(graph_.value(from).type.dims == graph_.value(to).type.dims) ||
        !patch_.can_replace(to, from))
      return;
    patch_.replace(to, from);
    patch_.remove(id);
    context_.count("lift-views");
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
  std::unordered_set<ValueId> quantised_;  ///< of all that reads them
};

constexpr int kMostSweeps = 16;  ///< a view goes in front of one DequantizeLinear in each

}  // namespace

bool lift_views(Graph& graph, PassContext& context) {
  int sweeps = 0;
  while (sweeps < kMostSweeps && Views(graph, context).run()) ++sweeps;
  return sweeps > 0;
}

}  // namespace xc
