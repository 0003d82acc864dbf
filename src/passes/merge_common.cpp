#include <unordered_map>

#include "base/hash.h"
#include "ir/patch.h"
#include "ops/is_op.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Larger constants are merged only when they are the same memory: comparing weights byte by byte
/// at load costs more than the rare copy.
constexpr int64_t kMaxComparedBytes = 64 << 10;

/// Elements of a value that is merged for what they are known to be.
constexpr size_t kMostSizes = 64;

class Merger {
 public:
  Merger(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), patch_(graph, "merge-common") {}

  bool run() {
    now_.resize(graph_.value_count());
    for (ValueId id = 0; id < now_.size(); ++id) now_[id] = id;
    merge_constants();
    for (NodeId id : graph_.order()) visit(id);
    const bool changed = !patch_.empty();
    context_.count("merge-common", static_cast<int64_t>(patch_.replaced_count()));
    patch_.apply();
    return changed;
  }

 private:
  void merge_constants() {
    const std::vector<std::vector<NodeId>> users = graph_.users();
    std::unordered_map<Hash128, ValueId, HashOfHash128> seen;
    for (ValueId id = 0; id < now_.size(); ++id) {
      const Value& value = graph_.value(id);
      if (!value.is_constant() || users[id].empty()) continue;
      const Tensor& t = value.constant;
      std::string key{static_cast<char>(t.dtype())};
      key += to_text(t.dims());
      if (t.byte_size() <= kMaxComparedBytes) {
        key += 'c';
        append_content(key, t);
      } else {
        key += fmt::format("m{} {} {}", static_cast<const void*>(t.buffer().get()), t.byte_offset(),
                           to_text(t.strides()));
      }
      const auto [it, added] = seen.emplace(hash_text(key), id);
      if (!added) merge(id, it->second);
    }
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->random || !node.subgraphs.empty()) return;
    if (merge_sizes(node)) return patch_.remove(id);
    const auto [it, added] = nodes_.emplace(key(node), id);
    if (added) return;
    const Node& first = graph_.node(it->second);
    // What the first does not give, it cannot stand in for.
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone && first.outputs[i] == kNone) return;
    bool kept = false;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNone) kept |= !merge_or_copy(node, node.outputs[i], first.outputs[i]);
    if (!kept) patch_.remove(id);
  }

  /// Whether the node gives one value, of sizes, that another node has given: the shapes of two
  /// values with the same dims, what is computed from either.
  bool merge_sizes(const Node& node) {
    if (node.outputs.size() != 1) return false;
    const ValueId id = node.outputs[0];
    const Value& value = graph_.value(id);
    if (!value.elements || value.elements->size() > kMostSizes || value.is_constant()) return false;
    std::string key = value.type.text();
    for (const Dim& element : *value.elements) key += " " + element.text();
    const auto [it, added] = sizes_.emplace(hash_text(key), id);
    return !added && merge(id, it->second);
  }

  Hash128 key(const Node& node) const {
    std::string out;
    const auto number = [&](uint64_t v) {
      out.append(reinterpret_cast<const char*>(&v), sizeof v);
    };
    number(reinterpret_cast<uintptr_t>(node.op));
    number(node.outputs.size());
    std::vector<ValueId> inputs = node.inputs;
    for (ValueId& input : inputs)
      if (input != kNone) input = now_[input];
    if (node.op->commutative && inputs.size() >= 2 && inputs[0] > inputs[1])
      std::swap(inputs[0], inputs[1]);
    for (ValueId input : inputs) number(input);
    node.attrs.append_key(out);
    return hash_text(out);
  }

  /// A graph output that has to keep a value of its own becomes a copy of the first.
  bool merge_or_copy(const Node& node, ValueId old, ValueId now) {
    if (merge(old, now)) return true;
    if (is_op(node, "Identity") || graph_.value(now).is_constant()) return false;
    patch_.replace(old, add_copy(graph_, patch_, now, node.name));
    return true;
  }

  bool merge(ValueId old, ValueId now) {
    if (!patch_.can_replace(old, now)) return false;
    now_[old] = now;
    patch_.replace(old, now);
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  Patch patch_;
  std::vector<ValueId> now_;
  std::unordered_map<Hash128, NodeId, HashOfHash128> nodes_;
  std::unordered_map<Hash128, ValueId, HashOfHash128> sizes_;  ///< by their elements
};

}  // namespace

bool merge_common(Graph& graph, PassContext& context) {
  return Merger(graph, context).run();
}

}  // namespace xc
