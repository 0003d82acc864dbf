#include <algorithm>
#include <map>
#include <tuple>

#include "ir/patch.h"
#include "ops/support.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// A Concat that was seen.
struct Seen {
  std::vector<ValueId> parts;
  ValueId result;
};

/// The axis counted from the front, where the rank is known.
std::optional<size_t> axis_of(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.outputs[0]).type.dims;
  if (!dims) return std::nullopt;
  return normalise_axis(node.attrs.get_int("axis", 0), dims->size());
}

}  // namespace

bool share_prefixes(Graph& graph, PassContext& context) {
  Patch patch(graph, "share-prefixes");
  // By axis and first two parts: a chain of Concats is one list, the longest last.
  std::map<std::tuple<size_t, ValueId, ValueId>, std::vector<Seen>> seen;
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order) {
    const Node node = graph.node(id);
    if (!node.op->domain.empty() || node.op->name != "Concat" || node.inputs.size() < 2) continue;
    const auto axis = axis_of(graph, node);
    if (!axis) continue;
    std::vector<Seen>& like = seen[{*axis, node.inputs[0], node.inputs[1]}];
    const auto prefix = std::find_if(like.rbegin(), like.rend(), [&](const Seen& s) {
      return s.parts.size() < node.inputs.size() &&
             std::equal(s.parts.begin(), s.parts.end(), node.inputs.begin());
    });
    if (prefix != like.rend()) {
      Node shorter{.op = node.op, .name = node.name, .attrs = node.attrs};
      shorter.inputs = {prefix->result};
      shorter.inputs.insert(shorter.inputs.end(),
                            node.inputs.begin() + static_cast<ptrdiff_t>(prefix->parts.size()),
                            node.inputs.end());
      put_in_place_of(graph, patch, id, std::move(shorter));
    }
    like.push_back({node.inputs, node.outputs[0]});
  }
  const bool changed = !patch.empty();
  context.count("share-prefixes", static_cast<int64_t>(patch.replaced_count()));
  patch.apply();
  return changed;
}

}  // namespace xc
