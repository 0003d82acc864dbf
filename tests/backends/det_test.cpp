#include <doctest/doctest.h>

#include <functional>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

/// Random matrices of any size, which `change` may change first, against the reference.
void check_matrices(const OpDef* op, unsigned seed, Bounds bounds,
                    const std::function<void(Tensor&)>& change) {
  Generator g(seed);
  for (const DType type : {DType::kF32, DType::kF64})
    for (const Dims& dims : {Dims{1, 1}, Dims{0, 4, 4}, Dims{2, 2}, Dims{5, 3, 3}, Dims{2, 3, 7, 7},
                             Dims{9, 16, 16}, Dims{40, 40}}) {
      Problem p;
      p.op = op;
      p.inputs = {g.tensor(type, dims)};
      change(p.inputs[0]);
      INFO(name(type) << to_text(dims));
      check_row("xc.det", p, bounds);
    }
}

TEST_CASE("backends/det: matrices of any size, some singular, some not numbers") {
  check_matrices(&get_op("Det"), 91, {1e-5, 1e-4}, [](Tensor&) {});
  // Two equal rows; a row of zeros; a permutation that swaps an odd number of rows; NaN.
  const std::vector<std::vector<float>> special = {{1, 2, 3, 1, 2, 3, 4, 5, 7},
                                                   {1, 2, 3, 0, 0, 0, 4, 5, 7},
                                                   {0, 1, 0, 1, 0, 0, 0, 0, 2},
                                                   {1, 2, 3, 4, NAN, 6, 7, 8, 10}};
  const double want[] = {0, 0, -2, NAN};
  for (size_t i = 0; i < special.size(); ++i) {
    Problem p;
    p.op = &get_op("Det");
    p.inputs = {Tensor(DType::kF32, {3, 3})};
    std::copy(special[i].begin(), special[i].end(), p.inputs[0].as<float>());
    const double got = run_row(find_row("xc.det", "Det"), p, {})[0].to_doubles()[0];
    CHECK((std::isnan(want[i]) ? std::isnan(got) : std::abs(got - want[i]) < 1e-6));
  }
}

TEST_CASE("backends/det: inverses of any size, with rows in any order") {
  // Far from singular, and the pivots are nowhere on the diagonal.
  const auto move_pivots = [](Tensor& x) {
    const int64_t n = x.dims().back();
    for (int64_t i = 0; i < x.count(); ++i)
      if (i % n == (i / n % n * 3 + 1) % n && n % 3 != 0)
        store_double(x.data(), x.dtype(), i, 9.0 + static_cast<double>(i % 5));
      else if (i % n == (i / n % n + 1) % n && n % 3 == 0)
        store_double(x.data(), x.dtype(), i, -9.0);
  };
  check_matrices(find_op("Inverse", "com.microsoft"), 92, {1e-5, 1e-5}, move_pivots);
  for (const float zero : {0.0f, 1.0f}) {  // all elements the same: no inverse
    Problem p;
    p.op = find_op("Inverse", "com.microsoft");
    p.inputs = {Tensor(DType::kF32, {3, 3})};
    std::fill_n(p.inputs[0].as<float>(), 9, zero);
    for (double v : run_row(find_row("xc.det", "com.microsoft::Inverse"), p, {})[0].to_doubles())
      CHECK_FALSE(std::isfinite(v));
  }
}

}  // namespace
}  // namespace xc
