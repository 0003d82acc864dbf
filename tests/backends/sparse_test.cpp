// Products that skip the zeros of their left side, against sums in f64 and the step's reference.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/vector/nonzero_rows_fn.h"
#include "backends/cpu/vector/panel_product_fn.h"
#include "backends/step_harness.h"
#include "base/cpu_info.h"
#include "support/worst.h"

namespace xc {
namespace {

using namespace test;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Zeros of both signs but for a share of `density`.
void make_sparse(std::span<float> values, double density, std::mt19937& random) {
  for (float& v : values)
    if (std::uniform_real_distribution<>(0, 1)(random) >= density) v = v < 0 ? -0.0f : 0.0f;
}

enum class Lie : uint8_t { kRows, kPanels, kNarrowPanels };

void check_rows(int64_t rows, int64_t n, int64_t k, Lie lie, double density, bool all,
                std::mt19937& random) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(density);
  CAPTURE(all);
  std::uniform_real_distribution<float> uniform(-1, 1);
  CAPTURE(static_cast<int>(lie));
  const int64_t x_row = k + 5, y_row = n + 2;
  const auto lies = [&](Isa isa) {
    struct Layout {
      int64_t panel, columns, row;
    };
    const int64_t narrow = cpu::panel_columns(isa);
    return lie == Lie::kRows     ? Layout{0, 0, n + 3}
           : lie == Lie::kPanels ? Layout{(k + 3) * 64, 64, 64}
                                 : Layout{k * narrow, narrow, narrow};
  };
  std::vector<float> x(static_cast<size_t>(rows * x_row));
  for (float& v : x) v = uniform(random);
  make_sparse(x, density, random);
  // Weights that f16 holds, in f32 and in f16.
  const Tensor stored =
      Generator(random()).tensor(DType::kF16, {std::max((n + 63) / 64 * 64, n + 3) * (k + 3) + 1});
  if (all && k > 0) stored.as<uint16_t>()[0] = 0x7c00;  // infinity
  const Tensor w = widened(stored);
  std::vector<float> of_fma;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa || (isa > Isa::kAvx2 && lie == Lie::kNarrowPanels)) continue;
    const auto at = lies(isa);
    const auto weight = [&](int64_t d, int64_t j) {
      const int64_t columns = at.panel > 0 ? at.columns : n;
      return w.as<float>()[j / columns * at.panel + d * at.row + j % columns];
    };
    CAPTURE(name(isa));
    const auto room = static_cast<size_t>(cpu::nonzero_capacity(k));
    std::vector<float> values(room);
    std::vector<int32_t> columns(room);
    const auto result = [&](const Tensor& right, cpu::WeightFormat format) {
      std::vector<float> y(static_cast<size_t>(rows * y_row), 7.0f);
      cpu::nonzero_rows_fn(isa)({x.data(), x_row, rows, k, n, right.data(), format, at.panel,
                                 at.columns, at.row, y.data(), y_row, all, values.data(),
                                 columns.data()});
      return y;
    };
    const auto y = result(w, cpu::WeightFormat::kF32);
    double worst = 0;
    bool kept = true;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < y_row; ++j) {
        double want = j < n ? 0 : 7;
        for (int64_t d = 0; j < n && d < k; ++d)
          want += static_cast<double>(x[static_cast<size_t>(r * x_row + d)]) * weight(d, j);
        const float got = y[static_cast<size_t>(r * y_row + j)];
        if (std::isfinite(want))
          worst = test::worst_of(worst, std::fabs(want - got));
        else
          kept = kept && (std::isnan(want) ? std::isnan(got) : static_cast<float>(want) == got);
      }
    CHECK(worst <= 2e-4 + 6e-8 * static_cast<double>(k));
    CHECK(kept);
    // Sums are the same ones in the same order.
    if (cpu::widens_halves(isa)) {
      const auto of_halves = result(stored, cpu::WeightFormat::kF16);
      CHECK((y.empty() || std::memcmp(of_halves.data(), y.data(), y.size() * sizeof(float)) == 0));
    }
    if (isa == Isa::kAvx2) of_fma = y;
    if (isa == Isa::kAvx512 && !all) CHECK(y == of_fma);
  }
}

TEST_CASE("backends/sparse: rows of zeros against weights in panels and in rows") {
  std::mt19937 random(5);
  for (const int64_t rows : {0, 1, 2, 7, 64, 65, 150})
    for (const int64_t n : {1, 17, 63, 64, 65, 200})
      for (const int64_t k : {0, 1, 15, 16, 33, 450})
        for (const double density : {0.0, 0.02, 0.3, 1.0})
          for (const Lie lie : {Lie::kRows, Lie::kPanels, Lie::kNarrowPanels})
            check_rows(rows, n, k, lie, density, rows == 7, random);
}

