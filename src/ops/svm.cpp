// SVMClassifier and SVMRegressor (ai.onnx.ml): kernels between a row and support vectors, or,
// without support vectors, a plain linear model.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/ml.h"

namespace xc {

namespace {

/// k(row, vector) for two vectors of one length.
struct Kernel {
  std::string type = "LINEAR";
  double gamma = 0, coef0 = 0, degree = 0;

  explicit Kernel(const Attrs& attrs) : type(attrs.get_string("kernel_type", "LINEAR")) {
    const auto params = attrs.get_floats("kernel_params");
    if (params.empty()) return;
    if (params.size() != 3)
      fail(Status::kInvalidModel, "attribute 'kernel_params' has {} entries, expected 3",
           params.size());
    gamma = params[0];
    coef0 = params[1];
    degree = params[2];
  }

  double operator()(std::span<const double> a, std::span<const double> b) const {
    double sum = 0;
    if (type == "RBF") {
      for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
      return std::exp(-gamma * sum);
    }
    sum = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    if (type == "LINEAR") return sum;
    sum = gamma * sum + coef0;
    return type == "POLY" ? std::pow(sum, degree) : std::tanh(sum);
  }
};

/// Attributes of both operators, checked against each other.
struct Machine {
  Kernel kernel;
  std::vector<double> coefficients, rho, vectors;
  size_t vector_count = 0;  ///< 0: linear, `coefficients` are the weights of the features
  size_t features = 0;

  Machine(const Attrs& attrs, int64_t count, size_t linear_rows)
      : kernel(attrs),
        coefficients(attrs.get_floats("coefficients")),
        rho(attrs.get_floats("rho")),
        vectors(attrs.get_floats("support_vectors")),
        vector_count(static_cast<size_t>(count)) {
    if (rho.empty()) fail(Status::kInvalidModel, "attribute 'rho' is empty");
    const size_t rows = vector_count == 0 ? linear_rows : vector_count;
    const auto& table = vector_count == 0 ? coefficients : vectors;
    if (table.empty() || table.size() % rows != 0)
      fail(Status::kInvalidModel, "attribute '{}' has {} entries, which is no multiple of {} {}",
           vector_count == 0 ? "coefficients" : "support_vectors", table.size(), rows,
           vector_count == 0 ? "classes" : "vectors");
    features = table.size() / rows;
  }

  void expect_coefficients(size_t count) const {
    if (coefficients.size() != count)
      fail(Status::kInvalidModel, "attribute 'coefficients' has {} entries, expected {}",
           coefficients.size(), count);
  }

  std::span<const double> vector(size_t k) const {
    return std::span(vectors).subspan(k * features, features);
  }
  /// Sum of products of a row with row k of the weights of a linear model.
  double linear(std::span<const double> row, size_t k) const {
    return std::inner_product(row.begin(), row.end(),
                              coefficients.begin() + static_cast<std::ptrdiff_t>(k * features),
                              0.0);
  }
};

void check_features(InferContext& c, const Machine& machine) {
  check_rows(c);
  if (known_different(c.dims(0).back(), static_cast<int64_t>(machine.features)))
    c.error("the input has {} features, the model {}", c.dims(0).back().text(), machine.features);
}

// ---- SVMRegressor -------------------------------------------------------------------------------

Machine regressor(const Attrs& attrs) {
  Machine machine(attrs, attrs.get_int("n_supports", 0), 1);
  if (machine.vector_count > 0) machine.expect_coefficients(machine.vector_count);
  return machine;
}

void infer_regressor(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_features(c, regressor(c.attrs()));
  c.set(0, DType::kF32, {row_count(c), Dim(1)});
}

void reference_regressor(const ReferenceContext& c) {
  check_shapes(c);
  const Machine machine = regressor(c.attrs());
  const std::string transform = c.attrs().get_string("post_transform", "NONE");
  const bool one_class = c.attrs().get_int("one_class", 0) != 0;
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    double score = machine.vector_count == 0 ? machine.linear(row, 0) : 0;
    for (size_t k = 0; k < machine.vector_count; ++k)
      score += machine.coefficients[k] * machine.kernel(row, machine.vector(k));
    score += machine.rho[0];
    if (one_class) score = score > 0 ? 1 : -1;
    transform_scores(transform, std::span(&score, 1));
    out.push_back(score);
  });
  write_dense(c.outputs[0], out);
}

// ---- SVMClassifier ------------------------------------------------------------------------------

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

struct Classifier {
  Tensor labels;
  std::vector<int64_t> per_class;  ///< support vectors of each class; empty: a linear model
  Machine machine;
  std::vector<double> prob_a, prob_b;

