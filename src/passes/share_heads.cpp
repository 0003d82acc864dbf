// Attention whose query heads share keys and values in groups, as exporters write it: keys and
// values are expanded to a head for each query head and become [..., heads, keys, size], a copy of
// several times their size in every run. The heads of a group become an axis of their own instead,
// over which a product reads its right side again and again where it lies:
//
//   MatMul(x, Reshape(Expand(k)))  =  Reshape(MatMul(Reshape(x), k))
//
// What stands between two such products (scale, mask, softmax) then works on the same dims, so that
// fusion finds it next to them.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/patch.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// [..., heads, rows, columns] that repeats each of `kv` heads `group` times.
struct Repeated {
  ValueId unit = kNone;  ///< [..., kv, 1, rows, columns], or the last two the other way around
  bool turned = false;
  int64_t kv = 0, group = 0;
  std::vector<NodeId> functions = {};  ///< of the elements, in the order they are applied
};

class Sharer {
 public:
  Sharer(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "share-heads") {}

  bool run() {
    find();
    if (products_.empty()) return false;
    for (NodeId id : std::vector<NodeId>(graph_.order())) rewrite(id);
    for (ValueId value : kept_)
      if (read_together(value)) patch_.replace(value, together(value, apart_.at(value)));
    context_.count("share-heads", static_cast<int64_t>(products_.size()));
    patch_.apply();
    return true;
  }

 private:
  /// Until something is added to the graph.
  const SymDims* dims_of(ValueId value) const {
    if (value == kNone) return nullptr;
    const auto& dims = graph_.value(value).type.dims;
    return dims ? &*dims : nullptr;
  }
  const Node* maker_of(ValueId value) const {
    const NodeId maker = value == kNone ? kNone : graph_.value(value).producer;
    return maker == kNone ? nullptr : &graph_.node(maker);
  }

  // ---- what there is ----------------------------------------------------------------------------

