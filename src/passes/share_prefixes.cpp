#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "ir/patch.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// A Concat that was seen.
struct Seen {
  size_t axis;
  std::vector<ValueId> parts;
  ValueId result;
};

/// Concats by a hash of axis and parts. Of two alike, or of one hash, the first stays.
class Concats {
 public:
  /// The one along `axis` whose parts begin `parts` and are the most, not all; null for none.
  const Seen* prefix(size_t axis, const std::vector<ValueId>& parts) const {
    const std::vector<uint64_t> hashes = prefix_hashes(axis, parts);
    for (size_t count = parts.size() - 1; count >= 2; --count) {
      const auto it = seen_.find(hashes[count]);
      if (it == seen_.end()) continue;
      const Seen& s = it->second;
      if (s.axis == axis && s.parts.size() == count &&
          std::equal(s.parts.begin(), s.parts.end(), parts.begin()))
        return &s;
    }
    return nullptr;
  }
  void add(Seen concat) {
    const uint64_t hash = prefix_hashes(concat.axis, concat.parts).back();
    seen_.try_emplace(hash, std::move(concat));
  }

 private:
  /// Of the first 0, 1, ... parts.
  static std::vector<uint64_t> prefix_hashes(size_t axis, const std::vector<ValueId>& parts) {
    std::vector<uint64_t> out{axis};
    for (ValueId part : parts) out.push_back(hash_bytes(&part, sizeof part, out.back()).low);
    return out;
  }

  std::unordered_map<uint64_t, Seen> seen_;
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
  Concats seen;
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order) {
    const Node node = graph.node(id);
    if (!is_op(node, "Concat") || node.inputs.size() < 2) continue;
    const auto axis = axis_of(graph, node);
    if (!axis) continue;
    if (const Seen* prefix = seen.prefix(*axis, node.inputs)) {
      Node shorter{.op = node.op, .name = node.name, .attrs = node.attrs};
      shorter.inputs = {prefix->result};
      shorter.inputs.insert(shorter.inputs.end(),
                            node.inputs.begin() + static_cast<ptrdiff_t>(prefix->parts.size()),
                            node.inputs.end());
      put_in_place_of(graph, patch, id, std::move(shorter));
    }
    seen.add({*axis, node.inputs, node.outputs[0]});
  }
  const bool changed = !patch.empty();
  context.count("share-prefixes", static_cast<int64_t>(patch.replaced_count()));
  patch.apply();
  return changed;
}

}  // namespace xc
