// An elementwise function of one value moves in front of the views between it and what gives the
// value: Mul(Transpose(Reshape(x)), s) becomes Transpose(Reshape(Mul(x, s))). It then walks memory
// in order, where it stood it would read along one axis and write along another, and a product
// right in front of it takes it along as a post-op. (A function of an attention's queries and keys,
// and the Casts that widening puts there.)
//
// Not where the views then cost a copy that the function made for free: a Transpose is passed only
// when products, which take any strides, read what comes of it.

#include <algorithm>

#include "ir/patch.h"
#include "ops/op.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

class FunctionHoister {
 public:
  FunctionHoister(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        users_(graph.users()),
        moved_(graph.node_count(), false),
        patch_(graph, "hoist-functions") {}

  /// One round: what stands behind a function that moved has its turn in the next.
  bool run() {
    for (NodeId id : graph_.order())
      if (hoist(id)) context_.count("hoist-functions");
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  struct Chain {
    ValueId base;               ///< what the first view looks at
    std::vector<NodeId> views;  ///< from the function upwards
  };

  /// Whether a function keeps the dims of an argument of these: a number of more axes adds some.
  bool keeps_dims(const Node& function, const std::optional<SymDims>& dims) const {
    return dims && std::all_of(function.inputs.begin(), function.inputs.end(), [&](ValueId v) {
             return v == kNone || !is_number(graph_, v) ||
                    static_cast<size_t>(graph_.value(v).constant.rank()) <= dims->size();
           });
  }

  /// The views between `value` and what gives it, each of them read by the next alone.
  Chain chain(ValueId value, NodeId reader) const {
    Chain out{value, {}};
    while (graph_.only_user(users_, out.base) == reader) {
      const NodeId producer = graph_.value(out.base).producer;
      if (producer == kNone || moved_[producer]) break;
      const Node& view = graph_.node(producer);
      if (!(is_op(view, "Transpose") || is_op(view, "Reshape") || is_op(view, "Squeeze") ||
            is_op(view, "Unsqueeze")))
        break;
      out.views.push_back(producer);
      out.base = view.inputs[0];
      reader = producer;
    }
    return out;
  }

  /// Whether products alone read the value, behind functions of it and other Transposes.
  bool any_strides_do(ValueId value, int reach = 4) const {
    const auto& users = users_[value];
    return reach > 0 && !users.empty() && !graph_.is_output(value) &&
           std::all_of(users.begin(), users.end(), [&](NodeId id) {
             const Node& user = graph_.node(id);
             if (is_product(user)) return true;
             return (is_op(user, "Transpose") || argument_of(graph_, user) == value) &&
                    any_strides_do(user.outputs[0], reach - 1);
           });
  }

  /// Whether a Reshape only adds and removes axes of one element.
  bool adds_units(const Node& reshape) const {
    const auto other_axes = [&](ValueId v) {
      SymDims out;
      for (const Dim& dim : graph_.value(v).type.dims.value_or(SymDims{}))
        if (!(dim == Dim(1))) out.push_back(dim);
      return out;
    };
    return other_axes(reshape.inputs[0]) == other_axes(reshape.outputs[0]);
  }

  /// How many of the views the function passes.
  size_t passed(const Node& node, const Chain& chain) const {
    const bool free = any_strides_do(node.outputs[0]);
    size_t best = 0;
    bool transposed = false;
    for (size_t k = 0; k < chain.views.size(); ++k) {
      const Node& view = graph_.node(chain.views[k]);
      if (is_op(view, "Transpose")) {
        if (!free) break;
        transposed = true;
      }
      const ValueId before = view.inputs[0];
      const NodeId producer = graph_.value(before).producer;
      if (producer == kNone || !keeps_dims(node, graph_.value(before).type.dims)) break;
      // A Reshape of what is transposed copies, wherever the function stands.
      if (is_op(view, "Reshape") && graph_.node(producer).op->view && !adds_units(view)) break;
      const Node& maker = graph_.node(producer);
      const bool joins = !maker.op->view && graph_.only_user(users_, before) == chain.views[k] &&
                         (is_product(maker) || maker.op->scalar);
      if (transposed || joins) best = k + 1;
    }
    return best;
  }

  bool hoist(NodeId id) {
    const ValueId value = argument_of(graph_, graph_.node(id));
    if (value == kNone || !keeps_dims(graph_.node(id), graph_.value(value).type.dims)) return false;
    Chain found = chain(value, id);
    found.views.resize(passed(graph_.node(id), found));
    if (found.views.empty()) return false;
    const ValueId base = graph_.node(found.views.back()).inputs[0];
    Node function = graph_.node(id);
    const ValueId old = function.outputs[0];
    std::replace(function.inputs.begin(), function.inputs.end(), value, base);
    function.outputs.clear();
    ValueId now = add_typed(graph_, patch_, std::move(function), 1)[0];
    for (auto view = found.views.rbegin(); view != found.views.rend(); ++view) {
      Node copy = graph_.node(*view);
      copy.inputs[0] = now;
      copy.outputs.clear();
      now = add_typed(graph_, patch_, std::move(copy), 1)[0];
    }
    if (!graph_.value(now).type.dims) graph_.value(now).type = graph_.value(old).type;
    patch_.replace(old, now);
    patch_.remove(id);
    for (NodeId view : found.views) {
      patch_.remove(view);
      moved_[view] = true;
    }
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> moved_;  ///< by node: replaced in this round
  Patch patch_;
};

}  // namespace

bool hoist_functions(Graph& graph, PassContext& context) {
  constexpr int kRounds = 8;
  bool changed = false;
  for (int round = 0; round < kRounds && FunctionHoister(graph, context).run(); ++round)
    changed = true;
  return changed;
}

}  // namespace xc