  /// Products whose right side repeats heads, and all that may lie between two of them.
  void find() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (!is_op(node, "MatMul")) continue;
      const auto repeated = repeated_heads(node.inputs[1]);
      const SymDims* left = dims_of(node.inputs[0]);
      const SymDims* right = dims_of(node.inputs[1]);
      if (!repeated || !left || !right || left->size() != right->size()) continue;
      if (!std::equal(left->begin(), left->end() - 2, right->begin())) continue;
      products_.emplace(id, *repeated);
      mark_between(node.inputs[0]);
    }
  }

  /// What `value` repeats, behind functions of its elements and Transposes of rows and columns.
  std::optional<Repeated> repeated_heads(ValueId value) const {
    constexpr int kFarthest = 16;  // a product's operand is looked at for each product
    Repeated out;
    for (int steps = 0; steps < kFarthest; ++steps) {
      const Node* node = maker_of(value);
      if (!node) return std::nullopt;
      if (is_op(*node, "Transpose")) {
        if (!swaps_last(node->attrs.get_ints("perm"))) return std::nullopt;
        out.turned = !out.turned;
        value = node->inputs[0];
      } else if (const ValueId x = argument_of(graph_, *node); x != kNone) {
        const SymDims *from = dims_of(x), *to = dims_of(value);
        if (!from || !to || *from != *to) return std::nullopt;
        out.functions.push_back(graph_.value(value).producer);
        value = x;
      } else {
        std::reverse(out.functions.begin(), out.functions.end());
        return find_repeat(value, out) ? std::optional(out) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  /// Is the value a Reshape of what Expand or Tile repeats? Of what, and how often.
  bool find_repeat(ValueId value, Repeated& found) const {
    const Node* node = maker_of(value);
    if (!is_op(*node, "Reshape") || !always_fits(graph_, *node)) return false;
    const Node* expand = maker_of(node->inputs[0]);
    if (!expand || (!is_op(*expand, "Expand") && !is_op(*expand, "Tile"))) return false;
    const SymDims* unit = dims_of(expand->inputs[0]);
    const SymDims* wide = dims_of(expand->outputs[0]);
    const SymDims* out = dims_of(value);
    if (!unit || !wide || !out || out->size() < 3 || wide->size() != out->size() + 1 ||
        unit->size() != wide->size())
      return false;
    const size_t head = out->size() - 3;
    const auto kv = (*wide)[head].constant(), group = (*wide)[head + 1].constant();
    if (!kv || !group || *kv < 1 || *group < 2 || !((*out)[head] == Dim(*kv * *group)))
      return false;
    for (size_t axis = 0; axis < wide->size(); ++axis) {
      if (axis != head + 1 && !((*unit)[axis] == (*wide)[axis])) return false;
      if (axis < head && !((*out)[axis] == (*wide)[axis])) return false;
      if (axis > head + 1 && !((*out)[axis - 1] == (*wide)[axis])) return false;
    }
    if (!((*unit)[head + 1] == Dim(1))) return false;
    found.unit = expand->inputs[0];
    found.kv = *kv;
    found.group = *group;
    return true;
  }

  static bool swaps_last(const std::vector<int64_t>& perm) {
    const size_t rank = perm.size();
    if (rank < 3) return false;
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      if (perm[axis] != static_cast<int64_t>(axis)) return false;
    return perm[rank - 2] == static_cast<int64_t>(rank) - 1;
  }

  /// Functions of elements, and softmax along rows, upwards from what a product reads.
  void mark_between(ValueId value) {
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      const NodeId maker = graph_.value(v).producer;
      if (maker == kNone || between_.contains(maker) || !keeps_heads(graph_.node(maker))) continue;
      between_.insert(maker);
      for (ValueId input : graph_.node(maker).inputs)
        if (input != kNone) open.push_back(input);
    }
  }
  bool keeps_heads(const Node& node) const {
    if (node.outputs.size() != 1 || !dims_of(node.outputs[0])) return false;
    if (node.op->scalar) return true;
    const auto rank = static_cast<int64_t>(dims_of(node.outputs[0])->size());
    const int64_t axis = node.attrs.get_int("axis", -1);
    return is_op(node, "Softmax") && (axis == -1 || axis == rank - 1);
  }

  // ---- the same with groups apart ---------------------------------------------------------------

  /// A value of [..., kv * group, rows, columns] as [..., kv, group, rows, columns].
  struct Apart {
    ValueId value;
    int64_t kv, group;
  };

  void rewrite(NodeId id) {
    const Node node = graph_.node(id);
    if (const auto it = products_.find(id); it != products_.end())
      return rewrite_product(node, it->second);
    if (!between_.contains(id)) return;
    const auto first = std::find_if(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId v) { return apart_.contains(v); });
    if (first == node.inputs.end()) return;
    const Apart like = apart_.at(*first);
    const size_t rank = dims_of(*first)->size();
    Node now{.op = node.op, .name = node.name, .attrs = node.attrs};
    if (is_op(node, "Softmax")) now.attrs.set("axis", int64_t{-1});
    for (ValueId v : node.inputs) {
      const auto operand = v == kNone ? std::optional(v) : beside(v, like, rank);
      if (!operand) return;
      now.inputs.push_back(*operand);
    }
    keep(node.outputs[0], add_typed(graph_, patch_, std::move(now), 1)[0], like.kv, like.group);
  }

  void rewrite_product(const Node& node, const Repeated& repeated) {
    const int64_t kv = repeated.kv, group = repeated.group;
    ValueId left = node.inputs[0];
    if (const auto it = apart_.find(left);
        it != apart_.end() && it->second.kv == kv && it->second.group == group)
      left = it->second.value;
    else
      left = split(left, kv, group);
    Node product{.op = node.op, .name = node.name, .attrs = node.attrs};
    product.inputs = {left, right_side(repeated)};
    keep(node.outputs[0], add_typed(graph_, patch_, std::move(product), 1)[0], kv, group);
  }

  ValueId right_side(const Repeated& repeated) {
    ValueId out = repeated.turned ? swapped(repeated.unit) : repeated.unit;
    for (NodeId id : repeated.functions) {
      const Node& node = graph_.node(id);
      const ValueId argument = argument_of(graph_, node);
      Node now{.op = node.op, .name = node.name, .inputs = node.inputs, .attrs = node.attrs};
      std::replace(now.inputs.begin(), now.inputs.end(), argument, out);
      out = add_typed(graph_, patch_, std::move(now), 1)[0];
    }
    return out;
  }

  /// Not where no types could be told: the value stays as it is, and what was added has no reader.
  void keep(ValueId value, ValueId apart, int64_t kv, int64_t group) {
    if (!dims_of(apart)) return;
    apart_.emplace(value, Apart{apart, kv, group});
    kept_.push_back(value);
  }

  /// An operand of a function whose others have groups apart; `rank`: that they had.
  std::optional<ValueId> beside(ValueId v, const Apart& like, size_t rank) {
    if (const auto it = apart_.find(v); it != apart_.end()) {
      if (it->second.kv == like.kv && it->second.group == like.group) return it->second.value;
      return std::nullopt;
    }
    const SymDims* dims = dims_of(v);
    if (!dims || dims->size() > rank) return std::nullopt;
    if (dims->size() < 3) return v;
    const Dim& own = (*dims)[dims->size() - 3];
    if (own == Dim(1)) {
      const auto axis = static_cast<int64_t>(dims->size()) - 2;
      return add("Unsqueeze", {v, ints({axis})});
    }
    if (own == Dim(like.kv * like.group)) return split(v, like.kv, like.group);
    return std::nullopt;
  }

  ValueId add(const char* op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    Node node{.op = &get_op(op), .name = "", .inputs = std::move(inputs)};
    node.attrs = std::move(attrs);
    return add_typed(graph_, patch_, std::move(node), 1)[0];
  }
  ValueId ints(const std::vector<int64_t>& values) {
    Tensor tensor(DType::kI64, {std::ssize(values)});
    std::copy(values.begin(), values.end(), tensor.as<int64_t>());
    return patch_.add_constant("heads", std::move(tensor));
  }
  /// Sizes [first, last) of a value.
  ValueId sizes(ValueId value, size_t first, size_t last) {
    Attrs attrs;
    attrs.set("start", static_cast<int64_t>(first));
    attrs.set("end", static_cast<int64_t>(last));
    return add("Shape", {value}, std::move(attrs));
  }
  /// The value with `heads` in place of its axes [axis, axis + count).
  ValueId reshaped(ValueId value, size_t axis, size_t count, const std::vector<int64_t>& heads) {
    const size_t rank = dims_of(value)->size();
    std::vector<ValueId> parts;
    if (axis > 0) parts.push_back(sizes(value, 0, axis));
    parts.push_back(ints(heads));
    parts.push_back(sizes(value, axis + count, rank));
    Attrs along, zeros;
    along.set("axis", int64_t{0});
    zeros.set("allowzero", int64_t{1});
    return add("Reshape", {value, add("Concat", parts, std::move(along))}, std::move(zeros));
  }
  ValueId split(ValueId value, int64_t kv, int64_t group) {
    return reshaped(value, dims_of(value)->size() - 3, 1, {kv, group});
  }
  ValueId together(ValueId value, const Apart& apart) {
    return reshaped(apart.value, dims_of(value)->size() - 3, 2, {apart.kv * apart.group});
  }
  ValueId swapped(ValueId value) {
    std::vector<int64_t> perm;
    const auto rank = static_cast<int64_t>(dims_of(value)->size());
    for (int64_t axis = 0; axis + 2 < rank; ++axis) perm.push_back(axis);
    perm.insert(perm.end(), {rank - 1, rank - 2});
    Attrs attrs;
    attrs.set("perm", std::move(perm));
    return add("Transpose", {value}, std::move(attrs));
  }

  /// Whether somebody reads it who has not been rewritten.
  bool read_together(ValueId value) const {
    if (graph_.is_output(value)) return true;
    return std::any_of(users_[value].begin(), users_[value].end(), [&](NodeId user) {
      const Node& node = graph_.node(user);
      return !apart_.contains(node.outputs[0]) ||
             (products_.contains(user) && node.inputs[1] == value);
    });
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
  std::unordered_map<NodeId, Repeated> products_;
  std::unordered_set<NodeId> between_;
  std::unordered_map<ValueId, Apart> apart_;
  std::vector<ValueId> kept_;  ///< the keys, in the order of the graph
};

}  // namespace

bool share_heads(Graph& graph, PassContext& context) {
  return Sharer(graph, context).run();
}

}  // namespace xc
