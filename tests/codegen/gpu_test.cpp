// What differential_test.cpp does not ask of a GPU: functions over many arguments, indices out of
// range, planted faults; printed times. Skipped where there is no device.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "codegen/gpu.h"
#include "codegen/math_reference.h"
#include "loop/schedule.h"
#include "loop/schedule_text.h"
#include "loop/text.h"
#include "support/loop_kernels.h"

using namespace xc;
using namespace xc::loop;

namespace {

// Where the device and the processor's best instruction set with fma differ.
template <class T>
std::string function_difference(test::Gpu& gpu, Op op, Accuracy accuracy) {
  const Kernel kernel = test::function_kernel<T>(op, accuracy);
  const std::vector<T> x = test::arguments<T>(20011, 100000);
  std::vector<T> z(x.rbegin(), x.rend());
  const auto count = static_cast<int64_t>(x.size());
  test::Problem problem{{count}, {}, {x.size(), x.size(), x.size()}};
  test::Buffers want(kernel, problem, 1, false), got(kernel, problem, 1, false);
  for (test::Buffers* buffers : {&want, &got}) {
    std::memcpy(buffers->data(0), x.data(), buffers->bytes(0));
    std::memcpy(buffers->data(1), z.data(), buffers->bytes(1));
  }
  const Range range = *parallel_range(kernel, problem.dims);
  const test::Compiled reference(kernel, test::runnable_targets().back());
  CHECK(reference.run(want, range.begin, range.end) == 0);
  CHECK(test::GpuKernel(gpu, kernel).run(got, range.begin, range.end) == 0);
  return test::difference(kernel, got, want);
}

}  // namespace

TEST_CASE("codegen/gpu: functions have the bits of the processor's code") {
  test::Gpu* gpu = test::Gpu::device();
  if (!gpu || test::math_of(test::runnable_targets().back()) != MathLevel::kFma) return;
  for (const MathBound& bound : math_bounds()) {
    CAPTURE(op_info(bound.op).name);
    for (const Accuracy accuracy : {Accuracy::kDefault, Accuracy::kFast, Accuracy::kStrict})
      CHECK(function_difference<float>(*gpu, bound.op, accuracy) == "");
    CHECK(function_difference<double>(*gpu, bound.op, Accuracy::kDefault) == "");
  }
}

TEST_CASE("codegen/gpu: an index out of range is reported and touches nothing") {
  test::Gpu* gpu = test::Gpu::device();
  if (!gpu) return;
  const Kernel kernel = schedule_default(test::gather_rows(), {});
  const test::GpuKernel code(*gpu, kernel);
  const int64_t rows = 4, m = 37;
  const test::Problem problem{
      {3, m, rows}, {m, m}, {static_cast<size_t>(rows * m), 3, static_cast<size_t>(3 * m)}};
  test::Buffers buffers(kernel, problem, 5, false);
  auto* index = reinterpret_cast<int64_t*>(buffers.data(1));
  const auto* table = reinterpret_cast<const float*>(buffers.data(0));
  const auto* y = reinterpret_cast<const float*>(buffers.data(2));
  index[0] = 3, index[1] = 0, index[2] = 1;
  CHECK(code.run(buffers, 0, 3) == XC_KERNEL_OK);
  CHECK((y[36] == table[147] && y[37] == table[0] && y[110] == table[73]));
  for (const int64_t bad : {int64_t{-1}, int64_t{4}, INT64_MIN, INT64_MAX}) {
    index[1] = bad;
    CHECK(code.run(buffers, 0, 3) == XC_KERNEL_RANGE_ERROR);
  }
}

TEST_CASE("codegen/gpu: the comparison sees a planted fault") {
  test::Gpu* gpu = test::Gpu::device();
  if (!gpu) return;
  const Kernel right = schedule_default(test::gelu_chain(), {});
  std::string text = print(right);
  const size_t at = text.find("x[i, j] + b[j]");
  REQUIRE(at != std::string::npos);
  const Kernel wrong = parse(text.replace(at + 8, 1, "-"));
  const test::Problem problem{{3, 70}, {70, 70}, {210, 70, 210}};
  test::Buffers want(right, problem, 5, false), got(right, problem, 5, false);
  const Range range = *parallel_range(right, problem.dims);
  CHECK(test::GpuKernel(*gpu, right).run(want, range.begin, range.end) == 0);
  CHECK(test::GpuKernel(*gpu, wrong).run(got, range.begin, range.end) == 0);
  CHECK(test::difference(right, got, want) != "");
}

