// LinearClassifier (ai.onnx.ml): a score per class, or one score that tells two classes apart.

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/ml.h"

namespace xc {

namespace {

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

void infer(InferContext& c) {
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

void reference(const ReferenceContext& c) {
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
    std::vector<double> scores = intercepts;
    for (size_t t = 0; t < targets; ++t)
      for (size_t k = 0; k < row.size(); ++k)
        scores[t] += row[k] * coefficients[t * row.size() + k];
    if (labels.count() == 2 && targets == 1) {
      chosen.push_back(scores[0] > 0 ? 1 : 0);
      scores = two_scores(transform, scores[0], false);
    } else {
      chosen.push_back(top_class(scores));
      transform_scores(transform, scores);
    }
    out.insert(out.end(), scores.begin(), scores.end());
  });
  write_labels(c.outputs[0], labels, chosen);
  write_dense(c.outputs[1], out);
}

}  // namespace

void register_linear_classifier(OpList& ops) {
  ops.push_back(classifier_op("LinearClassifier",
                              {{"classlabels_ints", AttrKind::kInts},
                               {"classlabels_strings", AttrKind::kStrings},
                               {"coefficients", AttrKind::kFloats, true},
                               {"intercepts", AttrKind::kFloats},
                               {"multi_class", AttrKind::kInt, false, 0, 1},
                               score_transform_attr()},
                              infer, reference));
}

}  // namespace xc
