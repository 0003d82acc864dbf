// SVMClassifier and SVMRegressor (ai.onnx.ml): kernels between a row and support vectors, or,
// without support vectors, a plain linear model.

#include "ops/svm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/ml.h"

namespace xc {

namespace {

int64_t total(const std::vector<int64_t>& counts) {
  int64_t out = 0;
  for (const int64_t n : counts) out = checked_add(out, n);
  return out;
}

/// Sum of products in four parts, which do not wait for each other.
double product(std::span<const double> a, std::span<const double> b) {
  double first = 0, second = 0, third = 0, fourth = 0;
  size_t i = 0;
  for (; i + 4 <= a.size(); i += 4) {
    first += a[i] * b[i];
    second += a[i + 1] * b[i + 1];
    third += a[i + 2] * b[i + 2];
    fourth += a[i + 3] * b[i + 3];
  }
  for (; i < a.size(); ++i) first += a[i] * b[i];
  return (first + second) + (third + fourth);
}

/// Class probabilities p from the pairwise ones, r[i][j] = P(i | i or j), by the iteration of T.-F.
/// Wu, C.-J. Lin and R. C. Weng, "Probability estimates for multi-class classification by pairwise
/// coupling" (2004), algorithm 2: it solves min p'Qp for p >= 0 with sum 1, one p at a time. Bounds
/// on steps and error are those of LIBSVM.
std::vector<double> coupled(const std::vector<std::vector<double>>& r) {
  const size_t k = r.size();
  std::vector<std::vector<double>> q(k, std::vector<double>(k, 0.0));
  for (size_t i = 0; i < k; ++i)
    for (size_t j = 0; j < k; ++j) {
      if (i == j) continue;
      q[i][i] += r[j][i] * r[j][i];
      q[i][j] = -r[j][i] * r[i][j];
    }
  std::vector<double> p(k, 1.0 / static_cast<double>(k)), qp(k);
  const double small = 0.005 / static_cast<double>(k);
  for (size_t step = 0; step < std::max<size_t>(100, k); ++step) {
    double pqp = 0, error = 0;
    for (size_t i = 0; i < k; ++i) {
      qp[i] = std::inner_product(p.begin(), p.end(), q[i].begin(), 0.0);
      pqp += p[i] * qp[i];
    }
    for (const double v : qp) error = std::max(error, std::abs(v - pqp));
    if (error < small) break;
    for (size_t i = 0; i < k; ++i) {
      const double change = (pqp - qp[i]) / q[i][i], scale = 1 / (1 + change);
      pqp = (pqp + change * (change * q[i][i] + 2 * qp[i])) * scale * scale;
      p[i] += change;
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + change * q[i][j]) * scale;
        p[j] *= scale;
      }
    }
  }
  return p;
}

}  // namespace

SvmKernel::SvmKernel(const Attrs& attrs) {
  const std::string type = attrs.get_string("kernel_type", "LINEAR");
  kind = type == "POLY"      ? Kind::kPoly
         : type == "RBF"     ? Kind::kRbf
         : type == "SIGMOID" ? Kind::kSigmoid
                             : Kind::kLinear;
  const auto params = attrs.get_floats("kernel_params");
  if (params.empty()) return;
  if (params.size() != 3)
    fail(Status::kInvalidModel, "attribute 'kernel_params' has {} entries, expected 3",
         params.size());
  gamma = params[0];
  coef0 = params[1];
  degree = params[2];
}

double SvmKernel::operator()(std::span<const double> a, std::span<const double> b) const {
  if (kind != Kind::kRbf) return of(product(a, b));
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return of(sum);
}

double SvmKernel::of(double sum) const {
  switch (kind) {
    case Kind::kLinear:
      return sum;
    case Kind::kPoly:
      return std::pow(gamma * sum + coef0, degree);
    case Kind::kRbf:
      return std::exp(-gamma * sum);
    case Kind::kSigmoid:
      break;
  }
  return std::tanh(gamma * sum + coef0);
}

SvmModel::SvmModel(const Node& node)
    : kernel_(node.attrs),
      coefficients_(node.attrs.get_floats("coefficients")),
      rho_(node.attrs.get_floats("rho")),
      vectors_(node.attrs.get_floats("support_vectors")),
      transform_(node.attrs.get_string("post_transform", "NONE")) {
  if (node.op->name == "SVMClassifier")
    read_classifier(node.attrs);
  else
    read_regressor(node.attrs);
  if (vector_count_ == 0) kernel_.kind = SvmKernel::Kind::kLinear;
}

