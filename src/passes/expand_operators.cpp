#include <algorithm>
#include <array>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/node_tests.h"
#include "passes/passes.h"

namespace xc {
namespace {

/// Operators no backend has a kernel for, because one would be no faster than what they expand to
/// (of DFT that depends on its length, which its expansion knows): these, all of com.microsoft and
/// ai.onnx.ml that expand, and BatchNormalization that trains.
constexpr std::array<std::string_view, 12> kExpanded = {"Attention",
                                                        "CausalConvWithState",
                                                        "DFT",
                                                        "Einsum",
                                                        "GlobalLpPool",
                                                        "Hardmax",
                                                        "LRN",
                                                        "LpPool",
                                                        "MeanVarianceNormalization",
                                                        "ReduceLogSumExp",
                                                        "RotaryEmbedding",
                                                        "STFT"};

bool is_expanded(const Node& node) {
  const OpDef& op = *node.op;
  if (!op.expand) return false;
  if (op.domain == "com.microsoft" || op.domain == "ai.onnx.ml") return true;
  if (op.name == "BatchNormalization") return node.attrs.get_int("training_mode", 0) != 0;
  return op.domain.empty() &&
         std::find(kExpanded.begin(), kExpanded.end(), op.name) != kExpanded.end();
}

}  // namespace

bool expand_operators(Graph& graph, PassContext& context) {
  Patch patch(graph, "expand-operators");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_expanded(node) || !have_types(graph, node.inputs)) continue;
    const std::vector<ValueId> outputs = node.op->expand(graph, node, patch);
    if (outputs.empty()) continue;  // not in this form: its reference runs
    const std::vector<ValueId> old = graph.node(id).outputs;
    const bool proven = sizes_are_proven(graph, node) || accepts_any_sizes(graph, node);
    std::unordered_set<ValueId> given;
    for (size_t k = 0; k < old.size(); ++k) {
      if (old[k] == kNone) continue;
      ValueId now = outputs.at(k);
      // An input handed on, or one value as two results, keeps its name: a graph output needs its
      // own.
      const bool named = graph.value(now).is_input || graph.value(now).is_constant();
      if (graph.is_output(old[k]) && (named || !given.insert(now).second))
        now = patch.add_node(get_op("Identity"), {now}, 1).front();
      patch.replace(old[k], now);
    }
    if (proven)
      patch.remove(id);
    else
      patch.supersede(id);
    context.count("expand-operators");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
