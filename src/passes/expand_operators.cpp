#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <unordered_set>

#include "ir/patch.h"
#include "loop/range.h"
#include "ops/expansion.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"

namespace xc {
namespace {

/// Operators no backend has a kernel for, because one would be no faster than what they expand to
/// (of DFT that depends on its length, which its expansion knows): these, all of com.microsoft and
/// ai.onnx.ml that expand, and BatchNormalization that trains.
constexpr std::array<std::string_view, 14> kExpanded = {"Attention",
                                                        "CausalConvWithState",
                                                        "DFT",
                                                        "Einsum",
                                                        "GlobalLpPool",
                                                        "Hardmax",
                                                        "LRN",
                                                        "LpPool",
                                                        "MeanVarianceNormalization",
                                                        "NegativeLogLikelihoodLoss",
                                                        "ReduceLogSumExp",
                                                        "RotaryEmbedding",
                                                        "SoftmaxCrossEntropyLoss",
                                                        "STFT"};

bool is_expanded(const Node& node) {
  const OpDef& op = *node.op;
  if (!op.expand) return false;
  if (op.domain == "com.microsoft" || op.domain == "ai.onnx.ml") return true;
  if (op.name == "BatchNormalization") return node.attrs.get_int("training_mode", 0) != 0;
  return op.domain.empty() &&
         std::find(kExpanded.begin(), kExpanded.end(), op.name) != kExpanded.end();
}

/// Operands that elementwise kernels take at a time.
constexpr size_t kMostOperands = 31;

/// Sum, Mean, Max or Min of more: of groups, and of what these give. A mean is divided once; sums
/// of halves are of f32 in between.
std::vector<ValueId> in_groups(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const bool mean = node.op->name == "Mean", sums = mean || node.op->name == "Sum";
  const std::string_view op = mean ? "Sum" : node.op->name;
  std::vector<ValueId> values;
  for (size_t i = 0; i < node.inputs.size(); ++i) values.push_back(sums ? e.widened(i) : e.in(i));
  while (values.size() > 1) {
    std::vector<ValueId> groups;
    for (size_t first = 0; first < values.size(); first += kMostOperands) {
      const auto group =
          std::span(values).subspan(first).first(std::min(kMostOperands, values.size() - first));
      groups.push_back(group.size() == 1 ? group[0] : e.add(op, {group.begin(), group.end()}));
    }
    values = std::move(groups);
  }
  if (mean)
    values[0] = e.add("Div", {values[0], e.scalar(static_cast<double>(node.inputs.size()))});
  return {sums ? e.narrowed(values[0]) : values[0]};
}

/// A wider type that has kernels, of an integer type that has none.
std::optional<DType> wider_integer(DType type) {
  if (type == DType::kU32) return DType::kI64;
  const auto narrow = type_set({DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kU16});
  return contains(narrow, type) ? std::optional(DType::kI32) : std::nullopt;
}

/// ReduceMax or ReduceMin of other integers than i32 and i64: of a wider type, whose order is
/// theirs. That of no elements is the least or largest of the type.
std::vector<ValueId> of_integers(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const DType type = e.dtype(0), wide = *wider_integer(type);
  const loop::KnownRange range =
      type == DType::kBool ? loop::KnownRange{0, 1, true} : loop::known_range(type);
  Node reduced{.op = node.op, .name = node.name};
  reduced.attrs = node.attrs;
  reduced.inputs = node.inputs;
  reduced.inputs[0] = e.cast(e.in(0), type, wide);
  const ValueId bounded = e.add("Clip", {patch.add_node(std::move(reduced), 1)[0],
                                         e.scalar(range.low, wide), e.scalar(range.high, wide)});
  return {e.cast(bounded, wide, type)};
}

/// Results per channel of a depthwise convolution with constant weights, where it pays to copy its
/// channels: kernels know one result per channel best. (96 channels of 16 x 16 by 7 x 7, two
/// results each, every second one: 250 us, by copies 40.) Not of rows and planes as they come from
/// outside, which some kernels read as they lie; nor of quantised values, whose patterns are looked
/// for later.
int64_t results_per_channel(const Graph& graph, const Node& node) {
  const auto& x = graph.value(node.inputs[0]);
  const Tensor& weights = graph.value(node.inputs[1]).constant;
  const int64_t groups = node.attrs.get_int("group", 1);
  if (groups < 2 || !weights || weights.rank() < 3 || weights.dims()[1] != 1 || !x.type.dims ||
      !((*x.type.dims)[1] == Dim(groups)))
    return 1;
  const std::vector<int64_t> strides = node.attrs.get_ints("strides");
  const bool steps = std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
  if (x.producer == kNone ? !steps : graph.node(x.producer).op->name == "DequantizeLinear")
    return 1;
  return weights.dims()[0] / groups;
}

std::vector<ValueId> of_copied_channels(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t channels = node.attrs.get_int("group", 1);
  const int64_t results = results_per_channel(graph, node);
  std::vector<int64_t> from;
  for (int64_t k = 0; k < channels * results; ++k) from.push_back(k / results);
  Node single{.op = node.op, .name = node.name};
  single.attrs = node.attrs;
  single.attrs.set("group", channels * results);
  single.inputs = node.inputs;
  single.inputs[0] = e.add("Gather", {e.in(0), e.ints(std::move(from))}, {{"axis", int64_t{1}}});
  return patch.add_node(std::move(single), 1);
}

/// How a node is put into the form that kernels know; null where it is in it.
ExpandFn form_of(const Graph& graph, const Node& node) {
  if (is_expanded(node)) return node.op->expand;
  if (!node.op->domain.empty()) return nullptr;
  const std::string_view op = node.op->name;
  if (node.inputs.size() > kMostOperands &&
      (op == "Sum" || op == "Mean" || op == "Max" || op == "Min"))
    return in_groups;
  // Products of integers have a kernel, without factors and terms.
  if (op == "Gemm" && !is_float(graph.value(node.inputs[0]).type.dtype)) return node.op->expand;
  if (op == "Conv" && results_per_channel(graph, node) > 1) return of_copied_channels;
  const bool extreme = op == "ReduceMax" || op == "ReduceMin";
  if (extreme && wider_integer(graph.value(node.inputs[0]).type.dtype)) return of_integers;
  return nullptr;
}

}  // namespace

bool expand_operators(Graph& graph, PassContext& context) {
  Patch patch(graph, "expand-operators");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const ExpandFn expand = form_of(graph, node);
    if (!expand || !have_types(graph, node.inputs)) continue;
    const std::vector<ValueId> outputs = expand(graph, node, patch);
    if (outputs.empty()) continue;  // not in this form: its reference runs
    const std::vector<ValueId> old = graph.node(id).outputs;
    const bool proven = sizes_are_proven(graph, node);
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
