// LinearRegressor and LinearClassifier (ai.onnx.ml): a product and what becomes of it. The
// classifier has a score per class, or one score that tells two classes apart.

#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/ml.h"

namespace xc {

namespace {

/// x W^T + b in f32, [n, targets]; kNone where symbols leave the number of features open.
ValueId product(Expansion& x, const Attrs& attrs, int64_t targets) {
  const auto numbers = [&](const std::vector<double>& list, Dims dims) {
    Tensor out(DType::kF32, std::move(dims));
    for (size_t i = 0; i < list.size(); ++i) out.as<float>()[i] = static_cast<float>(list[i]);
    return x.constant(out);
  };
  const auto coefficients = attrs.get_floats("coefficients");
  const int64_t features = static_cast<int64_t>(coefficients.size()) / targets;
  const auto& dims = x.type(0).dims;
  if (!dims || dims->empty() || features == 0 || dims->back() != Dim(features)) return kNone;
  ValueId in = x.cast(x.in(0), x.dtype(0), DType::kF32);
  if (dims->size() == 1) in = x.add("Unsqueeze", {in, x.ints({0})});
  ValueIds operands{in, numbers(coefficients, {targets, features})};
  const auto intercepts = attrs.get_floats("intercepts");
  if (!intercepts.empty()) operands.push_back(numbers(intercepts, {targets}));
  return x.add("Gemm", operands, {{"transB", int64_t{1}}});
}

/// The transforms that one operator of the standard expresses.
bool expands(const std::string& transform) {
  return transform == "NONE" || transform == "LOGISTIC" || transform == "SOFTMAX";
}
ValueId transformed(Expansion& x, ValueId scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return x.add("Sigmoid", {scores});
  return x.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
}

/// intercepts + W row, one per target.
std::vector<double> scores_of(std::span<const double> row, const std::vector<double>& coefficients,
                              const std::vector<double>& intercepts) {
  std::vector<double> scores = intercepts;
  for (size_t t = 0; t < scores.size(); ++t)
    for (size_t k = 0; k < row.size(); ++k) scores[t] += row[k] * coefficients[t * row.size() + k];
  return scores;
}

// ---- LinearRegressor ----------------------------------------------------------------------------

void infer_regressor(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  const int64_t targets = c.attrs().get_int("targets", 1);
  const auto coefficients = static_cast<int64_t>(c.attrs().get_floats("coefficients").size());
  if (coefficients % targets != 0 || known_different(c.dims(0).back(), coefficients / targets))
    c.error("{} coefficients for {} targets of {} features", coefficients, targets,
            c.dims(0).back().text());
  if (c.attrs().has("intercepts") &&
      static_cast<int64_t>(c.attrs().get_floats("intercepts").size()) != targets)
    c.error("intercepts for another number of targets than {}", targets);
  c.set(0, DType::kF32, {row_count(c), targets});
}

void reference_regressor(const ReferenceContext& c) {
  check_shapes(c);
  const auto coefficients = c.attrs().get_floats("coefficients");
  const auto targets = static_cast<size_t>(c.attrs().get_int("targets", 1));
  const auto intercepts = c.attrs().get_floats("intercepts", std::vector<double>(targets, 0.0));
  const std::string transform = c.attrs().get_string("post_transform", "NONE");
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    std::vector<double> scores = scores_of(row, coefficients, intercepts);
    transform_scores(transform, scores);
    out.insert(out.end(), scores.begin(), scores.end());
  });
  write_dense(c.outputs[0], out);
}

ValueIds expand_regressor(const Graph& graph, const Node& node, Patch& patch) {
  Expansion x(graph, node, patch);
  const std::string transform = node.attrs.get_string("post_transform", "NONE");
  if (!expands(transform)) return {};
  const ValueId scores = product(x, node.attrs, node.attrs.get_int("targets", 1));
  if (scores == kNone) return {};
  return {transformed(x, scores, transform)};
}

// ---- LinearClassifier ---------------------------------------------------------------------------

/// Rows of coefficients: one a class, or one for two classes. Without intercepts one a class.
int64_t target_count(const Attrs& attrs) {
  const Tensor labels = class_labels(attrs);
  const auto intercepts = static_cast<int64_t>(attrs.get_floats("intercepts").size());
  const int64_t targets = intercepts == 0 ? labels.count() : intercepts;
  if (targets != labels.count() && (targets != 1 || labels.count() != 2))
    fail(Status::kInvalidModel, "attribute 'intercepts' has {} entries for {} classes", targets,
         labels.count());
  return targets;
}

