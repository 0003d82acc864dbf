// f32 products by matrix units for bf16 (vector/bf16x3_fn.h) against f64: as near as sums of f32.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "backends/cpu/bf16x3_product.h"
#include "backends/cpu/product_conv.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

/// The largest error of a product over the sum of the magnitudes of its terms; NaN and infinities
/// are where they belong, or it is infinite.
double worst(const Tensor& got, const Problem& p) {
  const std::vector<double> want = exact_result(p, false), terms = exact_result(p, true),
                            have = got.to_doubles();
  double out = want.size() == have.size() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < want.size() && i < have.size(); ++i) {
    // What f32 has no number for is infinite there.
    const auto nearest = static_cast<double>(static_cast<float>(want[i]));
    if (std::isnan(nearest) ? std::isnan(have[i]) : nearest == have[i]) continue;
    // Products of denormal numbers have few digits.
    const double error =
        (std::fabs(have[i] - want[i]) - 0x1p-149 * static_cast<double>(p.inputs[1].dims()[0])) /
        terms[i];
    out = std::isfinite(error) ? std::max(out, error) : std::numeric_limits<double>::infinity();
  }
  return out;
}
/// What sums of some hundred terms in f32 stay within, and none of fewer than six products does.
constexpr double kBound = 0x1.7p-22;

RunOptions packed() {
  RunOptions options;
  options.prepare = options.background = true;
  return options;
}
Tensor run(const Problem& p, const RunOptions& options = packed()) {
  cpu::MatMulProblem sizes;
  sizes.k = p.inputs[0].dims().back();
  sizes.m = p.inputs[0].count() / sizes.k;
  sizes.n = p.inputs[1].count() / sizes.k;
  REQUIRE(cpu::Bf16x3Product::pays(sizes));  // it is what runs, where there are units
  return run_row(find_row("onednn.matmul", p.op->name), p, options)[0];
}

/// A product of terms in three parts each, those of the left side in the place of `left` and of the
/// right side of `right` left out.
double without(int left, int right) {
  Generator g(5);
  const auto parts = [](float x) {
    std::array<double, 3> out{};
    for (int i = 0; i < 2; ++i) {
      out[static_cast<size_t>(i)] = bf16_to_float(float_to_bf16(x));
      x -= static_cast<float>(out[static_cast<size_t>(i)]);
    }
    out[2] = x;
    return out;
  };
  double most = 0;
  for (int round = 0; round < 50; ++round) {
    double sum = 0, want = 0, terms = 0;
    for (int i = 0; i < 64; ++i) {
      const auto x = static_cast<float>(g.real(-2, 2)), y = static_cast<float>(g.real(-2, 2));
      const auto a = parts(x), b = parts(y);
      for (int l = 0; l < 3; ++l)
        for (int r = 0; r < 3 - l; ++r)
          if (l != left || r != right) sum += a[static_cast<size_t>(l)] * b[static_cast<size_t>(r)];
      want += static_cast<double>(x) * y;
      terms += std::fabs(static_cast<double>(x) * y);
    }
    most = std::max(most, std::fabs(sum - want) / terms);
  }
  return most;
}

TEST_CASE("backends/bf16x3: the bound tells each of the six products from none") {
  CHECK(without(3, 3) < kBound / 4);
  for (const auto& [left, right] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}})
    CHECK_MESSAGE(without(left, right) > 2 * kBound, left << " by " << right);
}

/// The product itself, of sizes for which it does not pay too.
Tensor multiply(const Tensor& x, const Tensor& w) {
  const int64_t m = x.dims()[0], k = x.dims()[1], n = w.dims()[1];
  const auto weights = cpu::pack_weights(w, false, {DType::kF32, DType::kF32, DType::kF32}, 1);
  REQUIRE(weights->for_units);
  const cpu::Bf16x3Product product(k);
  const auto scratch = Buffer::allocate(product.scratch_bytes(m));
  Tensor y(DType::kF32, {m, n});
  std::vector<cpu::FewRows> slices;
  for (int64_t s = 0; s < weights->slices; ++s) {
    const int64_t begin = cpu::slice_begin(n, weights->slices, s),
                  end = cpu::slice_begin(n, weights->slices, s + 1);
    const auto slice = static_cast<size_t>(s);
    slices.push_back({.x = x.as<float>(),
                      .x_row = k,
                      .rows = m,
                      .k = k,
                      .n = end - begin,
                      .panels = weights->slice(slice),
                      .format = weights->format(),
                      .panel = *weights->panel(slice),
                      .y = y.as<float>() + begin,
                      .y_row = n});
  }
  product.run(slices, false, scratch->data());
  return y;
}

