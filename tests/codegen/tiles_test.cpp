// Tiled, staged and tensorized products on every instruction set this machine runs: the
// interpreter's bits.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <array>

#include "base/cpu_info.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/interpret.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/text.h"
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
      for (const std::string& target : test::compared_targets()) {
        CAPTURE(schedule);
        CAPTURE(target);
        const test::Compiled code(scheduled, target);
        for (const auto& [n, m, p] : test::kProductSizes) {
          const test::Problem problem = test::product_problem(n, m, p);
          test::Buffers expected(plain, problem, 9, false), got(scheduled, problem, 9, false);
          const Range range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
          CHECK(interpret(plain, expected.args(0, 0), test::math_of(target)) == 0);
          CHECK(code.run(got, range.begin, range.end) == 0);
          CHECK(test::difference(plain, expected, got) == "");
        }
      }
    }
  }
}

// What the lowering of blocks writes: a transposing copy, products of rows in lanes, from 0 and
// added to what is there.
std::string products_of_rows() {
  std::string text =
      "kernel warm_up_products(n, m; s) {\n"
      "  in x: f32[s, 1]\n  out y: f32[s, 1]\n  scratch t: f32[4096; 64, 1]\n"
      "  vector(16) r = 0 .. 64 {\n    for j = 0 .. 64 {\n      t[j, r] = x[r, j]\n    }\n  }\n";
  for (const bool adds : {false, true})
    text += fmt::format(
        "  for j{0} = 0 .. m {{\n    vector(64) r{0} = 0 .. min(64, (n * 16)) {{\n"
        "      acc s{0}: f32 dot seq{1}\n"
        "      for k{0} = 0 .. 64 {{\n        s{0} <- t[k{0}, r{0}], x[j{0}, k{0}]\n      }}\n"
        "      y[j{0}, r{0}] = s{0}\n    }}\n  }}\n",
        adds ? "b" : "a", adds ? " = y[jb, rb]" : "");
  return text + "}\n";
}

TEST_CASE("codegen/tiles: products and transposing copies go through the library") {
  const std::string text = products_of_rows();
  const Kernel kernel = parse(text);
  for (const std::string& target : test::compared_targets()) {
    CAPTURE(target);
    const auto listing = test::jit(text, target, XC_JIT_WANT_ASSEMBLY);
    INFO(listing.error);
    REQUIRE(listing.status == 0);
    const bool has_library = target == "x86-64-v4" || target == "x86-64-v3";
    for (const char* name : {"xc.transpose\n", "xc.product\n", "xc.product.adds\n"})
      CHECK((listing.assembly.find(name) != std::string::npos) == has_library);
    const test::Compiled code(kernel, target);
    // Vectors of rows: tiles of 4, 2 and 1; columns: of 6, 2 and 1.
    for (const int64_t vectors : {0, 1, 2, 3, 4})
      for (const int64_t columns : {0, 1, 2, 5, 6, 15}) {
        test::Problem problem;
        problem.dims = {vectors, columns};
        problem.strides = {70};
        problem.elements.assign(2, 70 * 64);
        test::Buffers expected(kernel, problem, 9, false), got(kernel, problem, 9, false);
        CHECK(interpret(kernel, expected.args(0, 0), test::math_of(target)) == 0);
        CHECK(code.run(got, 0, 0) == 0);
        CHECK(test::difference(kernel, expected, got) == "");
      }
  }
}

// Sums of rounded factors over `count` terms; x[j, k] lies `s` and `u` elements apart.
Kernel rounded_products(bool adds) {
  return parse(
      fmt::format("kernel rounded(n, m, count; s, u) {{\n"
                  "  in p: f32[250, 1]\n  in x: f32[s, u]\n  {} y: f32[250, 1]\n"
                  "  for j = 0 .. m {{\n    vector(16) r = 0 .. (n * 16) {{\n"
                  "      acc a: f32 dot_bf16 seq{}\n"
                  "      for k = 0 .. count {{\n        a <- p[k, r], x[j, k]\n      }}\n"
                  "      y[j, r] = a\n    }}\n  }}\n}}\n",
                  adds ? "inout" : "out", adds ? " = y[j, r]" : ""));
}

TEST_CASE("codegen/tiles: matrix units have the interpreter's bits") {
  for (const bool adds : {false, true}) {
    const Kernel kernel = rounded_products(adds);
    CHECK(print(parse(print(kernel))) == print(kernel));
    const auto listing = test::jit(print(kernel), "x86-64-v4", XC_JIT_WANT_ASSEMBLY);
    INFO(listing.error);
    REQUIRE(listing.status == 0);
    CHECK(listing.assembly.find(adds ? "xc.product.bf16.adds\n" : "xc.product.bf16\n") !=
          std::string::npos);
    if (!grant_matrix_units()) continue;
    const test::Compiled code(kernel, "x86-64-v4");
    const struct {
      int64_t s, u;
    } layouts[] = {{300, 1}, {1, 40}, {2, 80}};  // by columns, by terms, neither
    for (const auto& [s, u] : layouts)
      for (const bool specials : {false, true})
        for (const auto& [n, m, count] :
             std::initializer_list<std::array<int64_t, 3>>{{4, 16, 64},
                                                           {4, 37, 33},
                                                           {5, 1, 1},
                                                           {3, 15, 129},
                                                           {1, 32, 32},
                                                           {2, 17, 290},
                                                           {8, 18, 70},
                                                           {15, 16, 140},
                                                           {4, 16, 0},
                                                           {0, 16, 5},
                                                           {5, 0, 5},
                                                           {5, 33, 128}}) {
          CAPTURE(fmt::format("{} {} {} {} {}", s, n, m, count, specials));
          test::Problem problem;
          problem.dims = {n, m, count};
          problem.strides = {s, u};
          problem.elements = {300 * 250, 300 * 80, 40 * 250};
          test::Buffers expected(kernel, problem, 9, specials), got(kernel, problem, 9, specials);
          CHECK(interpret(kernel, expected.args(0, 0), MathLevel::kFma) == 0);
          CHECK(code.run(got, 0, 0) == 0);
          CHECK(test::difference(kernel, expected, got) == "");
        }
  }
}

TEST_CASE("codegen/tiles: rounded sums outside of a product of blocks are declined") {
  for (const char* target : {"x86-64-v4", "x86-64-v3", "aarch64", "nvptx:sm_90"}) {
    const auto listing = test::jit(
        "kernel lone(n) {\n  in x: f32[1]\n  out y: f32[1]\n  acc a: f32 dot_bf16 seq\n"
        "  for k = 0 .. n {\n    a <- x[k], x[k]\n  }\n  y[0] = a\n}\n",
        target);
    CHECK(listing.status == static_cast<int>(Status::kUnsupported));
    CHECK(listing.error.find("dot_bf16") != std::string::npos);
  }
}
