#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "ir/patch.h"
#include "ops/op.h"
#include "ops/registry.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"
#include "tensor/half.h"

namespace xc {
namespace {

/// Operators whose kernels know f32 alone: they add up many terms, and would have to in f32 anyway.
constexpr std::array<std::string_view, 24> kWidened = {"AffineGrid",
                                                       "AveragePool",
                                                       "BatchNormalization",
                                                       "Conv",
                                                       "ConvTranspose",
                                                       "DeformConv",
                                                       "Det",
                                                       "GRU",
                                                       "Gemm",
                                                       "GridSample",
                                                       "GroupNormalization",
                                                       "InstanceNormalization",
                                                       "LSTM",
                                                       "LayerNormalization",
                                                       "LinearAttention",
                                                       "LogSoftmax",
                                                       "MatMul",
                                                       "MaxPool",
                                                       "MaxRoiPool",
                                                       "RMSNormalization",
                                                       "RNN",
                                                       "Resize",
                                                       "RoiAlign",
                                                       "Softmax"};

/// Scalar functions with steps: what is a step apart in f32 may be equal in halves.
constexpr std::array<std::string_view, 9> kStepped = {
    "BitCast", "Cast", "Ceil", "Floor", "Mod", "Round", "Shrink", "Sign", "ThresholdedRelu"};

/// Reductions by another name.
constexpr std::array<std::string_view, 2> kPooled = {"GlobalAveragePool", "GlobalMaxPool"};

template <size_t N>
bool is_one_of(const OpDef& op, const std::array<std::string_view, N>& names) {
  return op.domain.empty() && std::find(names.begin(), names.end(), op.name) != names.end();
}

bool is_half(DType type) {
  return loop::value_type(type) != type;
}

/// Weights are packed and then not looked at again: the f32 ones are there while somebody holds
/// them.
Tensor widened(const Tensor& constant) {
  const auto fill = [constant](std::byte* bytes) {
    const Tensor from = constant.held().to_contiguous();
    const auto* halves = from.as<uint16_t>();
    auto* out = reinterpret_cast<float*>(bytes);
    std::transform(halves, halves + from.count(), out,
                   from.dtype() == DType::kF16 ? f16_to_float : bf16_to_float);
    constant.forget();
  };
  const int64_t bytes = checked_mul(constant.count(), element_size(DType::kF32));
  return Tensor(Buffer::make_on_demand(bytes, fill), 0, DType::kF32, constant.dims());
}

class Widener {
 public:
  Widener(Graph& graph, PassContext& context, Patch& patch)
      : graph_(graph), tolerant_(context.options.tolerant), patch_(patch) {}

  /// True when node `id` was rewritten.
  bool visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (const ValueId known = known_result(node); known != kNone) {
      patch_.replace(node.outputs[0], known);
      patch_.remove(id);
      return true;
    }
    if (tolerant_ && narrows(node)) {
      narrowed_[node.outputs[0]] = node.inputs[0];
      return false;
    }
    if (node.op->control_flow || !have_types(graph_, node.outputs) ||
        !(adds_up(node) ? has_half(node) : joins(node)))
      return false;
    auto& known = keeps_rounding(node) ? narrowed_ : computed_;
    Node wide = node;
    if (const auto held = multiplied(node)) wide.attrs.set(std::string(kHeldIn.name), *held);
    for (ValueId& in : wide.inputs)
      if (is_half_value(in)) in = wide_value(in);
    wide.outputs.clear();
    Node shape = wide;
    shape.outputs.assign(node.outputs.size(), 0);
    const auto inferred = infer_node(graph_, shape);
    if (!inferred) return false;
    const std::vector<ValueId> old = node.outputs;  // adding nodes moves `node`
    const auto now = patch_.add_node(std::move(wide), static_cast<uint32_t>(old.size()));
    for (size_t k = 0; k < old.size(); ++k) {
      if (old[k] == kNone) continue;
      const Type type = graph_.value(old[k]).type;
      graph_.value(now[k]).type = type;
      graph_.value(now[k]).type.dtype = inferred->types[k].dtype;
      if (inferred->types[k].dtype == type.dtype) {
        patch_.replace(old[k], now[k]);
        continue;
      }
      patch_.replace(old[k], cast(now[k], type.dtype));
      if (tolerant_) known[old[k]] = now[k];
    }
    patch_.remove(id);
    return true;
  }

