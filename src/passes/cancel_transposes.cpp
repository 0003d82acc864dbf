// What stands between Transposes and others that undo them works on the values in front of the
// first: Transpose(Relu(Add(Transpose(x), b))) becomes Relu(Add(x, b')) where both cancel.
// (Networks written channels last, of which converters put Transposes around each operator that is
// not.)
//
// A whole region at a time, so that residuals and branches take part: all that is reached from a
// Transpose through operators that work along any axis, forwards and backwards, where every value
// that comes in is another such Transpose's or constant, and every one that goes out is read by
// Transposes alone. Those at its entry go; those behind it become what both did.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/region_rewriter.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Axis i of the result is axis perm[i] of what it is made of.
using Permutation = std::vector<size_t>;

bool is_identity(const Permutation& perm) {
  return std::is_sorted(perm.begin(), perm.end());
}

/// A constant that is broadcast to transposed values, as it is to those in front of the Transpose.
Tensor untransposed(const Tensor& constant, const Permutation& perm) {
  const size_t rank = perm.size(), own = constant.dims().size();
  Dims dims(rank, 1), strides(rank, 0);
  for (size_t axis = rank - own; axis < rank; ++axis) {
    const size_t to = perm[axis];
    dims[to] = constant.dims()[axis + own - rank];
    strides[to] = constant.strides()[axis + own - rank];
  }
  Tensor out(constant.dtype(), dims);
  copy_elements(restrided(constant.view(), dims, strides), out.view());
  return out;
}

class Canceller : private RegionRewriter {
 public:
  Canceller(Graph& graph, PassContext& context)
      : RegionRewriter(graph, context, "cancel-transposes") {}

  bool run() {
    return sweep([&](NodeId id) {
      if (const auto region = region_of(id)) rewrite(*region);
    });
  }

 private:
  struct Region {
    Permutation perm;                    ///< of the Transposes at its entry
    std::unordered_set<ValueId> values;  ///< transposed
    std::vector<NodeId> entries, nodes, exits;
    std::unordered_set<NodeId> seen;  ///< all of these
  };

  // ---- what takes part --------------------------------------------------------------------------

  std::optional<Permutation> permutation_of(NodeId id) const {
    const Node& node = graph_.node(id);
    return is_op(node, "Transpose") ? known_permutation(graph_, node) : std::nullopt;
  }

  /// One element: the same along whatever axes.
  bool is_single(ValueId value) const {
    const auto& dims = graph_.value(value).type.dims;
    return dims &&
           std::all_of(dims->begin(), dims->end(), [](const Dim& d) { return d == Dim(1); });
  }

  std::optional<std::vector<int64_t>> integers(const Node& node, size_t k) const {
    const ValueId input = input_of(node, k);
    return input == kNone ? std::nullopt : known_integers(graph_.value(input));
  }
  static bool has(const Node& node, size_t k) { return input_of(node, k) != kNone; }

  /// Operands that have the axes of the region, or are to be given them (constants).
  std::vector<size_t> operands(const Node& node) const {
    std::vector<size_t> out;
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (has(node, k) &&
          (node.op->scalar ? !is_single(node.inputs[k]) : k == 0 || is_op(node, "Concat")))
        out.push_back(k);
    return out;
  }

  /// Whether input k is a constant of so many numbers.
  bool lists(const Node& node, size_t k, size_t count) const {
    if (!has(node, k)) return false;
    const Value& value = graph_.value(node.inputs[k]);
    return value.is_constant() && value.constant.contiguous() &&
           value.constant.count() == static_cast<int64_t>(count);
  }