void SvmModel::read_terms(int64_t vector_count, size_t linear_rows) {
  vector_count_ = static_cast<size_t>(vector_count);
  if (rho_.empty()) fail(Status::kInvalidModel, "attribute 'rho' is empty");
  const size_t rows = vector_count_ == 0 ? linear_rows : vector_count_;
  if (terms().empty() || terms().size() % rows != 0)
    fail(Status::kInvalidModel, "attribute '{}' has {} entries, which is no multiple of {} {}",
         vector_count_ == 0 ? "coefficients" : "support_vectors", terms().size(), rows,
         vector_count_ == 0 ? "classes" : "vectors");
  features_ = terms().size() / rows;
}

void SvmModel::expect_coefficients(size_t count) const {
  if (coefficients_.size() != count)
    fail(Status::kInvalidModel, "attribute 'coefficients' has {} entries, expected {}",
         coefficients_.size(), count);
}

void SvmModel::read_regressor(const Attrs& attrs) {
  one_class_ = attrs.get_int("one_class", 0) != 0;
  read_terms(attrs.get_int("n_supports", 0), 1);
  if (vector_count_ > 0) expect_coefficients(vector_count_);
}

void SvmModel::read_classifier(const Attrs& attrs) {
  labels_ = class_labels(attrs);
  per_class_ = attrs.get_ints("vectors_per_class");
  prob_a_ = attrs.get_floats("prob_a");
  prob_b_ = attrs.get_floats("prob_b");
  read_terms(total(per_class_), classes());
  if (vector_count_ == 0) return;
  if (per_class_.size() != classes())
    fail(Status::kInvalidModel, "attribute 'vectors_per_class' has {} entries for {} classes",
         per_class_.size(), classes());
  if (classes() < 2) fail(Status::kInvalidModel, "support vectors of one class");
  expect_coefficients((classes() - 1) * vector_count_);
  if (rho_.size() != pairs())
    fail(Status::kInvalidModel, "attribute 'rho' has {} entries for {} pairs of classes",
         rho_.size(), pairs());
  if (prob_a_.size() != prob_b_.size() || (!prob_a_.empty() && prob_a_.size() != pairs()))
    fail(Status::kInvalidModel,
         "attributes 'prob_a' and 'prob_b' have {} and {} entries for {} pairs of classes",
         prob_a_.size(), prob_b_.size(), pairs());
}

size_t SvmModel::columns() const {
  if (!labels_) return 1;
  return vector_count_ == 0 || !prob_a_.empty() || classes() == 2 ? classes() : pairs();
}

/// Decision values of each pair of classes (0,1), (0,2), ... (1,2), ...: above 0 for the first.
std::vector<double> SvmModel::decisions(std::span<const double> kernels) const {
  // The vectors of class i have their coefficients against class j in row j - 1 below the
  // diagonal, row j above it.
  const auto weighted = [&](size_t begin, size_t of, size_t coefficient_row) {
    const auto count = static_cast<size_t>(per_class_[of]);
    return product(std::span(coefficients_).subspan(coefficient_row * vector_count_ + begin, count),
                   kernels.subspan(begin, count));
  };
  std::vector<double> out;
  size_t begin_i = 0;
  for (size_t i = 0; i < classes(); ++i) {
    size_t begin_j = begin_i + static_cast<size_t>(per_class_[i]);
    for (size_t j = i + 1; j < classes(); ++j) {
      out.push_back(weighted(begin_i, i, j - 1) + weighted(begin_j, j, i) + rho_[out.size()]);
      begin_j += static_cast<size_t>(per_class_[j]);
    }
    begin_i += static_cast<size_t>(per_class_[i]);
  }
  return out;
}

size_t SvmModel::most_votes(std::span<const double> decided) const {
  std::vector<double> votes(classes(), 0.0);
  size_t pair = 0;
  for (size_t i = 0; i < classes(); ++i)
    for (size_t j = i + 1; j < classes(); ++j) ++votes[decided[pair++] > 0 ? i : j];
  return top_class(votes);
}

