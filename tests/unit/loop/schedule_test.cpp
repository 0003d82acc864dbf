#include "loop/schedule.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "loop/text.h"
#include "support/kernel_run.h"
#include "support/loop_kernels.h"

using namespace xc;
using namespace xc::loop;

namespace {

const char* const kTwoLoops = R"(
  kernel two(n) {
    in x: f32[1]
    out y: f32[1]
    out z: f32[1]
    for i = 0 .. n {
      y[i] = (x[i] + 1:f32)
    }
    for k = 0 .. n {
      z[k] = (x[k] * 2:f32)
    }
  })";

const char* const kNest = R"(
  kernel nest(n, m; s) {
    in x: f32[s, 1]
    out y: f32[1, s]
    for i = 0 .. n {
      for j = 0 .. m {
        y[i, j] = x[i, j]
      }
    }
  })";

const char* const kPrefix = R"(
  kernel prefix(n) {
    in x: f32[1]
    inout y: f32[1]
    for i = 1 .. n {
      y[i] = (y[i - 1] + x[i])
    }
  })";

std::string refusal(const std::function<Kernel()>& step) {
  try {
    (void)step();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// Runs both kernels on the same data over dims n = 7, m = 5.
void check_same(const Kernel& before, const Kernel& after) {
  test::Problem problem;
  problem.dims.assign(before.dims.size(), 5);
  problem.dims[0] = 7;
  problem.strides.assign(before.strides.size(), 8);
  problem.elements.assign(before.param_count(), 128);
  test::Buffers expected(before, problem, 3, false), got(before, problem, 3, false);
  const auto range = [&](const Kernel& kernel) {
    return parallel_range(kernel, problem.dims).value_or(Range{0, 0});
  };
  CHECK(interpret(before, expected.args(range(before).begin, range(before).end)) == 0);
  CHECK(interpret(after, got.args(range(after).begin, range(after).end)) == 0);
  INFO(print(after));
  CHECK(test::difference(before, expected, got) == "");
}

}  // namespace

TEST_CASE("loop/schedule: split cuts a loop into blocks with a short last one") {
  const Kernel before = parse(kTwoLoops);
  const Kernel after = split(before, "i", 3);
  CHECK(print(after).find("for i_o = 0 .. ((n + 2) / 3) {") != std::string::npos);
  check_same(before, after);
  check_same(parse(kPrefix), split(parse(kPrefix), "i", 4));  // a lower bound that is not 0
}

TEST_CASE("loop/schedule: every step keeps the results") {
  const Kernel two = parse(kTwoLoops), nest = parse(kNest);
  check_same(two, vectorize(two, "i"));
  check_same(two, unroll(two, "k", 4));
  check_same(two, fuse(two, "i", "k"));
  check_same(nest, reorder(nest, "i"));
  check_same(nest, parallelize(nest, "i"));
  check_same(nest, parallelize(reorder(nest, "i"), "j"));
  check_same(nest, vectorize(split(nest, "j", 2), "j"));
  check_same(nest, jam(nest, "i", 2));
  check_same(nest, vectorize(jam(nest, "i", 3), "j", 4));
  check_same(test::norm_chain(), jam(test::norm_chain(), "l", 3));
  check_same(test::column_sum(), jam(test::column_sum(), "j", 4));
  check_same(test::narrow_products(), jam(test::narrow_products(), "i", 4));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Kernel kernel = test::random_kernel(seed, seed % 2 == 0);
    check_same(kernel, schedule_default(kernel, {}));
  }
}

TEST_CASE("loop/schedule: fused loops read as one") {
  const std::string text = print(fuse(parse(kTwoLoops), "i", "k"));
  CHECK(text.find("    y[i] = (x[i] + 1:f32)\n    z[i] = (x[i] * 2:f32)\n") != std::string::npos);
}

