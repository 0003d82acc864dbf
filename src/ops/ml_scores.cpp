// Scores and labels of the models of ai.onnx.ml.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "ops/expansion.h"
#include "ops/ml.h"

namespace xc {

namespace {

double logistic(double s) {
  return 1 / (1 + std::exp(-s));
}

/// sqrt(2) * erf^-1(2 p - 1) with erf^-1 by S. Winitzki, "A handy approximation for the error
/// function and its inverse" (2008), a = 0.147. -inf at 0, inf at 1, NaN outside.
double probit(double p) {
  constexpr double a = 0.147;
  const double x = 2 * p - 1;
  const double log = std::log((1 - x) * (1 + x));
  const double half = 2 / (std::numbers::pi * a) + log / 2;
  const double root = std::sqrt(std::sqrt(half * half - log / a) - half);
  return std::numbers::sqrt2 * std::copysign(root, x);
}

/// Scores this small count as absent for SOFTMAX_ZERO (onnxruntime, the standard's reference).
constexpr double kZeroScore = 1e-7;

}  // namespace

void transform_scores(std::string_view kind, std::span<double> scores) {
  if (kind == "LOGISTIC")
    for (double& s : scores) s = logistic(s);
  if (kind == "PROBIT")
    for (double& s : scores) s = probit(s);
  const bool keep_zeros = kind == "SOFTMAX_ZERO";
  if ((kind != "SOFTMAX" && !keep_zeros) || scores.empty()) return;
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) {
    if (keep_zeros && std::abs(s) <= kZeroScore)
      s *= std::exp(-top);
    else
      sum += s = std::exp(s - top);
  }
  if (sum != 0)
    for (double& s : scores) s /= sum;
}

AttrSpec score_transform_attr() {
  AttrSpec out{"post_transform", AttrKind::kString};
  out.choices = kScoreTransforms;
  return out;
}

std::array<double, 2> two_scores(std::string_view kind, double s, bool signed_score) {
  if (kind == "LOGISTIC") return {logistic(-s), logistic(s)};
  if (kind == "PROBIT") return {-probit(s), probit(s)};
  return {signed_score ? -s : 1 - s, s};
}

Tensor class_labels(const Attrs& attrs, std::string_view ints, std::string_view strings) {
  const auto numbers = attrs.get_ints(ints);
  const auto names = attrs.get_strings(strings);
  if (numbers.empty() == names.empty())
    fail(Status::kInvalidModel, "{} of the attributes '{}' and '{}' have labels, expected one",
         numbers.empty() ? "none" : "both", ints, strings);
  return names.empty() ? Tensor::of(numbers) : Tensor::of(names);
}

size_t top_class(std::span<const double> scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void write_labels(const TensorView& view, const Tensor& labels, const std::vector<size_t>& chosen) {
  if (!view) return;
  dispatch_storage(view.dtype, [&]<class T>() {
    for (size_t n = 0; n < chosen.size(); ++n)
      view.as<T>()[static_cast<int64_t>(n) * view.strides[0]] = labels.as<T>()[chosen[n]];
  });
}

ValueIds expand_text_labels(const Graph& graph, const Node& node, Patch& patch) {
  const auto texts = node.attrs.get_strings("classlabels_strings");
  if (texts.empty()) return {};
  std::string_view ints;  // the operators differ in its name
  for (const AttrSpec& attr : node.op->attrs)
    if (attr.name.starts_with("classlabels_int")) ints = attr.name;
  std::vector<int64_t> numbers(texts.size());
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  Attrs attrs = node.attrs;
  attrs.erase("classlabels_strings");
  attrs.set(std::string(ints), numbers);
  Expansion x(graph, node, patch);
  const auto outputs = patch.add_node(*node.op, node.inputs, 2, std::move(attrs), node.name);
  return {x.add("Gather", {x.constant(Tensor::of(texts)), outputs[0]}), outputs[1]};
}

OpDef classifier_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
                    ReferenceFn reference) {
  OpDef op = ml_op(name, std::move(attrs), infer, reference);
  op.min_outputs = op.max_outputs = 2;
  op.tolerance = Tolerance::kContraction;
  op.expand = expand_text_labels;
  return op;
}

}  // namespace xc