  bool works_along_any_axes(const Node& node, size_t rank) const {
    for (const ValueId v : node.outputs)
      if (v != kNone && rank_of(graph_, v) != rank) return false;
    for (const size_t k : operands(node)) {
      const auto own = rank_of(graph_, node.inputs[k]);
      const bool constant = graph_.value(node.inputs[k]).is_constant();
      if (!own || (constant && node.op->scalar ? *own > rank : *own != rank)) return false;
      if (constant && !node.op->scalar) return false;
    }
    if (node.op->scalar) return true;
    if (is_op(node, "Softmax") || is_op(node, "LogSoftmax") || is_op(node, "Concat") ||
        is_op(node, "Split"))
      return true;
    if (is_reduction(node))
      return node.attrs.get_int("keepdims", 1) != 0 && (!has(node, 1) || integers(node, 1));
    if (is_op(node, "Slice")) return integers(node, has(node, 3) ? 3 : 1).has_value();
    if (is_op(node, "Pad"))
      return has(node, 3) ? integers(node, 3).has_value() : lists(node, 1, 2 * rank);
    if (is_op(node, "Resize"))  // by scales or by sizes
      return !has(node, 1) && !node.attrs.has("axes") && lists(node, has(node, 2) ? 2 : 3, rank);
    return false;
  }

  // ---- the region -------------------------------------------------------------------------------

