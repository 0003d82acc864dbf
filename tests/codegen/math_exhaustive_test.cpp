// Every float there is: f32 functions on the best instruction set with fma against the C library in
// double, and bit by bit against the other sets that have fma (they promise the same bits); the
// baseline without fma keeps the bounds by itself. Minutes of work on all cores: ctest -C soak
// -L soak. A float in 4,096 is an ordinary test.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "codegen/math_reference.h"
#include "loop/words.h"

using namespace xc;
using namespace xc::loop;
using namespace xc::test;

namespace {

struct Worst {
  double ulp = 0;
  float x = 0, got = 0;
  uint64_t different = 0;  ///< bits unlike those of another instruction set
  float unlike = 0;        ///< the first argument of those
  void take(const Worst& other) {
    if (other.ulp > ulp) {
      ulp = other.ulp;
      x = other.x;
      got = other.got;
    }
    if (different == 0) unlike = other.unlike;
    different += other.different;
  }
};

/// NaNs need not agree in their payload.
bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

constexpr std::array kAccuracies{Accuracy::kDefault, Accuracy::kStrict, Accuracy::kFast};

/// `stride`: one float in so many, by their bits, from `first` on.
Worst walk(const MathBound& stated, Accuracy accuracy, const std::string& target,
           const std::vector<std::string>& same, uint64_t first, uint64_t stride) {
  const Op op = stated.op;
  const double bound = stated.f32(accuracy);
  constexpr uint64_t kAll = uint64_t{1} << 32, kBlock = 1 << 18;
  const MathLevel level = math_of(target);
  const auto kernel = compile_function<float>(op, target, accuracy);
  std::vector<std::unique_ptr<Compiled>> others;
  for (const std::string& other : same)
    others.push_back(compile_function<float>(op, other, accuracy));
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Worst worst;
  const auto work = [&] {
    std::vector<float> x(kBlock), y(kBlock), z(kBlock);
    Worst mine;
    for (uint64_t block; (block = next.fetch_add(1)) * kBlock * stride < kAll;) {
      size_t count = 0;
      for (uint64_t k = 0; k < kBlock; ++k) {
        const uint64_t bits = first + (block * kBlock + k) * stride;
        if (bits < kAll) x[count++] = std::bit_cast<float>(static_cast<uint32_t>(bits));
      }
      const auto n = static_cast<int64_t>(count);
      if (run_function<float>(*kernel, x.data(), x.data(), y.data(), n) != 0) mine.ulp = INFINITY;
      for (size_t i = 0; i < count; ++i) {
        if (!in_domain(op, static_cast<double>(x[i]), true, level)) continue;
        const double error =
            ulps_of_float(y[i], reference<float>(op, static_cast<double>(x[i])), bound);
        if (error > mine.ulp) {
          mine.ulp = error;
          mine.x = x[i];
          mine.got = y[i];
        }
      }
      for (const auto& other : others) {
        if (run_function<float>(*other, x.data(), x.data(), z.data(), n) != 0) mine.ulp = INFINITY;
        for (size_t i = 0; i < count; ++i)
          if (is_specified(op, static_cast<double>(x[i])) && !same_bits(y[i], z[i]) &&
              mine.different++ == 0)
            mine.unlike = x[i];
      }
    }
    const std::lock_guard lock(mutex);
    worst.take(mine);
  };
  std::vector<std::thread> threads;
  for (unsigned k = 1; k < std::max(1u, std::thread::hardware_concurrency()); ++k)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return worst;
}

void check_all(uint64_t first, uint64_t stride) {
  std::vector<std::string> fused, plain;
  for (const std::string& target : runnable_targets())
    (math_of(target) == MathLevel::kFma ? fused : plain).push_back(target);
  for (const MathBound& bound : math_bounds()) {
    if (bound.op == Op::kPow) continue;  // two arguments: sampled in math_test.cpp
    std::vector<std::pair<std::string, std::vector<std::string>>> passes;
    if (!fused.empty())
      passes.emplace_back(fused.back(), std::vector(fused.begin(), fused.end() - 1));
    for (const std::string& target : plain) passes.emplace_back(target, std::vector<std::string>{});
    for (const auto& [target, same] : passes) {
      for (const Accuracy accuracy : kAccuracies) {
        const double limit = bound.f32(accuracy);
        const Worst worst = walk(bound, accuracy, target, same, first, stride);
        const std::string name =
            fmt::format("{} {} on {}", accuracy_name(accuracy), op_info(bound.op).name, target);
        INFO(name, ": ", worst.ulp, " ULP at ", worst.x, " (", worst.got, "), bound ", limit);
        CHECK(worst.ulp <= limit);
        CHECK(worst.different == 0);
        if (worst.different) MESSAGE(name, ": other bits elsewhere, first at ", worst.unlike);
        if (stride == 1 || std::getenv("XC_VERBOSE"))
          MESSAGE(name, ": worst ", worst.ulp, " ULP at ", worst.x);
      }
    }
  }
}

}  // namespace

TEST_CASE("codegen/math: a float in 4,096 keeps its bounds, with the same bits on every fma set") {
  check_all(1234, 4096);
}

TEST_CASE("soak/math: every float keeps its bounds, with the same bits on every fma set" *
          doctest::skip()) {
  check_all(0, 1);
}

TEST_CASE("codegen/math: the quick distance is the exact one") {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65'537) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double want = static_cast<double>(x) * (1 + 0x1p-22);
    const double quick = ulps_of_float(x, want), exact = ulps<float>(x, want);
    REQUIRE(quick == doctest::Approx(exact));
  }
}