// Alone in its process: the driver lets nothing follow.
TEST_CASE("codegen/gpu: the first byte behind a buffer cannot be read" * doctest::skip()) {
  test::Gpu* gpu = test::Gpu::device();
  if (!gpu) return;
  const Kernel kernel = schedule_default(test::gelu_chain(), {});
  const test::Problem problem{{3, 70}, {70, 70}, {209, 70, 210}};  // x: one element short
  test::Buffers buffers(kernel, problem, 5, false);
  const Range range = *parallel_range(kernel, problem.dims);
  CHECK_THROWS_AS(test::GpuKernel(*gpu, kernel).run(buffers, range.begin, range.end), Error);
}

// Prints; asserts nothing. Off by default: run with -ns.
TEST_CASE("codegen/gpu_timing: kernels beside a copy of the same bytes" * doctest::skip()) {
  test::Gpu* gpu = test::Gpu::device();
  if (!gpu) return;
  std::printf("%s, %d multiprocessors, %s\n", gpu->name().c_str(), gpu->multiprocessors(),
              gpu->target().c_str());
  const auto best_seconds = [&](const auto& start) {
    double best = 1e30;
    for (int round = 0; round < 5; ++round) {
      constexpr int kRuns = 20;
      gpu->wait();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kRuns; ++i) start();
      gpu->wait();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / kRuns);
    }
    return best;
  };
  const struct {
    Kernel kernel;
    int64_t n, m;
    double bytes_per_element;
  } cases[] = {
      {test::flat_relu(), 1 << 26, 1, 8},
      {test::gelu_chain(), 16384, 4096, 8},
      {test::gelu_chain(), 512, 3072, 8},
      {test::norm_chain(), 65536, 768, 12},
      {test::norm_chain(), 2048, 768, 12},
      {test::masked_softmax(), 65536, 384, 8},
      {test::row_arg(AccOp::kArgMax), 65536, 768, 4},
  };
  for (const auto& [kernel, n, m, bytes_per_element] : cases) {
    const Kernel scheduled = schedule_default(kernel, {});
    const test::GpuKernel code(*gpu, scheduled);
    std::vector<int64_t> dims(kernel.dims.size(), m), strides(kernel.strides.size(), m);
    dims[0] = n;
    const Range range = parallel_range(scheduled, dims).value_or(Range{0, 0});
    std::vector<std::unique_ptr<test::GpuMemory>> memory;
    std::vector<uint64_t> addresses;
    for (size_t i = 0; i < kernel.param_count(); ++i) {
      const BufferDecl& decl = kernel.buffers[i];
      const int64_t elements = decl.strides.size() == 2 ? n * m : std::max(n, m);
      memory.push_back(std::make_unique<test::GpuMemory>(
          *gpu, static_cast<size_t>(elements * element_size(decl.type))));
      addresses.push_back(memory.back()->address());
    }
    const xc_kargs args{XC_KERNEL_ABI_VERSION, 0,       nullptr,     dims.data(),
                        strides.data(),        nullptr, range.begin, range.end};
    const int64_t scratch_bytes = code.scratch_bytes(args);
    const double bytes = static_cast<double>(n * m) * bytes_per_element;
    const auto half = static_cast<size_t>(bytes / 2);
    test::GpuMemory from(*gpu, half), to(*gpu, half), status(*gpu, 4);
    const double copy = best_seconds([&] { gpu->copy(to.address(), from.address(), half); });
    for (const int64_t blocks_each : {8, 16, 32}) {  // per multiprocessor
      const int64_t blocks =
          std::min(blocks_each * gpu->multiprocessors(), range.end - range.begin);
      test::GpuMemory scratch(*gpu, static_cast<size_t>(scratch_bytes * blocks));
      const double run = best_seconds([&] {
        code.launch(addresses, args, scratch.address(), scratch_bytes, status.address(), blocks);
      });
      std::printf(
          "%-15s %8lld x %-5lld %5lld blocks  driver %5.1f ms  run %8.1f us  %6.0f GB/s  "
          "%.2f of the copy's speed (%.0f GB/s)\n",
          kernel.name.c_str(), static_cast<long long>(n), static_cast<long long>(m),
          static_cast<long long>(blocks), code.driver_seconds() * 1e3, run * 1e6, bytes / run / 1e9,
          copy / run, bytes / copy / 1e9);
    }
  }
}