  std::optional<Region> region_of(NodeId entry) const {
    const auto perm = taken_[entry] ? std::nullopt : permutation_of(entry);
    if (!perm || is_identity(*perm)) return std::nullopt;
    Region out;
    out.perm = *perm;
    std::vector<ValueId> open;
    if (!enter(out, entry, open)) return std::nullopt;
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      for (const NodeId user : users_[value]) {
        const bool transposes = is_op(graph_.node(user), "Transpose");
        if (out.seen.count(user)) {
          // One that leads in and out of the region at once.
          if (transposes && out.values.count(graph_.node(user).outputs[0])) return std::nullopt;
          continue;
        }
        if (transposes) {
          if (taken_[user]) return std::nullopt;
          out.seen.insert(user);
          out.exits.push_back(user);
        } else if (!add(out, user, open)) {
          return std::nullopt;
        }
      }
    }
    if (out.nodes.empty() || out.exits.empty()) return std::nullopt;
    for (std::vector<NodeId>* nodes : {&out.entries, &out.nodes, &out.exits}) sort(*nodes);
    return out;
  }

  /// A value of the region: all that read it have to follow.
  bool open_value(Region& region, ValueId value, std::vector<ValueId>& open) const {
    if (value == kNone || !region.values.insert(value).second) return true;
    open.push_back(value);
    return !graph_.is_output(value);
  }

  bool enter(Region& region, NodeId transpose, std::vector<ValueId>& open) const {
    const ValueId output = graph_.node(transpose).outputs[0];
    if (!region.seen.insert(transpose).second) return region.values.count(output) > 0;
    region.entries.push_back(transpose);
    return open_value(region, output, open);
  }

  bool add(Region& region, NodeId id, std::vector<ValueId>& open) const {
    std::vector<NodeId> todo{id};
    while (!todo.empty()) {
      const NodeId at = todo.back();
      todo.pop_back();
      if (!region.seen.insert(at).second) continue;
      const Node& node = graph_.node(at);
      if (taken_[at] || region.nodes.size() == kMostNodes || node.op->control_flow ||
          !works_along_any_axes(node, region.perm.size()))
        return false;
      region.nodes.push_back(at);
      for (const ValueId v : node.outputs)
        if (!open_value(region, v, open)) return false;
      for (const size_t k : operands(node)) {
        const ValueId in = node.inputs[k];
        if (region.values.count(in) || graph_.value(in).is_constant()) continue;
        const NodeId maker = graph_.value(in).producer;
        if (maker == kNone) return false;
        const auto perm = permutation_of(maker);
        if (!perm)
          todo.push_back(maker);
        else if (*perm != region.perm || taken_[maker] || !enter(region, maker, open))
          return false;
      }
    }
    return true;
  }

  // ---- rewriting --------------------------------------------------------------------------------

  ValueId integers_constant(const std::vector<int64_t>& values) {
    return patch_.add_constant("axes", Tensor::of<int64_t>(values));
  }

  /// Axes in front of the Transposes.
  std::vector<int64_t> moved_axes(std::vector<int64_t> axes, const Permutation& perm) const {
    for (int64_t& axis : axes) axis = static_cast<int64_t>(perm[normalise_axis(axis, perm.size())]);
    return axes;
  }

  /// Input `input` of a node has the axes that the numbers of its input 1 are for; absent: all, or
  /// the first ones.
  void name_axes(Node& node, size_t input, const Permutation& perm) {
    std::vector<int64_t> axes;
    if (has(node, input)) {
      axes = *integers(node, input);
    } else {
      axes.resize(integers(node, 1)->size());
      std::iota(axes.begin(), axes.end(), 0);
    }
    node.inputs.resize(std::max(node.inputs.size(), input + 1), kNone);
    node.inputs[input] = integers_constant(moved_axes(std::move(axes), perm));
  }

  /// Input k, a constant, has a number for each axis, once or (begins and ends) twice.
  void reorder(Node& node, size_t k, const Permutation& perm) {
    const Tensor given = graph_.value(node.inputs[k]).constant.held();
    Tensor out(given.dtype(), given.dims());
    const auto size = static_cast<size_t>(element_size(given.dtype()));
    const auto* const from = static_cast<const std::byte*>(given.data());
    auto* const to = static_cast<std::byte*>(out.data());
    for (size_t i = 0; i < static_cast<size_t>(given.count()); ++i) {
      const size_t round = i / perm.size() * perm.size();
      std::memcpy(to + (round + perm[i - round]) * size, from + i * size, size);
    }
    node.inputs[k] = patch_.add_constant(graph_.value(node.inputs[k]).name, out);
  }

  void move_axes(Node& node, const Permutation& perm) {
    const auto move_attribute = [&](int64_t otherwise) {
      const int64_t axis = node.attrs.get_int("axis", otherwise);
      node.attrs.set("axis", static_cast<int64_t>(perm[normalise_axis(axis, perm.size())]));
    };
    if (is_op(node, "Softmax") || is_op(node, "LogSoftmax")) move_attribute(-1);
    if (is_op(node, "Concat") || is_op(node, "Split")) move_attribute(0);
    if (is_reduction(node) && has(node, 1))
      node.inputs[1] = integers_constant(moved_axes(*integers(node, 1), perm));
    if (is_op(node, "Slice") || (is_op(node, "Pad") && has(node, 3))) name_axes(node, 3, perm);
    if (is_op(node, "Pad") && !has(node, 3)) reorder(node, 1, perm);
    if (is_op(node, "Resize")) reorder(node, has(node, 2) ? 2 : 3, perm);
  }

  void rewrite(const Region& region) {
    std::unordered_map<ValueId, ValueId> now;
    for (const NodeId id : region.entries)
      now.emplace(graph_.node(id).outputs[0], graph_.node(id).inputs[0]);
    for (const NodeId id : region.nodes) {
      Node node = graph_.node(id);
      move_axes(node, region.perm);
      for (ValueId& in : node.inputs) {
        if (const auto known = now.find(in); known != now.end())
          in = known->second;
        else if (node.op->scalar && in != kNone && !is_single(in))
          in = patch_.add_constant(graph_.value(in).name,
                                   untransposed(graph_.value(in).constant, region.perm));
      }
      const std::vector<ValueId> old = std::exchange(node.outputs, {});
      const auto made =
          add_typed(graph_, patch_, std::move(node), static_cast<uint32_t>(old.size()));
      for (size_t k = 0; k < old.size(); ++k)
        if (old[k] != kNone) now.emplace(old[k], made[k]);
    }
    for (const NodeId id : region.exits) leave(id, region.perm, now);
    replaced({region.exits, region.nodes, region.entries});
  }

  /// What a Transpose behind the region gives, of what is not transposed.
  void leave(NodeId id, const Permutation& first, const std::unordered_map<ValueId, ValueId>& now) {
    const Node& node = graph_.node(id);
    Permutation perm = *permutation_of(id);
    for (size_t& axis : perm) axis = first[axis];
    const ValueId old = node.outputs[0], value = now.at(node.inputs[0]);
    if (is_identity(perm) && patch_.can_replace(old, value)) return patch_.replace(old, value);
    Node behind{.op = node.op, .inputs = {value}};
    behind.attrs.set("perm", std::vector<int64_t>(perm.begin(), perm.end()));
    patch_.replace(old, add_typed(graph_, patch_, std::move(behind), 1)[0]);
  }
};

}  // namespace

bool cancel_transposes(Graph& graph, PassContext& context) {
  return Canceller(graph, context).run();
}

}  // namespace xc
