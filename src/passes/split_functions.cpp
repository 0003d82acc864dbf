// Elementwise functions behind a Concat of products (convolutions, too) stand in front of it, each
// with its part of the constants along the axis: products take them along as post-ops, factors and
// addends per channel go into their weights, and parts that are written right into the Concat's
// place need no copy. (Norms and activations behind convolutions of several window sizes: MixNet,
// arXiv:1907.09595, and Inception's kin.)

#include <algorithm>

#include "ir/patch.h"
#include "ops/op.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

class Splitter {
 public:
  Splitter(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "split-functions") {}

  bool run() {
    for (NodeId id : graph_.order())
      if (is_op(graph_.node(id), "Concat") && split(id)) context_.count("split-functions");
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  /// Sizes of what a Concat of products joins along its axis, none of which anything else reads.
  struct Parts {
    size_t axis = 0, rank = 0;
    std::vector<int64_t> sizes;
    int64_t total = 0;
  };
  std::optional<Parts> parts_of(const Node& concat) const {
    const auto& dims = graph_.value(concat.outputs[0]).type.dims;
    if (!dims || concat.inputs.size() < 2) return std::nullopt;
    Parts out;
    out.rank = dims->size();
    out.axis = normalise_axis(concat.attrs.get_int("axis", 0), out.rank);
    for (const ValueId part : concat.inputs) {
      const NodeId maker = graph_.value(part).producer;
      const auto& own = graph_.value(part).type.dims;
      if (maker == kNone || !is_product(graph_.node(maker)) || !own ||
          graph_.only_user(users_, part) == kNone)
        return std::nullopt;
      const auto size = (*own)[out.axis].constant();
      if (!size) return std::nullopt;
      out.sizes.push_back(*size);
      out.total += *size;
    }
    return out;
  }

  /// Whether the node is a function of `value` and of constants along the axis alone.
  bool is_function_of(const Node& node, ValueId value, const Parts& parts) const {
    if (!node.op->scalar || node.outputs.size() != 1) return false;
    bool found = false;
    for (const ValueId v : node.inputs) {
      if (v == kNone) continue;
      if (v == value) {
        found = true;
        continue;
      }
      const Value& constant = graph_.value(v);
      if (!constant.is_constant() ||
          !lies_along(constant.constant, parts.rank, parts.axis, Dim(parts.total)))
        return false;
    }
    return found;
  }

  /// Elements [begin, begin + size) along the axis.
  ValueId part_of(ValueId constant, const Parts& parts, int64_t begin, int64_t size) {
    const Tensor t = graph_.value(constant).constant.to_contiguous();
    if (t.count() == 1) return constant;
    Dims dims = t.dims();
    dims[dims.size() + parts.axis - parts.rank] = size;
    return patch_.add_constant(
        graph_.value(constant).name + ".part",
        Tensor(t.buffer(), t.byte_offset() + begin * element_size(t.dtype()), t.dtype(), dims));
  }

  bool split(NodeId id) {
    const Node& concat = graph_.node(id);
    const std::optional<Parts> parts = parts_of(concat);
    if (!parts) return false;
    std::vector<NodeId> functions;
    ValueId value = concat.outputs[0];
    for (NodeId user = graph_.only_user(users_, value);
         user != kNone && is_function_of(graph_.node(user), value, *parts);
         user = graph_.only_user(users_, value)) {
      functions.push_back(user);
      value = graph_.node(user).outputs[0];
    }
    if (functions.empty()) return false;
    std::vector<ValueId> results;
    int64_t begin = 0;
    for (size_t p = 0; p < concat.inputs.size(); ++p) {
      ValueId result = concat.inputs[p], before = concat.outputs[0];
      for (const NodeId function : functions) {
        Node now = graph_.node(function);
        for (ValueId& v : now.inputs)
          if (v != kNone) v = v == before ? result : part_of(v, *parts, begin, parts->sizes[p]);
        before = now.outputs[0];
        now.outputs.clear();
        result = add_typed(graph_, patch_, std::move(now), 1)[0];
      }
      results.push_back(result);
      begin += parts->sizes[p];
    }
    Node joined = concat;
    joined.inputs = std::move(results);
    joined.outputs.clear();
    patch_.replace(value, add_typed(graph_, patch_, std::move(joined), 1)[0]);
    for (const NodeId function : functions) patch_.remove(function);
    patch_.remove(id);
    return true;
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
};

}  // namespace

bool split_functions(Graph& graph, PassContext& context) {
  return Splitter(graph, context).run();
}

}  // namespace xc