 private:
  bool adds_up(const Node& node) const {
    if (!is_one_of(*node.op, kWidened)) return false;
    // What only moves elements moves halves; GridSample does by a grid of f32.
    if (node.op->name == "Resize") return node.attrs.get_string("mode", "nearest") != "nearest";
    if (node.op->name == "GridSample" && node.attrs.get_string("mode", "linear") == "nearest")
      return is_half_value(node.inputs[1]);
    return true;
  }
  bool is_half_value(ValueId v) const { return v != kNone && is_half(graph_.value(v).type.dtype); }
  bool has_half(const Node& node) const {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return is_half_value(v); });
  }

  /// Of a product: the halves that both operands are (kHeldIn).
  std::optional<int64_t> multiplied(const Node& node) const {
    if (!is_product(node)) return std::nullopt;
    const DType left = graph_.value(node.inputs[0]).type.dtype;
    if (!is_half(left) || graph_.value(node.inputs[1]).type.dtype != left) return std::nullopt;
    return onnx_number(left);
  }

  /// A Cast of f32 that the model itself has: between it and another Cast its rounding is what is
  /// asked for, in front of operators it is as good as theirs.
  bool narrows(const Node& node) const {
    return is_op(node, "Cast") && is_half_value(node.outputs[0]) &&
           graph_.value(node.inputs[0]).type.dtype == DType::kF32;
  }

  /// What only moves elements that a Cast of the model rounded: they are rounded behind it too.
  bool keeps_rounding(const Node& node) const {
    return (node.op->view || is_op(node, "Concat")) &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId v) { return narrowed_.contains(v); });
  }

  /// The f32 value that `v` was rounded from, where it is at hand and rounding may be left out.
  ValueId unrounded(ValueId v) const {
    for (const auto* known : {&computed_, &narrowed_})
      if (const auto it = known->find(v); it != known->end()) return it->second;
    return kNone;
  }

  /// What a Cast to f32 gives, where it is at hand.
  ValueId known_result(const Node& node) const {
    if (!tolerant_ || node.op->name != "Cast" || !is_half_value(node.inputs[0]) ||
        graph_.value(node.outputs[0]).type.dtype != DType::kF32)
      return kNone;
    const auto it = computed_.find(node.inputs[0]);
    return it != computed_.end() && patch_.can_replace(node.outputs[0], it->second) ? it->second
                                                                                    : kNone;
  }

  /// An operator of halves that takes f32 as well and reads what was just computed in f32: rounding
  /// in between costs time and digits.
  bool joins(const Node& node) const {
    if (!tolerant_ || !node.op->domain.empty()) return false;
    if (std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](ValueId v) { return v != kNone && !is_half_value(v); }))
      return false;
    const auto computed = [&](ValueId v) { return v != kNone && unrounded(v) != kNone; };
    if (node.op->view) return computed(node.inputs[0]);
    if (node.op->name == "Concat") {
      return std::any_of(node.inputs.begin(), node.inputs.end(), computed) &&
             std::all_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId v) { return computed(v) || graph_.value(v).is_constant(); });
    }
    if (node.op->scalar ? is_one_of(*node.op, kStepped)
                        : !node.op->reduction && !is_one_of(*node.op, kPooled))
      return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(), computed);
  }

  /// The f32 value that stands for `v`.
  ValueId wide_value(ValueId v) {
    if (const ValueId known = unrounded(v); known != kNone) return known;
    ValueId& now = widened_.try_emplace(v, kNone).first->second;
    if (now == kNone) now = make_wide(v);
    return now;
  }

  ValueId make_wide(ValueId v) {
    if (graph_.value(v).is_constant()) {
      const std::string stem = graph_.value(v).name;
      return patch_.add_constant(stem, widened(graph_.value(v).constant));
    }
    const NodeId producer = graph_.value(v).producer;
    // A view of what is at hand is a view of that.
    if (producer != kNone && graph_.node(producer).op->view &&
        graph_.node(producer).outputs.size() == 1 &&
        widened_.count(graph_.node(producer).inputs[0])) {
      Node view = graph_.node(producer);
      view.outputs.clear();
      view.inputs[0] = wide_value(view.inputs[0]);
      const ValueId now = patch_.add_node(std::move(view), 1)[0];
      graph_.value(now).type = graph_.value(v).type;
      graph_.value(now).type.dtype = DType::kF32;
      return now;
    }
    // Weights in few bits: fuse-weights keeps them so where it finds them dequantised to f32.
    if (tolerant_ && producer != kNone && graph_.node(producer).op->name == "DequantizeLinear" &&
        graph_.value(graph_.node(producer).inputs[1]).is_constant() &&
        is_half_value(graph_.node(producer).inputs[1])) {
      Node wide = graph_.node(producer);
      wide.outputs.clear();
      wide.inputs[1] = wide_value(wide.inputs[1]);
      wide.attrs.set("output_dtype", int64_t{0});
      return add_typed(graph_, patch_, std::move(wide), 1)[0];
    }
    return cast(v, DType::kF32);
  }

  ValueId cast(ValueId v, DType to) {
    Node node{.op = &get_op("Cast"), .name = {}};
    node.inputs = {v};
    node.attrs.set("to", onnx_number(to));
    return add_typed(graph_, patch_, std::move(node), 1)[0];
  }

  Graph& graph_;
  bool tolerant_;
  Patch& patch_;
  // f32 values that stand for values of halves.
  std::unordered_map<ValueId, ValueId> computed_;  ///< by this pass, not rounded to halves before
  std::unordered_map<ValueId, ValueId> narrowed_;  ///< what the model's own Casts round, moved too
  std::unordered_map<ValueId, ValueId> widened_;   ///< Casts and constants
};

}  // namespace

bool widen_halves(Graph& graph, PassContext& context) {
  Patch patch(graph, "widen-halves");
  Widener widener(graph, context, patch);
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order)
    if (widener.visit(id)) context.count("widen-halves");
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