  explicit Classifier(const Attrs& attrs)
      : labels(class_labels(attrs)),
        per_class(attrs.get_ints("vectors_per_class")),
        machine(attrs, vector_total(per_class), static_cast<size_t>(labels.count())),
        prob_a(attrs.get_floats("prob_a")),
        prob_b(attrs.get_floats("prob_b")) {
    if (machine.vector_count == 0) return;
    if (per_class.size() != classes())
      fail(Status::kInvalidModel, "attribute 'vectors_per_class' has {} entries for {} classes",
           per_class.size(), classes());
    if (classes() < 2) fail(Status::kInvalidModel, "support vectors of one class");
    machine.expect_coefficients((classes() - 1) * machine.vector_count);
    if (machine.rho.size() != pairs())
      fail(Status::kInvalidModel, "attribute 'rho' has {} entries for {} pairs of classes",
           machine.rho.size(), pairs());
    if (prob_a.size() != prob_b.size() || (!prob_a.empty() && prob_a.size() != pairs()))
      fail(Status::kInvalidModel,
           "attributes 'prob_a' and 'prob_b' have {} and {} entries for {} pairs of classes",
           prob_a.size(), prob_b.size(), pairs());
  }

  size_t classes() const { return static_cast<size_t>(labels.count()); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  /// Columns of the scores.
  size_t columns() const {
    return machine.vector_count == 0 || !prob_a.empty() || classes() == 2 ? classes() : pairs();
  }

  /// Decision values of each pair of classes (0,1), (0,2), ... (1,2), ...: above 0 for the first.
  std::vector<double> decisions(std::span<const double> row) const {
    std::vector<double> kernels;
    for (size_t k = 0; k < machine.vector_count; ++k)
      kernels.push_back(machine.kernel(row, machine.vector(k)));
    // The vectors of class i have their coefficients against class j in row j - 1 below the
    // diagonal, row j above it.
    const auto weighted = [&](size_t begin, size_t of, size_t coefficient_row) {
      double sum = 0;
      for (size_t k = begin; k < begin + static_cast<size_t>(per_class[of]); ++k)
        sum += machine.coefficients[coefficient_row * machine.vector_count + k] * kernels[k];
      return sum;
    };
    std::vector<double> out;
    size_t begin_i = 0;
    for (size_t i = 0; i < classes(); ++i) {
      size_t begin_j = begin_i + static_cast<size_t>(per_class[i]);
      for (size_t j = i + 1; j < classes(); ++j) {
        out.push_back(weighted(begin_i, i, j - 1) + weighted(begin_j, j, i) +
                      machine.rho[out.size()]);
        begin_j += static_cast<size_t>(per_class[j]);
      }
      begin_i += static_cast<size_t>(per_class[i]);
    }
    return out;
  }

  size_t most_votes(const std::vector<double>& decided) const {
    std::vector<double> votes(classes(), 0.0);
    size_t pair = 0;
    for (size_t i = 0; i < classes(); ++i)
      for (size_t j = i + 1; j < classes(); ++j) ++votes[decided[pair++] > 0 ? i : j];
    return top_class(votes);
  }

  /// Platt's sigmoid of each decision, kept off 0 and 1, then coupled.
  std::vector<double> probabilities(const std::vector<double>& decided) const {
    constexpr double kMargin = 1e-7;
    std::vector<std::vector<double>> r(classes(), std::vector<double>(classes(), 0.0));
    size_t pair = 0;
    for (size_t i = 0; i < classes(); ++i)
      for (size_t j = i + 1; j < classes(); ++j, ++pair) {
        const double p = 1 / (1 + std::exp(decided[pair] * prob_a[pair] + prob_b[pair]));
        r[i][j] = std::clamp(p, kMargin, 1 - kMargin);
        r[j][i] = 1 - r[i][j];
      }
    return coupled(r);
  }

 private:
  static int64_t vector_total(const std::vector<int64_t>& per_class) {
    int64_t total = 0;
    for (const int64_t n : per_class) total = checked_add(total, n);
    return total;
  }
};

void infer_classifier(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  const Classifier classifier(c.attrs());
  check_features(c, classifier.machine);
  c.set(0, classifier.labels.dtype(), {row_count(c)});
  c.set(1, DType::kF32, {row_count(c), static_cast<int64_t>(classifier.columns())});
}

void reference_classifier(const ReferenceContext& c) {
  check_shapes(c);
  const Classifier classifier(c.attrs());
  const Machine& machine = classifier.machine;
  const std::string transform = c.attrs().get_string("post_transform", "NONE");
  std::vector<size_t> chosen;
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    std::vector<double> scores;
    if (machine.vector_count == 0) {
      for (size_t k = 0; k < classifier.classes(); ++k)
        scores.push_back(machine.linear(row, k) + machine.rho[0]);
      chosen.push_back(top_class(scores));
    } else {
      scores = classifier.decisions(row);
      chosen.push_back(classifier.most_votes(scores));
      if (!classifier.prob_a.empty()) scores = classifier.probabilities(scores);
    }
    if (scores.size() == 1 && classifier.classes() == 2)
      scores = two_scores(transform, scores[0], transform == "NONE");
    else
      transform_scores(transform, scores);
    out.insert(out.end(), scores.begin(), scores.end());
  });
  write_labels(c.outputs[0], classifier.labels, chosen);
  write_dense(c.outputs[1], out);
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
                          infer_regressor, reference_regressor);
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
                              infer_classifier, reference_classifier));
}

}  // namespace xc
