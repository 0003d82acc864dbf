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
