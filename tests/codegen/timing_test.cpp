// Prints compile and run times; asserts nothing about them. Off by default: run with -ns.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/text.h"
#include "support/kernel_run.h"
#include "support/loop_kernels.h"

using namespace xc;
using namespace xc::loop;

namespace {

// CPU time of this thread: other work on the machine does not count.
double now_us() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

template <class F>
double best_us(int runs, F f) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double t = now_us();
    f();
    best = std::min(best, now_us() - t);
  }
  return best;
}

}  // namespace

TEST_CASE("codegen/timing: compile and run times of the example kernels" * doctest::skip()) {
  const struct {
    Kernel kernel;
    int64_t n, m;
    double bytes_per_element;
  } cases[] = {
      {test::gelu_chain(), 512, 3072, 8},     {test::norm_chain(), 2048, 768, 12},
      {test::masked_softmax(), 4096, 384, 8}, {test::row_arg(AccOp::kArgMax), 2048, 768, 4},
      {test::column_sum(), 1024, 1024, 4},
  };
  const double first =
      best_us(1, [] { (void)test::jit(print(schedule_default(test::flat_relu(), {})), "host"); });
  std::printf("first compile in the process: %.1f ms\n", first / 1e3);
  for (const auto& [kernel, n, m, bytes] : cases) {
    Kernel scheduled;
    std::string text;
    const double schedule = best_us(5, [&] {
      scheduled = schedule_default(kernel, {});
      text = print(scheduled);
    });
    for (const std::string& target : test::runnable_targets()) {
      test::JitResult image;
      const double compile = best_us(5, [&] { image = test::jit(text, target); });
      const test::Compiled compiled(scheduled, target);
      test::Problem problem;
      problem.dims = {n, m};
      problem.strides.assign(kernel.strides.size(), m);
      for (size_t i = 0; i < kernel.param_count(); ++i)
        problem.elements.push_back(
            static_cast<size_t>(kernel.buffers[i].strides.size() == 2 ? n * m : std::max(n, m)));
      test::Buffers buffers(kernel, problem, 1, false);
      const auto range = parallel_range(scheduled, problem.dims).value_or(Range{0, 0});
      const double run = best_us(20, [&] { compiled(buffers.args(range.begin, range.end)); });
      std::printf(
          "%-15s %-10s schedule+print %4.0f us  compile %5.2f ms  %5zu bytes  run %7.1f us"
          "  %.3f ns/element  %.1f GB/s\n",
          kernel.name.c_str(), target.c_str(), schedule, compile / 1e3, image.code.size(), run,
          run * 1e3 / static_cast<double>(n * m), bytes * static_cast<double>(n * m) / run / 1e3);
    }
  }
  // The first product of gram: n rows against n rows of length m; flops per second of both
  // products.
  for (const std::string& target : test::runnable_targets()) {
    const bool wide = target == "x86-64-v4";
    const Kernel kernel = schedule_default(
        apply_schedule(test::gram(), wide ? "vectorize r1 32; jam j1 8; vectorize k2 64; jam r2 4"
                                          : "vectorize r1 16; jam j1 4; vectorize k2 16; jam r2 4"),
        {});
    const std::string text = print(kernel);
    test::JitResult image;
    const double compile = best_us(5, [&] { image = test::jit(text, target); });
    const test::Compiled compiled(kernel, target);
    for (const int64_t n : {128, 512, 1024}) {
      const int64_t m = 64;
      test::Problem problem;
      problem.dims = {n, m};
      problem.strides = {m, m};
      problem.elements = {static_cast<size_t>(n * m), static_cast<size_t>(n * m)};
      test::Buffers buffers(kernel, problem, 1, false);
      const double run = best_us(20, [&] { compiled(buffers.args(0, (n + 31) / 32)); });
      std::printf(
          "gram %4d x %d    %-10s compile %5.2f ms  %5zu bytes  run %7.1f us  %.1f GFLOP/s\n",
          static_cast<int>(n), static_cast<int>(m), target.c_str(), compile / 1e3,
          image.code.size(), run, 4e-3 * static_cast<double>(n * n * m) / run);
    }
  }
  std::vector<char> from(64 << 20, 1), to(64 << 20, 2);
  const double copy = best_us(5, [&] { std::memcpy(to.data(), from.data(), to.size()); });
  std::printf("memcpy of 64 MB: %.1f GB/s read and written\n", 2 * 64 * 1.048576 / copy * 1e3);
}
