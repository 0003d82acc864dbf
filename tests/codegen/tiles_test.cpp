// Tiled, staged and tensorized products on every instruction set this machine runs: the
// interpreter's bits.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/cpu_info.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/dot.h"
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
    for (const char* name : {"xc.transpose\n", "xc.product\n"})
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

// Sums over `count` terms; x[j, k] lies `s` and `u` elements apart.
Kernel products_of(const char* op) {
  return parse(
      fmt::format("kernel products(n, m, count; s, u) {{\n"
                  "  in p: f32[250, 1]\n  in x: f32[s, u]\n  out y: f32[250, 1]\n"
                  "  for j = 0 .. m {{\n    vector(16) r = 0 .. (n * 16) {{\n"
                  "      acc a: f32 {} seq\n"
                  "      for k = 0 .. count {{\n        a <- p[k, r], x[j, k]\n      }}\n"
                  "      y[j, r] = a\n    }}\n  }}\n}}\n",
                  op));
}

struct ByUnits {
  const char *op, *function;
};
constexpr ByUnits kByUnits[] = {{"dot_bf16", "xc.product.bf16\n"},
                                {"dot_bf16x3", "xc.product.bf16x3\n"}};

test::Problem problem_by_units(int64_t n, int64_t m, int64_t count, int64_t s, int64_t u) {
  test::Problem out;
  out.dims = {n, m, count};
  out.strides = {s, u};
  for (const int64_t elements :
       {count * 250, std::max<int64_t>(m - 1, 0) * s + std::max<int64_t>(count - 1, 0) * u + 1,
        m * 250})
    out.elements.push_back(static_cast<size_t>(elements));
  return out;
}

TEST_CASE("codegen/tiles: matrix units have the interpreter's bits") {
  for (const auto& [op, function] : kByUnits) {
    const Kernel kernel = products_of(op);
    CHECK(print(parse(print(kernel))) == print(kernel));
    const auto listing = test::jit(print(kernel), "x86-64-v4", XC_JIT_WANT_ASSEMBLY);
    INFO(listing.error);
    REQUIRE(listing.status == 0);
    CHECK(listing.assembly.find(function) != std::string::npos);
    if (!grant_matrix_units()) continue;
    const test::Compiled code(kernel, "x86-64-v4");
    const struct {
      int64_t s, u;
    } layouts[] = {{700, 1}, {1, 140}, {2, 280}};  // by columns, by terms, neither
    for (const auto& [s, u] : layouts)
      for (const bool specials : {false, true})
        for (const auto& [n, m, count] : std::initializer_list<std::array<int64_t, 3>>{
                 {4, 16, 64},
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
                 {5, 33, 128},
                 // As many rows, columns and terms as are split.
                 {6, 32, 32},
                 {6, 100, 64},
                 {7, 60, 50},
                 {9, 80, 100},
                 {8, 130, 128},
                 {15, 140, 75},
                 {8, 64, 290},
                 {7, 138, 600}}) {
          CAPTURE(fmt::format("{}: {} {} {} {} {}", op, s, n, m, count, specials));
          const test::Problem problem = problem_by_units(n, m, count, s, u);
          test::Buffers expected(kernel, problem, 9, specials), got(kernel, problem, 9, specials);
          CHECK(interpret(kernel, expected.args(0, 0), MathLevel::kFma) == 0);
          CHECK(code.run(got, 0, 0) == 0);
          CHECK(test::difference(kernel, expected, got) == "");
        }
  }
}