TEST_CASE("backends/sparse: lists of many rows, and of rows longer than all of them") {
  std::mt19937 random(6);
  check_rows(300, 40, 700, Lie::kRows, 0.5, false, random);
  check_rows(3, 5, 20000, Lie::kRows, 0.9, false, random);
  check_rows(3, 5, 20000, Lie::kPanels, 0.01, true, random);
}

struct Shape {
  int64_t m, n, k;
};

/// MatMul with a live right side, Gemm with constant weights and a bias; a Relu behind.
Problem problem_of(bool gemm, const Shape& shape, double density, Generator& generator,
                   std::mt19937& random) {
  Problem problem;
  problem.op = find_op(gemm ? "Gemm" : "MatMul");
  Tensor x = generator.tensor(DType::kF32, {shape.m, shape.k});
  make_sparse({x.as<float>(), static_cast<size_t>(x.count())}, density, random);
  problem.inputs = {x, gemm ? widened(generator.tensor(shape.m % 2 ? DType::kF16 : DType::kF32,
                                                       {shape.n, shape.k}))
                            : generator.tensor(DType::kF32, {shape.k, shape.n})};
  if (gemm) {
    problem.attrs.set("transB", int64_t{1});
    problem.inputs.push_back(generator.tensor(DType::kF32, {shape.n}));
    problem.constant = {false, true, true};
  }
  PostOp relu;
  relu.op = find_op("Relu");
  problem.post_ops.push_back(relu);
  return problem;
}

/// By the reference, the Relu apart.
Tensor expected(Problem problem) {
  problem.post_ops.clear();
  Tensor out = run_row(find_row("reference", problem.op->name), problem)[0];
  for (int64_t i = 0; i < out.count(); ++i)
    out.as<float>()[i] = out.as<float>()[i] < 0 ? 0 : out.as<float>()[i];
  return out;
}

std::shared_ptr<Kernel> skipping(const Problem& problem, const RunOptions& options, Node& node,
                                 std::unique_ptr<Kernel>& whole) {
  node = node_of(problem);
  whole = find_row("onednn.matmul", problem.op->name).create(spec_of(problem, node, options));
  whole->prepare();
  return whole->skipping_zeros();
}

TEST_CASE("backends/sparse: whole steps agree with the reference, in parts and on threads") {
  Generator generator(3);
  std::mt19937 random(4);
  for (const bool gemm : {false, true})
    for (const Shape& shape : {Shape{1, 300, 200}, {3, 257, 129}, {70, 130, 256}, {200, 96, 300}})
      for (const double density : {0.0, 0.05, 0.6}) {
        const Problem problem = problem_of(gemm, shape, density, generator, random);
        for (const int threads : {1, 2}) {
          RunOptions options;
          options.threads = threads;
          options.pieces = threads == 1 ? 1 : 0;
          options.at_once = threads > 1;
          Node node;
          std::unique_ptr<Kernel> whole;
          const auto kernel = skipping(problem, options, node, whole);
          REQUIRE(kernel);
          const Tensor want = expected(problem);
          const Tensor got = run_kernel(*kernel, problem, options)[0];
          const Bounds bounds{1e-5, 2e-6 * static_cast<double>(shape.k)};
          CHECK(difference(got, want, bounds) == "");
          // The oracle would notice a term that is missing.
          if (density > 0.5) {
            Problem other = problem;
            other.inputs[0] = problem.inputs[0].clone();
            float* x = other.inputs[0].as<float>();
            x[std::find_if(x, x + shape.k, [](float v) { return v != 0; }) - x] = 0;
            CHECK(difference(run_kernel(*kernel, other, options)[0], want, bounds) != "");
          }
        }
      }
}

TEST_CASE("backends/sparse: zeros times infinities and NaN are NaN") {
  Generator generator(3);
  std::mt19937 random(4);
  for (const float special : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    Problem problem = problem_of(false, {9, 40, 100}, 0.1, generator, random);
    problem.inputs[1].as<float>()[57 * 40 + 3] = special;
    Node node;
    std::unique_ptr<Kernel> whole;
    const auto kernel = skipping(problem, {}, node, whole);
    REQUIRE(kernel);
    const Tensor want = expected(problem);
    CHECK(difference(run_kernel(*kernel, problem, {})[0], want, {1e-5, 1e-3}) == "");
    // Constant ones are seen at once: there is no such kernel.
    Problem weights = problem_of(true, {9, 200, 100}, 0.1, generator, random);
    weights.inputs[1].as<float>()[5] = special;
    CHECK_FALSE(skipping(weights, {}, node, whole));
  }
}

TEST_CASE("backends/sparse: not where rounding must not change, nor for halves") {
  Generator generator(3);
  std::mt19937 random(4);
  const Problem problem = problem_of(true, {9, 200, 100}, 0.1, generator, random);
  RunOptions strict;
  strict.numerics = Numerics::kStrict;
  Node node;
  std::unique_ptr<Kernel> whole;
  CHECK_FALSE(skipping(problem, strict, node, whole));
  CHECK_FALSE(whole->may_skip_zeros());
}

}  // namespace
}  // namespace xc