TEST_CASE("backends/bf16x3: any sizes and formats of weights against f64") {
  if (!cpu::bf16x3_fns()) return;
  Generator g(70);
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBF16})
    for (const int64_t m : {1, 15, 17, 33, 64, 100})
      for (const int64_t k : {1, 31, 33, 64, 100, 769, 1600})
        for (const int64_t n : {1, 17, 33, 64, 97, 130, 500}) {
          Problem p = matrix_product(g, {m, k}, n);
          p.inputs[1] = widened(g.tensor(stored, {k, n}));
          const double error = worst(multiply(p.inputs[0], p.inputs[1]), p);
          CHECK_MESSAGE(error <= kBound,
                        name(stored) << " " << m << " x " << k << " x " << n << ": " << error);
        }
}

TEST_CASE("backends/bf16x3: the same bits however a product is split") {
  Generator g(71);
  for (const int64_t m : {64, 65, 200, 300})
    for (const int64_t k : {128, 129, 256, 257, 767, 1601})
      for (const int64_t n : {130, 420, 650}) {
        const Problem p = matrix_product(g, {m, k}, n, n == 130);
        const Tensor first = run(p);
        const double error = worst(first, p);
        CHECK_MESSAGE(error <= kBound, m << " x " << k << " x " << n << ": " << error);
        for (const int threads : {2, 4}) {
          RunOptions options = packed();
          options.threads = threads;
          options.pieces = 0;
          CHECK_MESSAGE(same_bits(first, run(p, options)), m << " x " << k << " x " << n);
        }
      }
}

TEST_CASE("backends/bf16x3: threads share the rows or the columns") {
  for (const int64_t m : {64, 90, 128, 196, 784, 3000})
    for (const int64_t k : {64, 768, 3072})
      for (const int64_t slices : {1, 2, 8})
        for (const int threads : {1, 2, 4, 7}) {
          CAPTURE(m);
          CAPTURE(slices);
          CAPTURE(threads);
          cpu::MatMulProblem p;
          p.m = m;
          p.k = k;
          p.n = 384 * slices;
          const auto [rows, groups] = cpu::Bf16x3Product(k).divided(p, slices, threads);
          const int64_t blocks = ceil_div(m, cpu::kBf16x3Rows);
          CHECK(rows >= 1);
          CHECK(rows <= blocks);
          CHECK(groups >= 1);
          CHECK(groups <= slices);
          // Fewer shares may take less time than one for each that splits what others split too.
          CHECK(2 * rows * groups >= std::min<int64_t>(threads, blocks * slices));
          if (threads == 1) CHECK(groups == 1);
        }
}

TEST_CASE("backends/bf16x3: rows with gaps and backwards, results with gaps, functions behind") {
  Generator g(72);
  for (int kind = 0; kind < Generator::kStrideKinds; ++kind)
    for (const int64_t k : {96, 900}) {
      Problem p = matrix_product(g, {2, 70, k}, 240);
      p.inputs[0] = g.strided(p.inputs[0], kind);
      CHECK(worst(run(p), p) <= kBound);
      RunOptions options = packed();
      options.output_row = 250;
      p = matrix_product(g, {70, k}, 240);
      CHECK(worst(run(p, options), p) <= kBound);
    }
  for (const int64_t k : {96, 900}) {
    Problem p = matrix_product(g, {70, k}, 700, true);
    p.inputs.push_back(g.tensor(DType::kF32, {700}));
    p.constant.push_back(true);
    check_row("onednn.matmul", p, {1e-5, 1e-4}, packed());
    check_functions_behind("onednn.matmul", p, {1e-5, 1e-4}, packed());
  }
}

TEST_CASE("backends/bf16x3: weights that are stored as halves, operands and results in halves") {
  Generator g(73);
  for (const DType stored : {DType::kF16, DType::kBF16})
    for (const int64_t k : {100, 900}) {
      Problem p = matrix_product(g, {80, k}, 200);
      p.inputs[1] = widened(g.tensor(stored, {k, 200}));
      CHECK(worst(run(p), p) <= kBound);
    }
}

