// Schedule primitives over tiles: results stay, illegal steps are refused, text is as recorded.
#include "loop/schedule_tiles.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/verify.h"
#include "support/golden.h"
#include "support/product_kernel.h"

using namespace xc;
using namespace xc::loop;

namespace {

std::string refusal(const char* kernel, const char* schedule) {
  try {
    (void)apply_schedule(parse(kernel), schedule);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("loop/tiles: tile, stage and tensorize keep the bits of a product") {
  for (const char* type : {"f32", "bf16"}) {
    const Kernel before = test::product_kernel(type);
    for (const char* schedule : test::kProductSchedules) {
      const Kernel after = parse(print(apply_schedule(before, schedule)));  // as text keeps it
      CAPTURE(schedule);
      INFO(print(after));
      CHECK(print(parse(print(after))) == print(after));
      for (const auto& [n, m, p] : test::kProductSizes) {
        const test::Problem problem = test::product_problem(n, m, p);
        test::Buffers expected(before, problem, 5, false), got(after, problem, 5, false);
        const Range range = parallel_range(after, problem.dims).value_or(Range{0, 0});
        CHECK(interpret(before, expected.args(0, 0)) == 0);
        CHECK(interpret(after, got.args(range.begin, range.end)) == 0);
        CHECK(test::difference(before, expected, got) == "");
      }
    }
  }
}

TEST_CASE("loop/tiles: a tiled product reads as recorded") {
  const Kernel kernel =
      apply_schedule(test::product_kernel("bf16"),
                     "tile i j 12 32; parallelize i_o; stage b i; tensorize i j 6 32");
  verify(kernel, Level::kScheduled);
  test::check_golden("loop/product_tiles.loop", print(kernel));
}

TEST_CASE("loop/tiles: illegal steps are refused with the reason") {
  const char* const sums = R"(kernel sums(n, m; s) {
    in x: f32[s, 1]
    in v: f32[1]
    out y: f32[1]
    for i = 0 .. n {
      acc a: f32 sum lanes
      for j = 0 .. m {
        a <- (x[i, j] * v[j])
      }
      y[i] = a
    }
  })";
  const char* const triangle = R"(kernel triangle(n; s) {
    in x: f32[s, 1]
    out y: f32[s, 1]
    for i = 0 .. n {
      for j = 0 .. i {
        y[i, j] = x[j, i]
      }
    }
  })";
  CHECK(contains(refusal(sums, "tile i j 4 16"), "its body is not the loop j alone"));
  CHECK(contains(refusal(triangle, "tile i j 4 4"), "the inner bounds depend on it"));
  CHECK(contains(refusal(sums, "stage x i"), "its iterations read different elements"));
  CHECK(contains(refusal(sums, "stage y i"), "y is no input"));
  CHECK(contains(refusal(sums, "stage q i"), "has no buffer q"));
  CHECK(contains(refusal(sums, "tensorize i j 4 16"), "its body is not the loop j alone"));
  CHECK(contains(refusal(triangle, "tensorize i j 4 16"), "no sequential dot product"));
  const std::string product = print(test::product_kernel());
  CHECK(contains(refusal(product.c_str(), "stage a i"), "its iterations read different elements"));
  CHECK(contains(refusal(product.c_str(), "tile i j 4 4; stage a j_o"),
                 "two axes of unknown extent"));
  CHECK(contains(refusal(product.c_str(), "tile i j 4"), "tile takes 4 arguments"));
  // What is legal there: one row that every iteration reads.
  CHECK(refusal(sums, "stage v i") == "");
}
