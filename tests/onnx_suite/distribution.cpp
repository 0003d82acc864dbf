#include "onnx_suite/distribution.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "support/sessions.h"

namespace xc::suite {
namespace {

constexpr int kRuns = 1000;
constexpr double kDeviations = 6;

void check_mean(double mean, double expected, double deviation, const std::string& what) {
  if (!(std::abs(mean - expected) <= kDeviations * deviation))
    throw std::runtime_error(fmt::format("the mean of {} is {}, expected {} within {}", what, mean,
                                         expected, kDeviations * deviation));
}

}  // namespace

void check_distribution(Session& session, const DataSet& data, bool complement) {
  std::vector<double> x = data.inputs.at(0).to_doubles();
  if (complement)
    for (double& p : x) p = 1 - p;
  const auto draw = [&] {
    const std::vector<Tensor> got = xc::testing::run(session, data.inputs);
    compare_types(data.outputs, got);
    return got.at(0).to_doubles();
  };
  const std::vector<double> first = draw();
  if (first == draw()) {  // a seed
    double sum = 0, squares = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      sum += first[i] - x[i];
      squares += (first[i] - x[i]) * (first[i] - x[i]);
    }
    const auto count = static_cast<double>(x.size());
    return check_mean(sum / count, 0, std::sqrt(squares) / count, "output - input");
  }
  std::vector<double> sums(x.size(), 0.0), squares(x.size(), 0.0);
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<double> y = draw();
    for (size_t i = 0; i < x.size(); ++i) {
      sums[i] += y[i];
      squares[i] += y[i] * y[i];
    }
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const double mean = sums[i] / kRuns;
    // The seldom of two values may not have come up: as if it had, about twice.
    const double size = std::max(1.0, std::abs(x[i]));
    const double variance = squares[i] / kRuns - mean * mean + 4 * size * size / kRuns;
    check_mean(mean, x[i], std::sqrt(variance / kRuns), fmt::format("element {}", i));
  }
}

}  // namespace xc::suite
