#include "tensor/small_float.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tensor/tensor.h"

using namespace xc;

namespace {
struct Row {
  DType type;
  double sum;  // of the magnitudes of all finite codes
  int nans, infinities;
  std::vector<int> codes;  // of kValues, not saturated
};
// Values and codes as the ml_dtypes package gives them.
const std::vector<double> kValues{0.3, -0.0,      1.0625, 464,          465, -500, 61440,
                                  1e6, -INFINITY, 2.5,    0.0009765625, 5,   0.25, 3e-8};
const std::vector<Row> kRows{
    {DType::kF8E4M3FN,
     10815.75,
     2,
     0,
     {42, 128, 56, 126, 127, 255, 127, 127, 255, 66, 0, 74, 40, 0}},
    {DType::kF8E4M3FNUZ,
     5887.875,
     1,
     0,
     {50, 0, 64, 128, 128, 128, 128, 128, 128, 74, 1, 82, 48, 0}},
    {DType::kF8E5M2,
     720895.9995117188,
     6,
     2,
     {53, 128, 60, 95, 95, 224, 124, 124, 252, 65, 20, 69, 52, 0}},
    {DType::kF8E5M2FNUZ,
     720895.9997558594,
     1,
     0,
     {57, 0, 64, 99, 99, 228, 128, 128, 128, 69, 24, 73, 56, 0}},
    {DType::kF4E2M1, 36, 0, 0, {1, 8, 2, 7, 7, 15, 7, 7, 15, 4, 0, 6, 0, 0}},
    {DType::kF6E2M3, 168, 0, 0, {2, 32, 8, 31, 31, 63, 31, 31, 63, 18, 0, 26, 2, 0}},
    {DType::kF6E3M2, 350, 0, 0, {5, 32, 12, 31, 31, 63, 31, 31, 63, 17, 0, 21, 4, 0}},
};
}  // namespace

TEST_CASE("tensor/small_float: every code has the value of its format") {
  for (const Row& row : kRows) {
    CAPTURE(name(row.type));
    double sum = 0;
    int nans = 0, infinities = 0;
    for (int code = 0; code < 1 << info(row.type).bits; ++code) {
      const double v = small_float_value(row.type, static_cast<uint8_t>(code));
      if (std::isnan(v))
        ++nans;
      else if (std::isinf(v))
        ++infinities;
      else
        sum += std::abs(v);
    }
    CHECK(sum == doctest::Approx(row.sum).epsilon(1e-12));
    CHECK(nans == row.nans);
    CHECK(infinities == row.infinities);
  }
  CHECK(small_float_value(DType::kF8E8M0, 128) == 2);
  CHECK(std::isnan(small_float_value(DType::kF8E8M0, 255)));
}

TEST_CASE("tensor/small_float: rounding to nearest even, overflow to infinity or NaN") {
  for (const Row& row : kRows)
    for (size_t i = 0; i < kValues.size(); ++i) {
      CAPTURE(name(row.type));
      CAPTURE(kValues[i]);
      CHECK(small_float_code(row.type, kValues[i], false) == row.codes[i]);
    }
}

TEST_CASE("tensor/small_float: saturation gives the largest finite value") {
  CHECK(small_float_code(DType::kF8E4M3FN, 1e9) == 0x7e);
  CHECK(small_float_code(DType::kF8E5M2, -INFINITY) == 0xfb);
  CHECK(small_float_code(DType::kF8E4M3FNUZ, 241) == 0x7f);
  CHECK(small_float_code(DType::kF8E8M0, 5) == 129);
  // The table of Cast's text: zero and what is out of range are NaN unless saturated.
  for (const double v : {0.0, 0x1p128, 0x1p-128, static_cast<double>(INFINITY)})
    CHECK(small_float_code(DType::kF8E8M0, v, false) == 255);
  CHECK(small_float_code(DType::kF8E8M0, 0) == 0);
  CHECK(small_float_code(DType::kF8E8M0, 0x1p128) == 254);
}

TEST_CASE("tensor/tensor: narrow integers saturate at their own width") {
  int8_t byte = 0;
  store_int64(&byte, DType::kI4, 0, 100);
  CHECK(byte == 7);
  store_double(&byte, DType::kI2, 0, -5.0);
  CHECK(byte == -2);
  store_int64(&byte, DType::kU4, 0, 100);
  CHECK(byte == 15);
}
