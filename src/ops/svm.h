#pragma once
// Support vector machines of ai.onnx.ml: what SVMRegressor and SVMClassifier share.

#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace xc {

/// k(row, vector) for two vectors of one length.
struct SvmKernel {
  enum class Kind : uint8_t { kLinear, kPoly, kRbf, kSigmoid };
  Kind kind = Kind::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;

  explicit SvmKernel(const Attrs& attrs);
  double operator()(std::span<const double> a, std::span<const double> b) const;
  /// From the product of the two vectors; for kRbf from their squared distance.
  double of(double sum) const;
};

/// The attributes of either operator, read and checked: reading takes longer than a row does.
class SvmModel {
 public:
  /// Fails with kInvalidModel.
  explicit SvmModel(const Node& node);

  size_t features() const { return features_; }
  /// What a row is held against: support vectors or, where there are none, the weights of a linear
  /// model.
  size_t term_count() const { return terms().size() / features_; }
  std::span<const double> term(size_t k) const { return terms().subspan(k * features_, features_); }
  const SvmKernel& kernel() const { return kernel_; }
  /// Of a classifier; undefined for regression.
  const Tensor& labels() const { return labels_; }
  /// Scores of a row.
  size_t columns() const;
  /// Appends the scores of a row, given its kernels with all terms; returns its class.
  size_t finish(std::span<const double> kernels, std::vector<double>& scores) const;

 private:
  void read_regressor(const Attrs& attrs);
  void read_classifier(const Attrs& attrs);
  void read_terms(int64_t vector_count, size_t linear_rows);
  void expect_coefficients(size_t count) const;
  std::span<const double> terms() const { return vector_count_ == 0 ? coefficients_ : vectors_; }
  size_t classes() const { return static_cast<size_t>(labels_.count()); }
  size_t pairs() const { return classes() * (classes() - 1) / 2; }
  std::vector<double> decisions(std::span<const double> kernels) const;
  size_t most_votes(std::span<const double> decided) const;
  std::vector<double> probabilities(std::span<const double> decided) const;

  SvmKernel kernel_;
  std::vector<double> coefficients_, rho_, vectors_;
  size_t vector_count_ = 0;  ///< 0: linear, `coefficients_` are the weights of the features
  size_t features_ = 0;
  std::string transform_;
  bool one_class_ = false;  ///< of regression: 1 in the class, -1 outside
  Tensor labels_ = {};
  std::vector<int64_t> per_class_ = {};  ///< support vectors of each class
  std::vector<double> prob_a_ = {}, prob_b_ = {};
};

}  // namespace xc