/// Platt's sigmoid of each decision, kept off 0 and 1, then coupled.
std::vector<double> SvmModel::probabilities(std::span<const double> decided) const {
  constexpr double kMargin = 1e-7;
  std::vector<std::vector<double>> r(classes(), std::vector<double>(classes(), 0.0));
  size_t pair = 0;
  for (size_t i = 0; i < classes(); ++i)
    for (size_t j = i + 1; j < classes(); ++j, ++pair) {
      const double p = 1 / (1 + std::exp(decided[pair] * prob_a_[pair] + prob_b_[pair]));
      r[i][j] = std::clamp(p, kMargin, 1 - kMargin);
      r[j][i] = 1 - r[i][j];
    }
  return coupled(r);
}

size_t SvmModel::finish(std::span<const double> kernels, std::vector<double>& scores) const {
  if (!labels_) {
    double score = vector_count_ == 0 ? kernels[0] : product(kernels, coefficients_);
    score += rho_[0];
    if (one_class_) score = score > 0 ? 1 : -1;
    transform_scores(transform_, std::span(&score, 1));
    scores.push_back(score);
    return 0;
  }
  std::vector<double> out;
  size_t chosen = 0;
  if (vector_count_ == 0) {
    for (const double product : kernels) out.push_back(product + rho_[0]);
    chosen = top_class(out);
  } else {
    out = decisions(kernels);
    chosen = most_votes(out);
    if (!prob_a_.empty()) out = probabilities(out);
  }
  if (out.size() == 1 && classes() == 2) {
    const auto both = two_scores(transform_, out[0], transform_ == "NONE");
    out.assign(both.begin(), both.end());
  } else {
    transform_scores(transform_, out);
  }
  scores.insert(scores.end(), out.begin(), out.end());
  return chosen;
}

namespace {

void infer(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  const SvmModel model(*c.node);
  check_rows(c);
  if (known_different(c.dims(0).back(), static_cast<int64_t>(model.features())))
    c.error("the input has {} features, the model {}", c.dims(0).back().text(), model.features());
  if (model.labels()) c.set(0, model.labels().dtype(), {row_count(c)});
  c.set(model.labels() ? 1 : 0, DType::kF32, {row_count(c), static_cast<int64_t>(model.columns())});
}

void reference(const ReferenceContext& c) {
  check_shapes(c);
  const SvmModel model(*c.node);
  std::vector<size_t> chosen;
  std::vector<double> out, kernels(model.term_count());
  for_each_row(c, [&](std::span<const double> row) {
    for (size_t k = 0; k < kernels.size(); ++k) kernels[k] = model.kernel()(row, model.term(k));
    chosen.push_back(model.finish(kernels, out));
  });
  if (model.labels()) write_labels(c.outputs[0], model.labels(), chosen);
  write_dense(c.outputs.back(), out);
}

}  // namespace

void register_svm(OpList& ops) {
  AttrSpec kernel{"kernel_type", AttrKind::kString};
  kernel.choices = "LINEAR|POLY|RBF|SIGMOID";
  OpDef regressor = ml_op("SVMRegressor",
                          {{"coefficients", AttrKind::kFloats, true},
                           {"kernel_params", AttrKind::kFloats},
                           kernel,
                           {"n_supports", AttrKind::kInt, false, 0, INT32_MAX},
                           {"one_class", AttrKind::kInt, false, 0, 1},
                           score_transform_attr(),
                           {"rho", AttrKind::kFloats, true},
                           {"support_vectors", AttrKind::kFloats}},
                          infer, reference);
  regressor.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(regressor));
  ops.push_back(classifier_op("SVMClassifier",
                              {{"classlabels_ints", AttrKind::kInts},
                               {"classlabels_strings", AttrKind::kStrings},
                               {"coefficients", AttrKind::kFloats, true},
                               {"kernel_params", AttrKind::kFloats},
                               kernel,
                               score_transform_attr(),
                               {"prob_a", AttrKind::kFloats},
                               {"prob_b", AttrKind::kFloats},
                               {"rho", AttrKind::kFloats, true},
                               {"support_vectors", AttrKind::kFloats},
                               {"vectors_per_class", AttrKind::kInts, false, 0, INT32_MAX}},
                              infer, reference));
}

}  // namespace xc
