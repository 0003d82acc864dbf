#include <algorithm>
#include <array>

#include "ir/patch.h"
#include "ops/op.h"
#include "passes/passes.h"

namespace xc {
namespace {

/// Operators no backend has a kernel for, because one would be no faster than what they expand to:
/// these, and all of com.microsoft.
constexpr std::array<std::string_view, 4> kExpanded = {"Attention", "CausalConvWithState", "Einsum",
                                                       "RotaryEmbedding"};

bool is_expanded(const OpDef& op) {
  if (!op.expand) return false;
  if (op.domain == "com.microsoft") return true;
  return op.domain.empty() &&
         std::find(kExpanded.begin(), kExpanded.end(), op.name) != kExpanded.end();
}

}  // namespace

bool expand_operators(Graph& graph, PassContext& context) {
  Patch patch(graph, "expand-operators");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_expanded(*node.op)) continue;
    const std::vector<ValueId> outputs = node.op->expand(graph, node, patch);
    if (outputs.empty()) continue;  // not in this form: its reference runs
    const std::vector<ValueId> old = graph.node(id).outputs;
    for (size_t k = 0; k < old.size(); ++k)
      if (old[k] != kNone) patch.replace(old[k], outputs.at(k));
    patch.remove(id);
    context.count("expand-operators");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
