// Tiled, staged and tensorized products on every instruction set this machine runs: the
// interpreter's bits.
#include <doctest/doctest.h>

#include "codegen/jit.h"
#include "loop/interpret.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "support/product_kernel.h"

using namespace xc;
using namespace xc::loop;

TEST_CASE("codegen/tiles: scheduled products have the interpreter's bits on every target") {
  for (const char* type : {"f32", "bf16"}) {
    const Kernel plain = test::product_kernel(type);
    for (const char* schedule : test::kProductSchedules) {
      // What is left serial is made vector loops.
      Kernel scheduled = apply_schedule(plain, schedule);
      if (std::string_view(schedule).find("parallelize") == std::string_view::npos)
        scheduled = schedule_default(std::move(scheduled), {});
      for (const std::string& target : test::runnable_targets()) {
        CAPTURE(schedule);
        CAPTURE(target);
        const test::Compiled code(scheduled, target);
        for (const auto& [n, m, p] : test::kProductSizes) {
          const test::Problem problem = test::product_problem(n, m, p);
          test::Buffers expected(plain, problem, 9, false), got(scheduled, problem, 9, false);
          const Range range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
          CHECK(interpret(plain, expected.args(0, 0), test::math_of(target)) == 0);
          CHECK(code(got.args(range.begin, range.end)) == 0);
          CHECK(test::difference(plain, expected, got) == "");
        }
      }
    }
  }
}
