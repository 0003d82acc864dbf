// Operators that draw numbers: what is certain about them. Counts are of seeded draws; the bounds
// are more than five deviations wide.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/infer.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

constexpr int64_t kCount = 20000;

std::vector<Tensor> draw(const char* op, const std::vector<Tensor>& inputs, Attrs attrs,
                         size_t outputs = 1) {
  Node node;
  node.op = &get_op(op);
  node.name = op;
  node.attrs = std::move(attrs);
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(static_cast<ValueId>(i));
  for (size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(static_cast<ValueId>(inputs.size() + i));
  return run_reference(node, inputs);
}

Attrs seeded(double seed) {
  Attrs out;
  out.set("seed", seed);
  return out;
}

Tensor filled(float value, Dims dims = {kCount}) {
  Tensor out(DType::kF32, std::move(dims));
  std::fill_n(out.as<float>(), out.count(), value);
  return out;
}

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}
double deviation(std::vector<double> x) {
  const double m = mean(x);
  for (double& v : x) v = (v - m) * (v - m);
  return std::sqrt(mean(x));
}

/// Bound on the largest distance between a distribution function and that of kCount draws, which is
/// exceeded once in 10^9 times: sqrt(ln(2 / p) / (2 n)) (Massart 1990, of Dvoretzky, Kiefer and
/// Wolfowitz).
const double kDistance = std::sqrt(std::log(2e9) / (2.0 * kCount));

/// The largest distance between the distribution function of the draws and `expected`.
template <class F>
double distance(std::vector<double> draws, F expected) {
  std::sort(draws.begin(), draws.end());
  const auto n = static_cast<double>(draws.size());
  double out = 0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double f = expected(draws[i]), k = static_cast<double>(i);
    out = std::max({out, f - k / n, (k + 1) / n - f});
  }
  return out;
}

}  // namespace

TEST_CASE("ops/random: draws follow the distribution they are named after") {
  const auto uniform = [](double x) { return (x + 2) / 8; };
  const auto normal = [](double x) { return 0.5 * std::erfc(-(x - 1.5) / (4 * std::sqrt(2.0))); };
  for (const bool like : {false, true})
    for (const int64_t dtype : {int64_t{1}, int64_t{11}, int64_t{10}}) {
      CAPTURE(like);
      CAPTURE(dtype);
      Attrs attrs = seeded(11);
      attrs.set("dtype", dtype);
      if (!like) attrs.set("shape", std::vector<int64_t>{2, kCount / 2});
      const std::vector<Tensor> inputs =
          like ? std::vector<Tensor>{filled(0, {2, kCount / 2})} : std::vector<Tensor>{};
      Attrs even = attrs, bell = attrs;
      even.set("low", -2.0);
      even.set("high", 6.0);
      bell.set("mean", 1.5);
      bell.set("scale", 4.0);
      const Tensor u = draw(like ? "RandomUniformLike" : "RandomUniform", inputs, even)[0];
      const Tensor z = draw(like ? "RandomNormalLike" : "RandomNormal", inputs, bell)[0];
      for (const Tensor* y : {&u, &z}) {
        CHECK(y->dims() == Dims{2, kCount / 2});
        CHECK(y->dtype() == (dtype == 1 ? DType::kF32 : dtype == 11 ? DType::kF64 : DType::kF16));
      }
      // f16 has steps, of up to 2^-8 here, in which the function rises by less than 0.001.
      CHECK(distance(u.to_doubles(), uniform) < kDistance + (dtype == 10 ? 0.001 : 0));
      CHECK(distance(z.to_doubles(), normal) < kDistance + (dtype == 10 ? 0.001 : 0));
    }
  CHECK(distance(draw("RandomUniform", {},
                      [] {
                        Attrs attrs = seeded(11);
                        attrs.set("shape", std::vector<int64_t>{kCount});
                        return attrs;
                      }())[0]
                     .to_doubles(),
                 normal) > kDistance);  // the measure tells them apart
}

TEST_CASE("ops/random: uniform numbers fill their range evenly") {
  Attrs attrs = seeded(3);
  attrs.set("low", -2.0);
  attrs.set("high", 6.0);
  attrs.set("shape", std::vector<int64_t>{100, kCount / 100});
  const Tensor y = draw("RandomUniform", {}, attrs)[0];
  CHECK(y.dims() == Dims{100, kCount / 100});
  const auto values = y.to_doubles();
  CHECK(*std::min_element(values.begin(), values.end()) >= -2);
  CHECK(*std::max_element(values.begin(), values.end()) < 6);
  CHECK(std::abs(mean(values) - 2) < 0.1);
  CHECK(std::abs(deviation(values) - 8 / std::sqrt(12)) < 0.1);
}

TEST_CASE("ops/random: normal numbers have the mean and the deviation asked for") {
  Attrs attrs = seeded(3);
  attrs.set("mean", 1.5);
  attrs.set("scale", 4.0);
  attrs.set("dtype", int64_t{11});
  const Tensor y = draw("RandomNormalLike", {filled(0)}, attrs)[0];
  CHECK(y.dtype() == DType::kF64);
  CHECK(std::abs(mean(y.to_doubles()) - 1.5) < 0.15);
  CHECK(std::abs(deviation(y.to_doubles()) - 4) < 0.15);
}

TEST_CASE("ops/random: Bernoulli gives ones as often as it is told to") {
  for (const float p : {0.0f, 0.25f, 1.0f}) {
    const auto values = draw("Bernoulli", {filled(p)}, seeded(7))[0].to_doubles();
    for (double v : values) REQUIRE((v == 0 || v == 1));
    CHECK(std::abs(mean(values) - p) < (p == 0 || p == 1 ? 1e-12 : 0.02));
  }
}

TEST_CASE("ops/random: Multinomial draws classes by their log probabilities") {
  Tensor logits(DType::kF32, {2, 3});
  const float weights[] = {1, 2, 5, 8, 0, 0};
  for (int64_t i = 0; i < 6; ++i) logits.as<float>()[i] = std::log(weights[i]) + 40;
  Attrs attrs = seeded(5);
  attrs.set("sample_size", kCount);
  const Tensor y = draw("Multinomial", {logits}, attrs)[0];
  CHECK(y.dims() == Dims{2, kCount});
  const auto values = y.to_int64s();
  for (int64_t k = 0; k < 3; ++k) {
    const auto hits = std::count(values.begin(), values.begin() + kCount, k);
    CHECK(std::abs(static_cast<double>(hits) / kCount - weights[k] / 8) < 0.02);
  }
  CHECK(std::count(values.begin() + kCount, values.end(), 0) == kCount);
}

TEST_CASE("ops/random: dropout in training scales what it keeps, and its mask says what that is") {
  Attrs attrs;
  attrs.set("seed", int64_t{9});
  const auto out =
      draw("Dropout", {filled(3), Tensor::scalar(0.75f), Tensor::scalar(true)}, attrs, 2);
  const auto y = out[0].to_doubles(), mask = out[1].to_doubles();
  for (size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == (mask[i] != 0 ? 12 : 0));
  CHECK(std::abs(mean(mask) - 0.25) < 0.02);
}

TEST_CASE("ops/random: a seed repeats the numbers, no seed does not") {
  const auto numbers = [](Attrs attrs) {
    return draw("RandomNormalLike", {filled(0, {64})}, std::move(attrs))[0].to_doubles();
  };
  CHECK(numbers(seeded(1)) == numbers(seeded(1)));
  CHECK(numbers(seeded(1)) != numbers(seeded(2)));
  CHECK(numbers({}) != numbers({}));
}

}  // namespace xc::test