void infer_classifier(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  const Tensor labels = class_labels(c.attrs());
  const int64_t targets = target_count(c.attrs());
  const auto coefficients = static_cast<int64_t>(c.attrs().get_floats("coefficients").size());
  if (coefficients % targets != 0 || known_different(c.dims(0).back(), coefficients / targets))
    c.error("attribute 'coefficients' has {} entries for {} targets of {} features", coefficients,
            targets, c.dims(0).back().text());
  c.set(0, labels.dtype(), {row_count(c)});
  c.set(1, DType::kF32, {row_count(c), labels.count()});
}

void reference_classifier(const ReferenceContext& c) {
  check_shapes(c);
  const Tensor labels = class_labels(c.attrs());
  const auto targets = static_cast<size_t>(target_count(c.attrs()));
  const auto coefficients = c.attrs().get_floats("coefficients");
  auto intercepts = c.attrs().get_floats("intercepts");
  intercepts.resize(targets, 0.0);
  const std::string transform = c.attrs().get_string("post_transform", "NONE");
  std::vector<size_t> chosen;
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    std::vector<double> scores = scores_of(row, coefficients, intercepts);
    if (labels.count() == 2 && targets == 1) {
      chosen.push_back(scores[0] > 0 ? 1 : 0);
      const auto both = two_scores(transform, scores[0], false);
      scores.assign(both.begin(), both.end());
    } else {
      chosen.push_back(top_class(scores));
      transform_scores(transform, scores);
    }
    out.insert(out.end(), scores.begin(), scores.end());
  });
  write_labels(c.outputs[0], labels, chosen);
  write_dense(c.outputs[1], out);
}

ValueIds expand_classifier(const Graph& graph, const Node& node, Patch& patch) {
  const auto labels = node.attrs.get_ints("classlabels_ints");
  if (labels.empty()) return expand_text_labels(graph, node, patch);
  Expansion x(graph, node, patch);
  const std::string transform = node.attrs.get_string("post_transform", "NONE");
  if (!expands(transform)) return {};
  const int64_t targets = target_count(node.attrs);
  const ValueId scores = product(x, node.attrs, targets);
  if (scores == kNone) return {};
  if (labels.size() == 2 && targets == 1) {
    const auto number = [&](float value) {
      return x.constant(Tensor::of(std::vector<float>{value}));
    };
    const ValueId second = x.add("Squeeze", {x.add("Greater", {scores, number(0)}), x.ints({1})});
    const ValueId label = x.add("Where", {second, x.integer(labels[1]), x.integer(labels[0])});
    const bool logistic = transform == "LOGISTIC";
    const ValueId first = logistic ? x.add("Neg", {scores}) : x.add("Sub", {number(1), scores});
    const ValueId both = x.add("Concat", {first, scores}, {{"axis", int64_t{1}}});
    return {label, logistic ? x.add("Sigmoid", {both}) : both};
  }
  const ValueId top = x.add("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}});
  std::vector<int64_t> numbers(labels.size());
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return {labels == numbers ? top : x.add("Gather", {x.ints(labels), top}),
          transformed(x, scores, transform)};
}

}  // namespace

void register_linear_models(OpList& ops) {
  OpDef op = ml_op("LinearRegressor",
                   {{"coefficients", AttrKind::kFloats, true},
                    {"intercepts", AttrKind::kFloats},
                    score_transform_attr(),
                    {"targets", AttrKind::kInt, false, 1, INT32_MAX}},
                   infer_regressor, reference_regressor);
  op.tolerance = Tolerance::kContraction;
  op.expand = expand_regressor;
  ops.push_back(std::move(op));
  op = classifier_op("LinearClassifier",
                     {{"classlabels_ints", AttrKind::kInts},
                      {"classlabels_strings", AttrKind::kStrings},
                      {"coefficients", AttrKind::kFloats, true},
                      {"intercepts", AttrKind::kFloats},
                      {"multi_class", AttrKind::kInt, false, 0, 1},
                      score_transform_attr()},
                     infer_classifier, reference_classifier);
  op.expand = expand_classifier;
  ops.push_back(std::move(op));
}

}  // namespace xc
