// Quantised networks dequantise in front of every operator and quantise behind it, also where the
// operator only moves elements: that is done to the bytes, and where both have one scale and zero
// point, nothing is left of the two.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/patch.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

class Views {
 public:
  Views(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "lift-views") {}

  bool run() {
    for (NodeId id : graph_.order()) lift(id);
    if (patch_.empty())
      for (NodeId id : graph_.order()) cancel(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  bool is_single_constant(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.is_constant() && value.constant.count() == 1;
  }
  /// A QuantizeLinear or DequantizeLinear by one constant scale and zero point.
  bool is_by_one(const Node& node, std::string_view name) const {
    return node.op->domain.empty() && node.op->name == name &&
           node.attrs.get_int("block_size", 0) == 0 &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                       [&](ValueId v) { return v == kNone || is_single_constant(v); });
  }

  /// view(dequantised) of which all is quantised: the view of what was dequantised.
  void lift(NodeId id) {
    const Node& view = graph_.node(id);
    if (!view.op->view || view.outputs.empty() || view.inputs[0] == kNone) return;
    const NodeId producer = graph_.value(view.inputs[0]).producer;
    if (producer == kNone || !is_by_one(graph_.node(producer), "DequantizeLinear")) return;
    for (ValueId out : view.outputs)
      if (out != kNone && (graph_.is_output(out) ||
                           !std::all_of(users_[out].begin(), users_[out].end(), [&](NodeId user) {
                             return is_by_one(graph_.node(user), "QuantizeLinear") &&
                                    graph_.node(user).inputs[0] == out;
                           })))
        return;
    const Node& dequantise = graph_.node(producer);
    // A scale of more axes than what it scales would give it those.
    for (ValueId out : view.outputs)
      if (out != kNone && (!graph_.value(out).type.dims || graph_.value(out).type.dims->empty()))
        return;
    Node moved = view;
    moved.inputs[0] = dequantise.inputs[0];
    moved.outputs.clear();
    const auto now =
        add_typed(graph_, patch_, std::move(moved), static_cast<uint32_t>(view.outputs.size()));
    for (size_t k = 0; k < now.size(); ++k) {
      if (view.outputs[k] == kNone) continue;
      Node again = dequantise;
      again.inputs[0] = now[k];
      again.outputs.clear();
      patch_.replace(view.outputs[k], add_typed(graph_, patch_, std::move(again), 1)[0]);
    }
    patch_.remove(id);
    context_.count("lift-views");
  }

  bool same(const Node& a, const Node& b, size_t k) const {
    const auto at = [&](const Node& node) {
      return k < node.inputs.size() && node.inputs[k] != kNone
                 ? graph_.value(node.inputs[k]).constant
                 : Tensor();
    };
    const Tensor x = at(a), y = at(b);
    if (!x || !y) return !x && !y;
    return x.dtype() == y.dtype() &&
           std::memcmp(x.data(), y.data(), static_cast<size_t>(element_size(x.dtype()))) == 0;
  }

  /// Quantised as it was dequantised: the same number, for a product of 16 bits and a scale of f32
  /// is nearer to itself than half a scale, where it is finite.
  void cancel(NodeId id) {
    const Node& quantise = graph_.node(id);
    if (!is_by_one(quantise, "QuantizeLinear")) return;
    const NodeId producer = graph_.value(quantise.inputs[0]).producer;
    if (producer == kNone || !is_by_one(graph_.node(producer), "DequantizeLinear")) return;
    const Node& dequantise = graph_.node(producer);
    const ValueId from = dequantise.inputs[0], to = quantise.outputs[0];
    const Tensor& scale = graph_.value(quantise.inputs[1]).constant;
    if (scale.dtype() != DType::kF32 ||
        !std::isfinite(*static_cast<const float*>(scale.data()) * 0x1p17f))
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
};

}  // namespace

bool lift_views(Graph& graph, PassContext& context) {
  bool changed = false;
  while (Views(graph, context).run()) changed = true;
  return changed;
}

}  // namespace xc
