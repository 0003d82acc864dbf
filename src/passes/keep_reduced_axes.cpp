// Reductions that drop their axes, which come back as axes of one element behind functions of what
// they gave, keep them: `(x - x.mean(1)[:, None]) / x.std(1)[:, None]`, as numeric programs have
// it. Rows and what is computed once per row then have one iteration space, and fuse.
#include <unordered_map>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/op.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Functions between reductions and where the axes come back: more are left as they are.
constexpr size_t kMostValues = 64;

class AxesKeeper {
 public:
  explicit AxesKeeper(Graph& graph)
      : graph_(graph), patch_(graph, "keep-reduced-axes"), users_(graph.users()) {}

  bool run() {
    for (NodeId id : std::vector<NodeId>(graph_.order()))
      if (brings_axes_back(id) && !done_.count(graph_.node(id).outputs[0])) keep_behind(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  const SymDims& dims(ValueId v) const { return *graph_.value(v).type.dims; }

  /// An Unsqueeze, or a Reshape that does nothing else.
  bool brings_axes_back(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_op(node, "Unsqueeze") && !is_op(node, "Reshape")) return false;
    const Value &from = graph_.value(node.inputs[0]), &to = graph_.value(node.outputs[0]);
    if (to.elements || from.is_constant() || !always_fits(graph_, node)) return false;
    size_t at = 0;  // of what stands between the ones
    for (const Dim& dim : *to.type.dims) {
      if (at < from.type.dims->size() && dim == (*from.type.dims)[at])
        ++at;
      else if (!(dim == Dim(1)))
        return false;
    }
    return at == from.type.dims->size() && at < to.type.dims->size();
  }

  /// The reduction with its axes kept, where those are the dims that come back.
  std::optional<Node> keeping(const Node& node, const SymDims& wanted) const {
    if (!node.op->reduction || !node.op->domain.empty() || node.outputs.size() != 1 ||
        node.attrs.get_int("keepdims", 1) != 0)
      return std::nullopt;
    Node now{.op = node.op, .inputs = node.inputs};
    now.attrs = node.attrs;
    now.attrs.set("keepdims", int64_t{1});
    now.outputs.assign(1, kNone);
    const auto inferred = infer_node(graph_, now);
    if (!inferred || inferred->types[0].dims != wanted) return std::nullopt;
    now.outputs.clear();
    now.name = node.name;
    return now;
  }

  /// What comes back at one place.
  struct Cone {
    NodeId back = kNone;
    SymDims wanted = {};
    std::unordered_map<ValueId, ValueId> made = {};  ///< values in front of it, with their axes
    std::vector<NodeId> others = {};                 ///< nodes that bring the same axes back
    bool reduces = false;
  };

  /// Do all readers of a value belong to the cone, or bring the same axes back?
  bool stays_inside(Cone& cone, ValueId v, const std::unordered_set<ValueId>& inside) const {
    if (graph_.is_output(v)) return false;
    for (NodeId user : users_[v]) {
      const Node& node = graph_.node(user);
      if (user == cone.back || inside.count(node.outputs[0])) continue;
      if (!brings_axes_back(user) || dims(node.outputs[0]) != cone.wanted) return false;
      cone.others.push_back(user);
    }
    return true;
  }

  void keep_behind(NodeId back) {
    Cone cone{.back = back, .wanted = dims(graph_.node(back).outputs[0])};
    const ValueId end = graph_.node(back).inputs[0];
    std::unordered_set<ValueId> inside;  // made by reductions and functions there
    std::vector<ValueId> order;          // those, readers first
    if (!collect(cone, end, dims(end), inside, order)) return;
    if (!cone.reduces) return;
    for (ValueId v : order)
      if (!stays_inside(cone, v, inside)) return;
    for (size_t k = order.size(); k-- > 0;) make(cone, order[k]);
    finish(cone, back);
    for (NodeId other : cone.others) finish(cone, other);
  }

  /// Everything in front of `v` whose dims are `rows`, readers in front of what they read.
  bool collect(Cone& cone, ValueId end, const SymDims& rows, std::unordered_set<ValueId>& inside,
               std::vector<ValueId>& order) {
    std::vector<ValueId> pending{end};
    std::unordered_set<ValueId> seen{end};
    while (!pending.empty()) {
      const ValueId v = pending.back();
      pending.pop_back();
      const NodeId producer = graph_.value(v).producer;
      if (producer == kNone || done_.count(v)) return false;
      const Node& node = graph_.node(producer);
      if (keeping(node, cone.wanted)) {
        cone.reduces = true;
      } else {
        if (!node.op->scalar || node.outputs.size() != 1 || graph_.value(v).elements) return false;
        for (ValueId in : node.inputs) {
          if (in == kNone || is_number(graph_, in)) continue;
          if (!graph_.value(in).type.dims || dims(in) != rows) return false;
          if (seen.insert(in).second) pending.push_back(in);
        }
      }
      inside.insert(v);
      if (inside.size() > kMostValues) return false;
    }
    // In the graph's order from behind.
    const auto& nodes = graph_.order();
    for (size_t k = nodes.size(); k-- > 0;) {
      const Node& node = graph_.node(nodes[k]);
      if (!node.outputs.empty() && node.outputs[0] != kNone && inside.count(node.outputs[0]))
        order.push_back(node.outputs[0]);
    }
    return true;
  }

  void make(Cone& cone, ValueId v) {
    const Node& node = graph_.node(graph_.value(v).producer);
    std::optional<Node> now = keeping(node, cone.wanted);
    if (!now) {
      now = Node{.op = node.op, .name = node.name, .inputs = node.inputs};
      now->attrs = node.attrs;
      for (ValueId& in : now->inputs)
        if (const auto it = cone.made.find(in); it != cone.made.end()) in = it->second;
    }
    cone.made[v] = add_typed(graph_, patch_, std::move(*now), 1)[0];
  }

  void finish(const Cone& cone, NodeId back) {
    const ValueId old = graph_.node(back).outputs[0],
                  now = cone.made.at(graph_.node(back).inputs[0]);
    if (!done_.insert(old).second || !patch_.can_replace(old, now)) return;
    patch_.replace(old, now);
  }

  Graph& graph_;
  Patch patch_;
  const std::vector<std::vector<NodeId>> users_;  ///< before the patch
  std::unordered_set<ValueId> done_;              ///< values that were replaced
};

}  // namespace

bool keep_reduced_axes(Graph& graph, PassContext& context) {
  (void)context;
  return AxesKeeper(graph).run();
}

}  // namespace xc
