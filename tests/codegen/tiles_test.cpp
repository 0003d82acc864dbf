// Tiled, staged and tensorized products on every instruction set this machine runs: the
// interpreter's bits.
#include <doctest/doctest.h>

#include <vector>

#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/interpret.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/text.h"
#include "support/product_kernel.h"
#include "tier/warm_up_kernels.h"

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

TEST_CASE("codegen/tiles: products and transposing copies go through the library") {
  for (const std::string& target : test::runnable_targets()) {
    const bool wide = target == "x86-64-v4", has_library = wide || target == "x86-64-v3";
    TargetWidth width;
    width.registers = wide ? 32 : 8;
    CAPTURE(target);
    const std::string text = product_tiles(width);
    const auto listing = test::jit(text, target, XC_JIT_WANT_ASSEMBLY);
    INFO(listing.error);
    REQUIRE(listing.status == 0);
    const auto calls = [&](const std::string& name) {
      return listing.assembly.find(name + "\n") != std::string::npos;
    };
    CHECK(calls("xc.transpose") == has_library);
    const std::vector<const char*> tiles = wide ? std::vector<const char*>{"4x6", "4x4", "4x1"}
                                                : std::vector<const char*>{"2x4", "2x1"};
    for (const std::string tile : tiles) {
      CHECK(calls("xc.product." + tile) == has_library);
      CHECK(calls("xc.product." + tile + ".adds") == has_library);
    }
    const Kernel kernel = parse(text);
    const test::Compiled code(kernel, target);
    for (const int64_t n : {0, 1, 3, 5}) {
      test::Problem problem;
      problem.dims = {n};
      problem.strides = {70};
      problem.elements.assign(2, 70 * 64);
      test::Buffers expected(kernel, problem, 9, false), got(kernel, problem, 9, false);
      CHECK(interpret(kernel, expected.args(0, 0), test::math_of(target)) == 0);
      CHECK(code(got.args(0, 0)) == 0);
      CHECK(test::difference(kernel, expected, got) == "");
    }
  }
}
