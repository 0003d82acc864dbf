#include <doctest/doctest.h>

#include <cmath>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

struct Spectrum {
  bool inverse = false, onesided = false;
  int64_t length = 0;  ///< 0: that of the axis
  int64_t axis = -2;
};

void check_dft(const Tensor& x, const Spectrum& of) {
  Problem p;
  p.op = &get_op("DFT");
  p.attrs.set("inverse", int64_t{of.inverse});
  p.attrs.set("onesided", int64_t{of.onesided});
  p.inputs = {x, of.length > 0 ? Tensor::scalar(of.length) : Tensor(), Tensor::scalar(of.axis)};
  p.constant = {false, of.length > 0, true};
  const auto axis = static_cast<size_t>(of.axis < 0 ? of.axis + x.rank() : of.axis);
  const auto points = static_cast<double>(std::max(of.length, 2 * x.dims()[axis]));
  INFO("inverse " << of.inverse << " onesided " << of.onesided << " length " << of.length);
  CHECK(chosen_row(p) == "xc.dft");
  // Of values up to 1: some roundings of sums as large as the root of their number.
  check_row("xc.dft", p, {0, 1e-6 * std::sqrt(points)});
}

TEST_CASE(
    "backends/dft: lengths of all kinds of factors, forward, inverse and of half a spectrum") {
  Generator g(91);
  for (const int64_t n : {1,  2,  3,  4,  5,  6,  7,  8,   9,   12,  15,  16,   20,  25,
                          30, 32, 49, 60, 64, 77, 97, 121, 128, 210, 512, 1000, 1024}) {
    INFO(n);
    const Tensor real = g.tensor(DType::kF32, {3, n, 1}, -1, 1),
                 complex = g.tensor(DType::kF32, {3, n, 2}, -1, 1);
    for (const bool inverse : {false, true}) {
      check_dft(real, {.inverse = inverse});
      check_dft(complex, {.inverse = inverse});
    }
    check_dft(real, {.onesided = true});
    if (n < 2) continue;
    for (const int64_t length : {int64_t{0}, 2 * n - 1, 2 * n - 2})
      check_dft(complex, {.inverse = true, .onesided = true, .length = length});
  }
}

TEST_CASE("backends/dft: lengths with large prime factors keep the digits of f64") {
  Generator g(93);
  for (const int64_t n : {29, 31, 37, 53, 67, 134, 211, 1009, 2018, 4002, 10007}) {
    const Tensor x = g.tensor(DType::kF32, {2, n, 2}, -1, 1);
    for (const bool inverse : {false, true}) {
      Problem p;
      p.op = &get_op("DFT");
      p.attrs.set("inverse", int64_t{inverse});
      p.inputs = {x};
      const Tensor y = run_row(find_row("xc.dft", "DFT"), p)[0];
      INFO(n << " points, inverse " << inverse);
      for (int64_t line = 0; line < 2; ++line)
        for (int64_t k = 0; k < n; k += std::max<int64_t>(1, n / 50)) {
          long double re = 0, im = 0;
          const auto* from = x.as<float>() + line * n * 2;
          for (int64_t j = 0; j < n; ++j) {
            const long double angle = (inverse ? 2 : -2) * std::acos(-1.0L) *
                                      static_cast<long double>(j * k % n) /
                                      static_cast<long double>(n);
            const long double a = from[2 * j], b = from[2 * j + 1];
            re += a * std::cos(angle) - b * std::sin(angle);
            im += a * std::sin(angle) + b * std::cos(angle);
          }
          const long double scale = inverse ? 1.0L / static_cast<long double>(n) : 1.0L;
          const auto* got = y.as<float>() + (line * n + k) * 2;
          // Rounded to f32 once.
          REQUIRE(std::fabs(got[0] - re * scale) <= 0x1p-24L * std::fabs(re * scale) + 1e-11L);
          REQUIRE(std::fabs(got[1] - im * scale) <= 0x1p-24L * std::fabs(im * scale) + 1e-11L);
        }
    }
    check_dft(x, {});
    check_dft(g.tensor(DType::kF32, {2, n, 1}, -1, 1), {.onesided = true, .length = n + 2});
  }
}

TEST_CASE("backends/dft: nothing is prepared for no results") {
  Problem p;
  p.op = &get_op("DFT");
  p.inputs = {Tensor(DType::kF32, {0, 16, 1}), Tensor::scalar(int64_t{1} << 40),
              Tensor::scalar(int64_t{1})};
  p.constant = {false, true, true};
  const auto bound = bind_row(find_row("xc.dft", "DFT"), p);
  CHECK(bound->scratch_bytes + bound->held_bytes < 4096);
}

TEST_CASE("backends/dft: along every axis, of parts of a signal and of more than there is") {
  Generator g(92);
  for (const int64_t parts : {1, 2}) {
    const Tensor x = g.tensor(DType::kF32, {5, 18, 40, parts}, -1, 1);
    for (const int64_t axis : {0, 1, 2, -2, -3})
      for (const int64_t length : {0, 3, 16, 45}) {
        check_dft(x, {.length = length, .axis = axis});
        check_dft(x, {.inverse = true, .length = length, .axis = axis});
        check_dft(x, {.inverse = parts == 2, .onesided = true, .length = length, .axis = axis});
      }
  }
}

TEST_CASE("backends/dft: a line's bits do not depend on the lines beside it") {
  Generator g(93);
  for (const int64_t n : {60, 77, 1024}) {
    const Tensor x = g.tensor(DType::kF32, {21, n, 2}, -1, 1);
    Problem all;
    all.op = &get_op("DFT");
    all.inputs = {x};
    const auto& row = find_row("xc.dft", "DFT");
    const Tensor together = run_row(row, all)[0];
    for (const int64_t line : {0, 7, 20}) {
      Problem one = all;
      one.inputs = {Tensor(x.buffer(), line * n * 2 * 4, DType::kF32, {1, n, 2})};
      const Tensor alone = run_row(row, one)[0];
      CHECK(std::memcmp(alone.data(), together.as<float>() + line * n * 2,
                        static_cast<size_t>(n * 8)) == 0);
    }
  }
}

}  // namespace
}  // namespace xc