// Rows and columns, some of them scaled by a power of two, some 0.
TEST_CASE("codegen/tiles: three parts in bf16 have f32's digits, whatever the factors' size") {
  const Kernel kernel = products_of("dot_bf16x3");
  const Kernel exact = products_of("dot");
  constexpr int64_t kRowsPitch = 250, kColumnPitch = 200;
  for (const int power : {0, -30, -45, -100, -140, 60, 110})
    for (const int64_t count : {25, 170, 192}) {
      CAPTURE(power);
      CAPTURE(count);
      const test::Problem problem = problem_by_units(6, 50, count, kColumnPitch, 1);
      const auto make = [&](const Kernel& of) {
        test::Buffers out(of, problem, 5, false);
        auto* const p = reinterpret_cast<float*>(out.data(0));
        auto* const x = reinterpret_cast<float*>(out.data(1));
        for (int64_t k = 0; k < count; ++k) {
          for (int64_t r = 0; r < 96; ++r) {
            float& at = p[k * kRowsPitch + r];
            if (r % 3 == 1) at = std::ldexp(at, power);
            if (r % 7 == 2) at = 0;
          }
          for (int64_t j = 0; j < 50; ++j) {
            float& at = x[j * kColumnPitch + k];
            if (j % 4 == 1 && k < 64) at = std::ldexp(at, power);
            if (j % 5 == 2 && k >= 64) at = 0;
          }
        }
        return out;
      };
      test::Buffers expected = make(kernel), want = make(exact);
      REQUIRE(interpret(kernel, expected.args(0, 0), MathLevel::kFma) == 0);
      REQUIRE(interpret(exact, want.args(0, 0), MathLevel::kFma) == 0);
      const auto* const p = reinterpret_cast<const float*>(want.data(0));
      const auto* const x = reinterpret_cast<const float*>(want.data(1));
      const auto* const sums = reinterpret_cast<const float*>(expected.data(2));
      const auto* const dots = reinterpret_cast<const float*>(want.data(2));
      double furthest = 0;
      bool differs = false;
      for (int64_t j = 0; j < 50; ++j)
        for (int64_t r = 0; r < 96; ++r) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < count; ++k) {
            const double term = double{p[k * kRowsPitch + r]} * x[j * kColumnPitch + k];
            sum += term;
            size += std::fabs(term);
          }
          const float got = sums[j * kRowsPitch + r], dot = dots[j * kRowsPitch + r];
          if (got == dot || (std::isnan(got) && std::isnan(dot))) continue;
          differs = true;
          CHECK(std::isfinite(got));
          CHECK(size >= 1e-36);
          furthest = std::max(furthest, std::fabs(got - sum) / size);
        }
      CHECK(furthest < 3e-7);
      CHECK(differs == splits_product(96, 50, count));
      if (!grant_matrix_units()) continue;
      test::Buffers got = make(kernel);
      CHECK(test::Compiled(kernel, "x86-64-v4").run(got, 0, 0) == 0);
      CHECK(test::difference(kernel, expected, got) == "");
    }
}

// Blocks of rows by the same columns, whose parts are kept from one block to the next; and by
// columns that the kernel itself writes for each block, which are not.
TEST_CASE("codegen/tiles: blocks share what is laid out of columns while these stay the same") {
  for (const bool written : {false, true}) {
    const Kernel kernel = parse(fmt::format(
        "kernel blocks(n, m, count, blocks; s) {{\n"
        "  in p: f32[16640, 128, 1]\n  in x: f32[s, 1]\n  out y: f32[16640, 128, 1]\n{}"
        "  for b = 0 .. blocks {{\n{}    for j = 0 .. m {{\n      vector(16) r = 0 .. (n * 16) {{\n"
        "        acc a: f32 dot_bf16x3 seq\n"
        "        for k = 0 .. count {{\n          a <- p[b, k, r], {}[j, k]\n        }}\n"
        "        y[b, j, r] = a\n      }}\n    }}\n  }}\n}}\n",
        written ? "  scratch t: f32[17160; 130, 1]\n" : "",
        written ? "    for c = 0 .. m {\n      vector(16) d = 0 .. count {\n"
                  "        t[c, d] = x[c + b, d]\n      }\n    }\n"
                : "",
        written ? "t" : "x"));
    if (!grant_matrix_units()) continue;
    const test::Compiled code(kernel, "x86-64-v4");
    for (const auto& [n, m, count] : std::initializer_list<std::array<int64_t, 3>>{
             {8, 50, 128}, {7, 64, 122}, {6, 130, 64}, {3, 20, 64}}) {
      CAPTURE(fmt::format("{} {} {} {}", n, m, count, written));
      test::Problem problem;
      problem.dims = {n, m, count, 3};
      problem.strides = {130};
      problem.elements = {3 * 16640, 134 * 130, 3 * 16640};
      test::Buffers expected(kernel, problem, 9, false), got(kernel, problem, 9, false);
      CHECK(interpret(kernel, expected.args(0, 0), MathLevel::kFma) == 0);
      for (int run = 0; run < 2; ++run) {
        CHECK(code.run(got, 0, 0) == 0);
        CHECK(test::difference(kernel, expected, got) == "");
      }
      // Another call with other columns at the same place.
      for (test::Buffers* buffers : {&expected, &got}) {
        auto* const x = reinterpret_cast<float*>(buffers->data(1));
        for (size_t i = 0; i < 134 * 130; ++i) x[i] = 0.5f - x[i];
      }
      CHECK(interpret(kernel, expected.args(0, 0), MathLevel::kFma) == 0);
      CHECK(code.run(got, 0, 0) == 0);
      CHECK(test::difference(kernel, expected, got) == "");
    }
  }
}

TEST_CASE("codegen/tiles: sums by matrix units outside of a product of blocks are declined") {
  for (const char* op : {"dot_bf16", "dot_bf16x3"})
    for (const char* target : {"x86-64-v4", "x86-64-v3", "aarch64", "nvptx:sm_90"}) {
      const auto listing = test::jit(
          fmt::format("kernel lone(n) {{\n  in x: f32[1]\n  out y: f32[1]\n  acc a: f32 {} seq\n"
                      "  for k = 0 .. n {{\n    a <- x[k], x[k]\n  }}\n  y[0] = a\n}}\n",
                      op),
          target);
      CHECK(listing.status == static_cast<int>(Status::kUnsupported));
      CHECK(listing.error.find("dot_bf16") != std::string::npos);
    }
}
