#include <cmath>
#include <optional>

#include "ir/patch.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// Per output channel: y = scale * x + shift.
struct Affine {
  std::vector<double> scale, shift;
};

std::optional<Affine> inference_affine(const Graph& graph, const Node& norm) {
  if (norm.op->name != "BatchNormalization" || !norm.op->domain.empty() ||
      norm.inputs.size() != 5 || norm.attrs.get_int("training_mode", 0) != 0)
    return std::nullopt;
  for (size_t i = 1; i < norm.outputs.size(); ++i)
    if (norm.outputs[i] != kNone) return std::nullopt;
  std::vector<std::vector<double>> parameters;
  for (size_t i = 1; i < 5; ++i) {
    const Tensor& t = graph.value(norm.inputs[i]).constant;
    if (!t || !is_float(t.dtype()) || t.rank() != 1) return std::nullopt;
    parameters.push_back(t.to_doubles());
    if (parameters.back().size() != parameters.front().size()) return std::nullopt;
  }
  const double epsilon = norm.attrs.get_float("epsilon", 1e-5);
  Affine out;
  for (size_t c = 0; c < parameters[0].size(); ++c) {
    const double scale = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
    out.scale.push_back(scale);
    out.shift.push_back(parameters[1][c] - parameters[2][c] * scale);
    if (!std::isfinite(scale) || !std::isfinite(out.shift.back())) return std::nullopt;
  }
  return out;
}

/// Weights with axis 0 scaled.
Tensor scaled(const Tensor& weights, const std::vector<double>& scale) {
  const Tensor from = weights.to_contiguous();
  Tensor out(from.dtype(), from.dims());
  const int64_t channel = from.count() / from.dims()[0];
  for (int64_t c = 0; c < from.dims()[0]; ++c) {
    const double factor = scale[static_cast<size_t>(c)];
    if (from.dtype() == DType::kF32) {
      const float* a = from.as<float>() + c * channel;
      float* b = out.as<float>() + c * channel;
      for (int64_t i = 0; i < channel; ++i) b[i] = static_cast<float>(a[i] * factor);
      continue;
    }
    for (int64_t i = c * channel; i < (c + 1) * channel; ++i)
      store_double(out.data(), out.dtype(), i, load_double(from.data(), from.dtype(), i) * factor);
  }
  return out;
}

}  // namespace

bool fold_batch_norm(Graph& graph, PassContext& context) {
  if (!context.options.tolerant) return false;
  const std::vector<std::vector<NodeId>> users = graph.users();
  Patch patch(graph, "fold-batch-norm");
  for (NodeId id : graph.order()) {
    const Node& norm = graph.node(id);
    const std::optional<Affine> affine = inference_affine(graph, norm);
    if (!affine) continue;
    const ValueId between = norm.inputs[0];
    const NodeId conv_id = graph.value(between).producer;
    if (conv_id == kNone || graph.only_user(users, between) == kNone) continue;
    const Node& conv = graph.node(conv_id);
    if (conv.op->name != "Conv" || !conv.op->domain.empty()) continue;
    const Value& weights = graph.value(conv.inputs[1]);
    const bool biased = conv.inputs.size() > 2 && conv.inputs[2] != kNone;
    const Tensor& w = weights.constant;
    if (!w || !is_float(w.dtype()) || w.rank() < 1 || w.count() == 0 ||
        w.dims()[0] != static_cast<int64_t>(affine->scale.size()))
      continue;
    if (biased && !graph.value(conv.inputs[2]).is_constant()) continue;

    Tensor bias(w.dtype(), {w.dims()[0]});
    for (int64_t c = 0; c < w.dims()[0]; ++c) {
      const auto k = static_cast<size_t>(c);
      double value = affine->shift[k];
      if (biased) {
        const Tensor& old = graph.value(conv.inputs[2]).constant;
        value += affine->scale[k] * load_double(old.to_contiguous().data(), old.dtype(), c);
      }
      store_double(bias.data(), bias.dtype(), c, value);
    }
    Node now{.op = conv.op, .name = conv.name};
    now.attrs = conv.attrs;
    now.inputs = {conv.inputs[0],
                  patch.add_constant(weights.name + ".folded", scaled(w, affine->scale)),
                  patch.add_constant(weights.name + ".bias", std::move(bias))};
    patch.replace(norm.outputs[0], add_typed(graph, patch, std::move(now), 1)[0]);
    patch.remove(id);
    patch.remove(conv_id);
    context.count("fold-batch-norm");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
