// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: what a classifier pays per label, as it
// stands, summed, or averaged by the labels' weights. Data are [n, classes, ...], labels [n, ...].

#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/support.h"

namespace xc {

namespace {

void infer_loss(InferContext& c) {
  const DType t = check_dtype(c, 0, kFloats);
  check_dtype(c, 1, kIndices);
  require_same_dtype(c, 2);
  const SymDims &data = c.dims(0), &labels = c.dims(1);
  if (data.size() < 2) c.error("input 0 has rank {}, expected at least 2", data.size());
  SymDims expected = data;
  expected.erase(expected.begin() + 1);
  require_dims(c, 1, expected);
  if (c.has(2)) require_vector(c, 2, data[1]);
  c.set(0, t, c.attrs().get_string("reduction", "mean") == "none" ? labels : SymDims{});
}

void infer_cross_entropy(InferContext& c) {
  infer_loss(c);
  if (c.outputs.size() > 1) c.set(1, c.dtype(0), c.dims(0));
}

/// Writes the loss of row-major log probabilities.
void write_loss(const ReferenceContext& c, const std::vector<double>& log_probabilities) {
  const auto dims = c.inputs[0].dims;
  const int64_t classes = dims[1], inner = product(dims, 2, dims.size());
  const auto labels = int_values(c.inputs[1]);
  const auto weights = c.has(2) ? double_values(c.inputs[2]) : std::vector<double>{};
  const bool ignores = c.attrs().has("ignore_index");
  const int64_t ignored = c.attrs().get_int("ignore_index", 0);
  std::vector<double> losses(labels.size(), 0.0);
  double sum = 0, weight_sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (ignores && labels[i] == ignored) continue;
    const int64_t label = checked_index(labels[i], classes, "label");
    const auto n = static_cast<int64_t>(i) / inner, at = static_cast<int64_t>(i) % inner;
    const double weight = weights.empty() ? 1 : weights[static_cast<size_t>(label)];
    losses[i] =
        -weight * log_probabilities[static_cast<size_t>((n * classes + label) * inner + at)];
    sum += losses[i];
    weight_sum += weight;
  }
  const std::string reduction = c.attrs().get_string("reduction", "mean");
  if (reduction == "none") return write_dense(c.outputs[0], losses);
  write_dense(c.outputs[0], {reduction == "mean" ? sum / weight_sum : sum});
}

void reference_loss(const ReferenceContext& c) {
  check_shapes(c);
  write_loss(c, double_values(c.inputs[0]));
}

void reference_cross_entropy(const ReferenceContext& c) {
  check_shapes(c);
  const auto dims = c.inputs[0].dims;
  const int64_t classes = dims[1], inner = product(dims, 2, dims.size());
  auto x = double_values(c.inputs[0]);
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t k) -> double& {
        return x[static_cast<size_t>((n * classes + k) * inner + i)];
      };
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < classes; ++k) top = std::max(top, at(k));
      for (int64_t k = 0; k < classes; ++k) sum += std::exp(at(k) - top);
      for (int64_t k = 0; k < classes; ++k) at(k) -= top + std::log(sum);
    }
  write_loss(c, x);
  if (c.outputs.size() > 1) write_dense(c.outputs[1], x);
}

/// The loss of log probabilities, which are of the working type: one is picked per label.
ValueId expanded_loss(Expansion& e, const Node& node, ValueId log_probabilities) {
  const ValueId zero = e.scalar(0);
  ValueId labels = e.cast(e.in(1), e.dtype(1), DType::kI64), ignored = kNone;
  if (node.attrs.has("ignore_index")) {
    ignored = e.add("Equal", {labels, e.integer(node.attrs.get_int("ignore_index", 0))});
    labels = e.add("Where", {ignored, e.integer(0), labels});
  }
  const ValueId axis = e.ints({1});
  const ValueId picked =
      e.add("GatherElements", {log_probabilities, e.add("Unsqueeze", {labels, axis})},
            {{"axis", int64_t{1}}});
  ValueId losses = e.add("Neg", {e.add("Squeeze", {picked, axis})});
  ValueId weights = kNone;
  if (e.has(2)) {
    weights = e.add("Gather", {e.widened(2), labels});
    losses = e.add("Mul", {losses, weights});
  }
  if (ignored != kNone) {
    losses = e.add("Where", {ignored, zero, losses});
    weights = e.add("Where", {ignored, zero, weights == kNone ? e.scalar(1) : weights});
  }
  const std::string reduction = node.attrs.get_string("reduction", "mean");
  const auto over_all = [&](std::string_view op, ValueId x) {
    return e.add(op, {x}, {{"keepdims", int64_t{0}}});
  };
  if (reduction == "none") return losses;
  if (reduction == "mean" && weights == kNone) return over_all("ReduceMean", losses);
  const ValueId sum = over_all("ReduceSum", losses);
  return reduction == "sum" ? sum : e.add("Div", {sum, over_all("ReduceSum", weights)});
}

std::vector<ValueId> expand_loss(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return {e.narrowed(expanded_loss(e, node, e.widened(0)))};
}

std::vector<ValueId> expand_cross_entropy(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const ValueId log_probabilities = e.add("LogSoftmax", {e.widened(0)}, {{"axis", int64_t{1}}});
  std::vector<ValueId> out{e.narrowed(expanded_loss(e, node, log_probabilities))};
  if (node.outputs.size() > 1)
    out.push_back(node.outputs[1] == kNone ? kNone : e.narrowed(log_probabilities));
  return out;
}

OpDef loss(std::string_view name, int outputs, InferFn infer, ReferenceFn reference,
           ExpandFn expand) {
  AttrSpec reduction{"reduction", AttrKind::kString};
  reduction.choices = "mean|none|sum";
  OpDef op;
  op.name = name;
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.max_outputs = outputs;
  op.attrs = {{"ignore_index", AttrKind::kInt}, reduction};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_losses(OpList& ops) {
  ops.push_back(loss("NegativeLogLikelihoodLoss", 1, infer_loss, reference_loss, expand_loss));
  ops.push_back(loss("SoftmaxCrossEntropyLoss", 2, infer_cross_entropy, reference_cross_entropy,
                     expand_cross_entropy));
}

}  // namespace xc