TEST_CASE("backends/bf16x3: what units have no numbers for is summed up otherwise") {
  Generator g(74);
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN(),
                  kMost = std::numeric_limits<float>::max();
  for (const float value : {kInfinity, -kInfinity, kNan, kMost, -kMost, 3.39e38f, 1e-44f, 0x1p-126f,
                            1e-20f, 0.0f, 1e20f}) {
    Problem p = matrix_product(g, {100, 96}, 195);
    float* const x = p.inputs[0].as<float>();
    for (int64_t i = 0; i < 96; ++i) x[37 * 96 + i] = 0;  // a row of its own
    x[37 * 96 + 5] = value;
    x[70 * 96 + 11] = value;  // among others
    CHECK_MESSAGE(worst(run(p), p) <= kBound, "in the left side: " << value);
    const Tensor first = run(p);
    RunOptions options = packed();
    options.threads = 4;
    options.pieces = 0;
    CHECK_MESSAGE(same_bits(first, run(p, options)), value);
    p = matrix_product(g, {100, 96}, 195);
    p.inputs[1].as<float>()[7 * 195 + 100] = value;
    CHECK_MESSAGE(worst(run(p), p) <= kBound, "in the right side: " << value);
  }
  // All of a side out of range, and sums that leave it.
  for (const double scale : {1e19, 1e-19, 1e-38, 1e-44, 3e36})
    for (const bool left : {false, true}) {
      Problem p = matrix_product(g, {70, 96}, 195);
      Tensor& side = p.inputs[left ? 0 : 1];
      for (int64_t i = 0; i < side.count(); ++i)
        side.as<float>()[i] = static_cast<float>(side.as<float>()[i] * scale);
      CHECK_MESSAGE(worst(run(p), p) <= kBound, scale << (left ? " left" : " right"));
    }
  Problem p = matrix_product(g, {70, 96}, 195);
  for (Tensor& side : p.inputs)
    for (int64_t i = 0; i < side.count(); ++i)
      side.as<float>()[i] = 1e20f * (1 + std::fabs(side.as<float>()[i]));
  CHECK(worst(run(p), p) <= kBound);
  // A result that leaves the range in one slice of the columns, and none in the others.
  p = matrix_product(g, {100, 96}, 1000);
  p.inputs[1].as<float>()[7 * 1000 + 100] = 1e12f;
  p.inputs[0].as<float>()[50 * 96 + 7] = 1e30f;
  const Tensor whole = run(p);
  CHECK(worst(whole, p) <= kBound);
  RunOptions options = packed();
  options.pieces = 0;
  CHECK(same_bits(whole, run(p, options)));
}

Problem pointwise(Generator& g, const Dims& x, int64_t out) {
  Problem p;
  p.op = &get_op("Conv");
  Dims w(x.size(), 1);
  w[0] = out;
  w[1] = x[1];
  p.inputs = {g.tensor(DType::kF32, x), g.tensor(DType::kF32, w), g.tensor(DType::kF32, {out})};
  p.constant = {false, true, true};
  return p;
}

TEST_CASE("backends/bf16x3: 1x1 convolutions between channels-last images") {
  Generator g(76);
  for (const Dims& x :
       {Dims{1, 64, 8, 9}, Dims{3, 70, 5, 7}, Dims{2, 900, 100}, Dims{1, 96, 3, 4, 9}}) {
    const Problem p = pointwise(g, x, 300);
    if (cpu::bf16x3_fns()) {
      const Node node = node_of(p);
      CHECK(cpu::ProductConv::create(spec_of(p, node, {})) != nullptr);
    }
    check_row("onednn.conv", p, {1e-5, 1e-4});
    check_threads("onednn.conv", p);
    check_functions_behind("onednn.conv", p, {1e-5, 1e-4});
  }
}

TEST_CASE("backends/bf16x3: used where it pays, not for weights out of range") {
  if (!cpu::bf16x3_fns()) return;
  Generator g(75);
  const cpu::ProductTypes types{DType::kF32, DType::kF32, DType::kF32};
  const auto pays = [&](float value, int64_t rows) {
    Tensor w = g.tensor(DType::kF32, {128, 256}, 0, 0);
    w.as<float>()[1000] = value;
    cpu::MatMulProblem p;
    p.m = rows;
    p.n = 256;
    p.k = 128;
    return cpu::Bf16x3Product::pays(p) && cpu::pack_weights(w, false, types, 1)->for_units;
  };
  CHECK(pays(1, 64));
  CHECK(!pays(1, 16));
  for (const float value : {0.0f, 1e-13f, 1e13f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
    CHECK_MESSAGE(!pays(value, 64), value);
}

}  // namespace
}  // namespace xc
