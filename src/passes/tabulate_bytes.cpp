// What is computed from one byte per element, alone and with constants, has 256 results: where it
// ends in a byte, it is a table. Quantised networks are full of it (every activation between
// QuantizeLinear and DequantizeLinear), and one lookup takes the place of the whole chain.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

constexpr int64_t kBytes = 256;
constexpr size_t kFewestNodes = 2;  ///< that a table replaces
constexpr size_t kMostCopies = 16;  ///< of each node, on average

bool is_byte(DType type) {
  return type == DType::kU8 || type == DType::kI8;
}

class Tables {
 public:
  Tables(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "tabulate-bytes") {}

  bool run() {
    for (NodeId id : graph_.order()) {
      position_[id] = position_.size();
      derive(id);
    }
    const auto& order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) find_escape(*id);
    for (NodeId id : graph_.order())
      if (const Node& node = graph_.node(id); node.outputs.size() == 1) tabulate(node.outputs[0]);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  /// Does the node compute each element of its result from that of its inputs alone?
  static bool is_elementwise(const Node& node) {
    if (node.op->random || node.op->control_flow || node.outputs.size() != 1 ||
        node.outputs[0] == kNone || node.attrs.get_int("block_size", 0) != 0)
      return false;
    const bool standard = node.op->domain.empty();
    return node.op->scalar ||
           (standard && (node.op->name == "QuantizeLinear" || node.op->name == "DequantizeLinear"));
  }

  /// Has input k one element whatever dims the first one has? A byte of rank 0 may be read there,
  /// all bytes may not.
  static bool is_single(const Node& node, size_t k) {
    const std::string_view name = node.op->name;
    return k > 0 && node.op->domain.empty() &&
           (name == "Clip" || name == "QuantizeLinear" || name == "DequantizeLinear");
  }

  /// The bytes a result is computed from, which have its dims.
  void derive(NodeId id) {
    const Node& node = graph_.node(id);
    if (!is_elementwise(node)) return;
    ValueId root = kNone;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId in = node.inputs[k];
      if (in == kNone || scalar_constant(graph_.value(in))) continue;
      if (is_single(node, k)) return;
      const Value& value = graph_.value(in);
      const auto known = root_.find(in);
      const ValueId from = known != root_.end() ? known->second : in;
      const bool bytes = value.type.kind == Type::Kind::kTensor && is_byte(value.type.dtype);
      if (value.is_constant() || (known == root_.end() && !bytes)) return;
      if (root != kNone && root != from) return;
      root = from;
    }
    if (root == kNone) return;
    const Type &given = graph_.value(root).type, &made = graph_.value(node.outputs[0]).type;
    if (given.dims && made.kind == Type::Kind::kTensor && made.dims && *given.dims == *made.dims)
      root_[node.outputs[0]] = root;
  }

  /// Is the result read by what is no table, but through bytes that might be one? Users are asked
  /// before.
  void find_escape(NodeId id) {
    if (graph_.node(id).outputs.size() != 1) return;
    const ValueId result = graph_.node(id).outputs[0];
    const auto root = root_.find(result);
    if (root == root_.end()) return;
    const auto reads_on = [&](NodeId user) {
      const Node& node = graph_.node(user);
      const ValueId out = node.outputs.empty() ? kNone : node.outputs[0];
      const auto known = out == kNone ? root_.end() : root_.find(out);
      if (known == root_.end() || known->second != root->second) return true;
      return !is_byte(graph_.value(out).type.dtype) && escapes_.contains(out);
    };
    if (graph_.is_output(result) ||
        std::any_of(users_[result].begin(), users_[result].end(), reads_on))
      escapes_.insert(result);
  }

  void tabulate(ValueId result) {
    const auto known = root_.find(result);
    if (known == root_.end() || !is_byte(graph_.value(result).type.dtype) ||
        !escapes_.contains(result))
      return;
    // Chains that share their beginning are copied from there on for every end.
    if (walked_ > kMostCopies * position_.size()) return;
    const ValueId root = known->second;
    const std::vector<NodeId> chain = between(root, result);
    walked_ += chain.size();
    if (chain.size() < kFewestNodes) return;
    // The same of all bytes there are, which folds.
    const Type& type = graph_.value(root).type;
    Dims dims(std::max<size_t>(type.dims->size(), 1), 1);
    dims.back() = kBytes;
    Tensor all(type.dtype, dims);
    for (int64_t i = 0; i < kBytes; ++i) all.as<uint8_t>()[i] = static_cast<uint8_t>(i);
    std::unordered_map<ValueId, ValueId> now{{root, patch_.add_constant("bytes", std::move(all))}};
    for (NodeId id : chain) {
      Node copy = graph_.node(id);
      for (ValueId& in : copy.inputs)
        if (const auto it = now.find(in); it != now.end()) in = it->second;
      const ValueId made = copy.outputs[0];
      copy.outputs.clear();
      now[made] = add_typed(graph_, patch_, std::move(copy), 1)[0];
    }
    Tensor shape(DType::kI64, {1});
    *shape.as<int64_t>() = kBytes;
    const ValueId dims_of_table = patch_.add_constant("bytes_shape", std::move(shape));
    Node flat{.op = &get_op("Reshape"), .inputs = {now.at(result), dims_of_table}};
    const ValueId table = add_typed(graph_, patch_, std::move(flat), 1)[0];
    Node lookup{.op = &get_op("Lookup", "xc"), .inputs = {root, table}};
    patch_.replace(result, add_typed(graph_, patch_, std::move(lookup), 1)[0]);
    context_.count("tabulate-bytes");
  }

  /// The nodes that make `result` from `root`, in order.
  std::vector<NodeId> between(ValueId root, ValueId result) const {
    std::unordered_set<NodeId> found;
    std::vector<ValueId> left{result};
    while (!left.empty()) {
      const ValueId value = left.back();
      left.pop_back();
      if (value == kNone || !root_.contains(value) || value == root) continue;
      const NodeId producer = graph_.value(value).producer;
      if (!found.insert(producer).second) continue;
      const auto& inputs = graph_.node(producer).inputs;
      left.insert(left.end(), inputs.begin(), inputs.end());
    }
    std::vector<NodeId> out(found.begin(), found.end());
    std::sort(out.begin(), out.end(),
              [&](NodeId a, NodeId b) { return position_.at(a) < position_.at(b); });
    return out;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
  std::unordered_map<ValueId, ValueId> root_;  ///< of what is computed from bytes
  std::unordered_set<ValueId> escapes_;
  std::unordered_map<NodeId, size_t> position_;
  size_t walked_ = 0;  ///< nodes of chains, added up
};

}  // namespace

bool tabulate_bytes(Graph& graph, PassContext& context) {
  if (!context.options.tolerant) return false;
  return Tables(graph, context).run();
}

}  // namespace xc