TEST_CASE("loop/schedule: illegal steps are refused with the reason") {
  const Kernel prefix = parse(kPrefix), norm = test::norm_chain(), two = parse(kTwoLoops);
  CHECK(refusal([&] { return vectorize(prefix, "i"); }) ==
        "kernel prefix: rule vector: iterations of i may meet in elements of y");
  CHECK(refusal([&] { return parallelize(prefix, "i"); }) ==
        "schedule: cannot parallelize loop i: iterations of i may meet in elements of y");
  CHECK(refusal([&] { return split(norm, "j", 8); }) ==
        "schedule: cannot split loop j: it accumulates in lanes order, which would change");
  CHECK(refusal([&] { return vectorize(norm, "j", 8); }) ==
        "schedule: cannot vectorize loop j: a reduction in lanes order has 16 lanes");
  CHECK(refusal([&] { return fuse(norm, "j", "k"); }) ==
        "schedule: cannot fuse loop k: it does not follow the first");
  CHECK(refusal([&] { return reorder(norm, "i"); }) ==
        "schedule: cannot reorder loop i: its body is not one loop");
  CHECK(refusal([&] { return parallelize(norm, "j"); }) ==
        "schedule: cannot parallelize loop j: it is not the outermost loop");
  CHECK(refusal([&] { return jam(prefix, "i", 2); }) ==
        "schedule: cannot jam loop i: it does not start at 0");
  CHECK(refusal([&] { return jam(norm, "i", 2); }) ==
        "schedule: cannot jam loop i: iterations of i may meet in elements of row");
  CHECK(refusal([&] { return jam(norm, "j", 2); }) ==
        "schedule: cannot jam loop j: the order of a reduction would change");
  CHECK(refusal([&] { return jam(two, "i", 65); }) ==
        "schedule: cannot jam loop i: more than 64 copies");
  CHECK(refusal([&] { return vectorize(two, "q"); }) == "schedule: kernel two has no loop q");
  const Kernel shifted = parse(R"(
    kernel shifted(n) {
      in x: f32[1]
      inout y: f32[1]
      out z: f32[1]
      for i = 0 .. n {
        y[i] = x[i]
      }
      for k = 0 .. n {
        z[k] = y[k + 1]
      }
    })");
  CHECK(refusal([&] { return fuse(shifted, "i", "k"); }) ==
        "schedule: cannot fuse loop k: iterations of i may meet in elements of y");
}

TEST_CASE("loop/schedule: the default schedule vectorizes columns where a chain runs along rows") {
  const std::string text = print(schedule_default(test::column_sum(), {}));
  CHECK(text.find("parallel j_o = 0 .. ((m + 255) / 256) {") != std::string::npos);
  CHECK(text.find("vector(64) j = ") != std::string::npos);
}

TEST_CASE("loop/schedule: scratch that carries data between rows keeps the task loop serial") {
  const Kernel kernel = schedule_default(parse(R"(
    kernel carried(n) {
      in x: f32[1]
      out y: f32[1]
      scratch t: f32[4]
      for i = 0 .. n {
        y[i] = (t[0] + x[i])
        t[0] = x[i]
      }
    })"),
                                         {});
  CHECK(print(kernel).find("  for i = 0 .. n {") != std::string::npos);
}

TEST_CASE("loop/schedule: blocks whose pieces have loops of their own run in parallel") {
  // Two pieces of every block, below and from element 3 on; `second`: the factor of their blocks.
  const auto pieces = [](int second) {
    return parse(fmt::format(R"(
  kernel pieces(n, blocks) {{
    in x: f32[1]
    out y: f32[1]
    for b = 0 .. blocks {{
      for j = max((b * 2), 0) .. min(min(((b * 2) + 2), n), 3) {{
        y[j] = (x[j] + 1:f32)
      }}
      for k = max((b * {0}), 3) .. min(min(((b * {0}) + {0}), n), n) {{
        y[k] = (x[k] * 2:f32)
      }}
    }}
  }})",
                             second));
  };
  check_same(pieces(2), parallelize(pieces(2), "b"));
  CHECK(refusal([&] { return parallelize(pieces(1), "b"); }) !=
        "");  // block b of one loop is not that of the other
}
