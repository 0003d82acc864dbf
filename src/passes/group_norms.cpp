#include <optional>

#include "ir/patch.h"
#include "ops/registry.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Numbers of a constant over `channels` of axis 1 of `rank` axes: one for all, or one for each.
std::optional<std::vector<double>> per_channel(const Value& value, size_t rank, int64_t channels) {
  const Tensor& t = value.constant;
  if (!t || t.dims().size() > rank) return std::nullopt;
  const size_t missing = rank - t.dims().size();
  for (size_t axis = 0; axis < t.dims().size(); ++axis)
    if (t.dims()[axis] != 1 && (axis + missing != 1 || t.dims()[axis] != channels))
      return std::nullopt;
  std::vector<double> out = t.to_doubles();
  if (out.size() == 1) out.resize(static_cast<size_t>(channels), out[0]);
  return out;
}

class Search {
 public:
  Search(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()), patch_(graph, "group-norms") {}

  bool run() {
    for (NodeId id : graph_.order()) visit(id);
    const bool changed = !patch_.empty();
    patch_.apply();
    return changed;
  }

 private:
  bool is(NodeId id, std::string_view op) const {
    return id != kNone && is_op(graph_.node(id), op);
  }

  void visit(NodeId id) {
    if (!is(id, "InstanceNormalization")) return;
    const Node& norm = graph_.node(id);
    const NodeId split = graph_.value(norm.inputs[0]).producer;
    const NodeId join = graph_.only_user(users_, norm.outputs[0]);
    if (!is(split, "Reshape") || !is(join, "Reshape") || !always_fits(graph_, graph_.node(split)))
      return;
    const ValueId x = graph_.node(split).inputs[0];
    const Type &whole = graph_.value(x).type, &parts = graph_.value(norm.inputs[0]).type,
               &back = graph_.value(graph_.node(join).outputs[0]).type;
    if (!whole.dims || !parts.dims || !back.dims || whole.dtype == DType::kF64) return;
    const size_t rank = whole.dims->size();
    if (rank < 3 || parts.dims->size() < 3 || *back.dims != *whole.dims ||
        !((*parts.dims)[0] == (*whole.dims)[0]))
      return;
    // A sample's elements in as many runs as there are groups: whole channels, if they divide.
    const auto channels = (*whole.dims)[1].constant(), groups = (*parts.dims)[1].constant();
    if (!channels || !groups || *groups < 1 || *channels < 1 || *channels % *groups != 0) return;
    auto scale = per_channel(graph_.value(norm.inputs[1]), 2, *groups);
    auto bias = per_channel(graph_.value(norm.inputs[2]), 2, *groups);
    if (!scale || !bias) return;
    scale = repeated(*scale, *channels / *groups);
    bias = repeated(*bias, *channels / *groups);
    const ValueId result =
        absorb(graph_.node(join).outputs[0], rank, *channels, whole.dtype, *scale, *bias);

    Node now{.op = &get_op("GroupNormalization"), .name = norm.name};
    now.attrs.set("num_groups", *groups);
    now.attrs.set("epsilon", norm.attrs.get_float("epsilon", 1e-5));
    now.inputs = {x, constant(norm.name + ".scale", whole.dtype, *scale),
                  constant(norm.name + ".bias", whole.dtype, *bias)};
    patch_.replace(result, add_typed(graph_, patch_, std::move(now), 1)[0]);
    context_.count("group-norms");
  }

  static std::vector<double> repeated(const std::vector<double>& values, int64_t times) {
    std::vector<double> out;
    for (const double v : values) out.insert(out.end(), static_cast<size_t>(times), v);
    return out;
  }

  /// Takes factors and addends per channel behind `value` into scale and bias; the last value that
  /// was taken.
  ValueId absorb(ValueId value, size_t rank, int64_t channels, DType type,
                 std::vector<double>& scale, std::vector<double>& bias) const {
    for (;;) {
      const NodeId user = graph_.only_user(users_, value);
      const bool product = is(user, "Mul");
      if (!product && !is(user, "Add")) return value;
      const Node& node = graph_.node(user);
      const ValueId other = node.inputs[node.inputs[0] == value ? 1 : 0];
      const auto factors = per_channel(graph_.value(other), rank, channels);
      if (!factors || graph_.value(other).type.dtype != type) return value;
      for (size_t c = 0; c < factors->size(); ++c) {
        if (product) scale[c] *= (*factors)[c];
        bias[c] = product ? bias[c] * (*factors)[c] : bias[c] + (*factors)[c];
      }
      value = node.outputs[0];
    }
  }

  ValueId constant(const std::string& name, DType type, const std::vector<double>& values) {
    Tensor t(type, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i)
      store_double(t.data(), type, static_cast<int64_t>(i), values[i]);
    return patch_.add_constant(name, std::move(t));
  }

  Graph& graph_;
  PassContext& context_;
  const std::vector<std::vector<NodeId>> users_;
  Patch patch_;
};

}  // namespace

bool group_norms(Graph& graph, PassContext& context) {
  return context.options.tolerant && Search(graph, context).run();
}

}  // namespace xc
