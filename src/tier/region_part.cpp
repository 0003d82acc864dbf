#include "tier/region_part.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/support.h"

namespace xc {
namespace {

/// Positions that lie side by side, at least: two blocks of rows, where nothing asks for larger
/// ones (plan/fusion/block_tiles.h).
constexpr int64_t kTogether = 64, kRuns = 3;
constexpr size_t kUnknown = SIZE_MAX;

/// The dims, where all are numbers.
std::optional<Dims> sizes_of(const Graph& graph, ValueId v) {
  const auto& dims = graph.value(v).type.dims;
  return dims ? to_concrete(*dims) : std::nullopt;
}

/// Follows an axis of the outputs from node to node back to what they read. Axes are counted from
/// the last, from one on, as broadcasting has them.
class AxisOfValues {
 public:
  AxisOfValues(const Graph& graph, size_t axis, int64_t size)
      : graph_(graph), size_(size), axis_(graph.value_count(), kUnknown) {
    possible_ = std::ranges::all_of(graph.outputs, [&](ValueId v) { return has(v, axis); });
    if (!possible_) return;
    for (ValueId v : graph.outputs) axis_[v] = axis;
    const auto& order = graph.order();
    for (size_t k = order.size(); possible_ && k-- > 0;) possible_ = follow(graph.node(order[k]));
    for (size_t& at : axis_)
      if (at == kUnknown) at = 0;
  }
  bool possible() const { return possible_; }
  std::vector<size_t> take() { return std::move(axis_); }

 private:
  bool has(ValueId v, size_t axis) const {
    const auto dims = sizes_of(graph_, v);
    return dims && dims->size() >= axis && (*dims)[dims->size() - axis] == size_;
  }

  /// Whether nothing else was asked of the value.
  bool ask(ValueId v, size_t axis) {
    if (v == kNone) return true;
    if (axis_[v] == kUnknown) axis_[v] = axis;
    return axis_[v] == axis;
  }
  /// The part of an operand that broadcasts to the result.
  bool ask_broadcast(ValueId v, size_t axis) {
    if (v == kNone) return true;
    const auto dims = sizes_of(graph_, v);
    if (!dims) return false;
    const bool one = dims->size() < axis || (*dims)[dims->size() - axis] == 1;
    return ask(v, one ? 0 : axis);
  }

  bool follow(const Node& node) {
    size_t axis = kUnknown;
    for (ValueId v : node.outputs) {
      if (v == kNone || axis_[v] == kUnknown) continue;
      if (axis != kUnknown && axis != axis_[v]) return false;
      axis = axis_[v];
    }
    if (axis == kUnknown || axis == 0) return ask_all(node, 0);
    for (ValueId v : node.outputs)
      if (v != kNone && !(has(v, axis) && ask(v, axis))) return false;
    if (!node.subgraphs.empty()) return false;
    if (node.op->scalar)
      return std::ranges::all_of(node.inputs, [&](ValueId v) { return ask_broadcast(v, axis); });
    if (!node.op->domain.empty()) return false;
    const auto result = sizes_of(graph_, node.outputs[0]);
    const size_t rank = result->size();
    if (node.op->name == "MatMul") return follow_product(node, axis);
    const auto from_end = [&](int64_t otherwise) {
      return rank - normalise_axis(node.attrs.get_int("axis", otherwise), rank);
    };
    if (node.op->name == "Softmax" || node.op->name == "LogSoftmax")
      return axis != from_end(-1) && ask(node.inputs[0], axis);
    if (node.op->name == "LayerNormalization" || node.op->name == "RMSNormalization")
      return axis > from_end(-1) && ask_all(node, 0, 1) && ask(node.inputs[0], axis);
    if (node.op->name == "Transpose") {
      const std::vector<int64_t> order = node.attrs.get_ints("perm");
      const size_t from =
          order.empty() ? rank + 1 - axis : rank - static_cast<size_t>(order[rank - axis]);
      return ask(node.inputs[0], from);
    }
    return false;
  }
  /// Rows of the left side, columns of the right one, or leading axes, which broadcast.
  bool follow_product(const Node& node, size_t axis) {
    const ValueId left = node.inputs[0], right = node.inputs[1];
    for (ValueId v : {left, right})
      if (const auto dims = sizes_of(graph_, v); !dims || dims->size() < 2) return false;
    if (axis > 2) return ask_broadcast(left, axis) && ask_broadcast(right, axis);
    return axis == 2 ? ask(left, 2) && ask(right, 0) : ask(left, 0) && ask(right, 1);
  }
  bool ask_all(const Node& node, size_t axis, size_t first = 0) {
    for (size_t k = first; k < node.inputs.size(); ++k)
      if (!ask(node.inputs[k], axis)) return false;
    return true;
  }

  const Graph& graph_;
  int64_t size_;
  std::vector<size_t> axis_;
  bool possible_ = false;
};

}  // namespace

std::optional<RegionPart> RegionPart::of(const Graph& graph, int64_t elements, int64_t most) {
  if (graph.outputs.size() == 0 || elements <= most) return std::nullopt;
  const auto dims = sizes_of(graph, graph.outputs[0]);
  if (!dims) return std::nullopt;
  std::optional<RegionPart> best;
  int64_t least = elements / 2;
  for (size_t axis = 1; axis <= dims->size(); ++axis) {
    const int64_t size = (*dims)[dims->size() - axis];
    const int64_t each = std::max(most * size / elements / kRuns, kTogether);
    if (kRuns * each >= size) continue;
    const int64_t left = elements / size * kRuns * each;
    if (left >= least) continue;
    AxisOfValues axes(graph, axis, size);
    if (!axes.possible()) continue;
    best.emplace();
    best->axis_ = axes.take();
    best->each_ = each;
    best->firsts_ = {0, (size - each) / 2, size - each};
    least = left;
  }
  if (!best) return std::nullopt;
  best->graph_ = graph.clone();
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const size_t axis = best->axis_[v];
    if (axis == 0) continue;
    Value& value = best->graph_.value(v);
    SymDims& of_value = *value.type.dims;
    of_value[of_value.size() - axis] = kRuns * best->each_;
    if (value.is_constant()) value.constant = best->cut(value.constant.held(), axis);
  }
  return best;
}

Tensor RegionPart::cut(const Tensor& t, size_t axis) const {
  if (axis == 0 || !t) return t;
  const size_t at = t.rank() - axis;
  Dims dims = t.dims();
  dims[at] = kRuns * each_;
  Tensor out(t.dtype(), dims);
  dims[at] = each_;
  const auto run = [&](const Tensor& of, int64_t first) {
    TensorView view = of.view();
    view.data = view.as<std::byte>() + first * view.strides[at] * element_size(view.dtype);
    view.dims = dims;
    return view;
  };
  for (int64_t k = 0; k < kRuns; ++k)
    copy_elements(run(t, firsts_[static_cast<size_t>(k)]), run(out, k * each_));
  return out;
}

std::vector<Tensor> RegionPart::of_inputs(std::span<const Tensor> inputs) const {
  std::vector<Tensor> out;
  for (size_t k = 0; k < inputs.size(); ++k) out.push_back(cut(inputs[k], axis_[graph_.inputs[k]]));
  return out;
}

std::vector<Tensor> RegionPart::of_outputs(std::span<const Tensor> outputs) const {
  std::vector<Tensor> out;
  for (size_t k = 0; k < outputs.size(); ++k)
    out.push_back(cut(outputs[k], axis_[graph_.outputs[k]]));
  return out;
}

}  // namespace xc
