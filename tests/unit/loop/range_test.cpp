// What is known of floats without running anything holds for every value they have.
#include <doctest/doctest.h>

#include <cmath>

#include "loop/range.h"

using namespace xc;
using namespace xc::loop;

namespace {

void check_range(const Expr& e, double low, double high) {
  const KnownRange range = known_range(e);
  CHECK(range.number);
  CHECK(range.low == low);
  CHECK(range.high == high);
}

}  // namespace

TEST_CASE("loop/range: constants, bytes, and what is made of them") {
  const Expr byte = cast(DType::kF32, constant(DType::kU8, 7));
  const Expr small = cast(DType::kF32, constant(DType::kI16, 7));
  check_range(f32(2.5), 2.5, 2.5);
  check_range(byte, 0, 255);
  check_range(small, -32768, 32767);
  check_range(byte - f32(128), -128, 127);
  check_range((byte - f32(128)) * f32(-2), -254, 256);
  check_range(byte * small, -32768.0 * 255, 32767.0 * 255);
  check_range(min(byte, f32(9)) + max(byte, f32(250)), 250, 264);
  // Rounded as the sum is.
  check_range(byte + f32(0x1p24), 0x1p24, 0x1p24 + 256);
}

TEST_CASE("loop/range: a selection is one of the two, and no NaN") {
  const Expr any = f32(1) / f32(3);  // nothing is looked for behind it
  CHECK_FALSE(known_range(any).number);
  const auto at_least = [](const Expr& v, double least) {
    return select(gt(v, f32(least)), v, f32(least));
  };
  check_range(min(at_least(any, -128), f32(127)), -128, 127);
  check_range(at_least(min(any, f32(3)), 70000), 70000, 70000);
  CHECK_FALSE(known_range(select(gt(any, f32(1)), f32(5), any)).number);
}

TEST_CASE("loop/range: what may be no number or infinite is said to be") {
  const Expr any = f32(1) / f32(3);
  for (const Expr& e :
       {f32(NAN), any + f32(1), any * f32(0), max(any, f32(1)), f32(INFINITY) - f32(INFINITY),
        f32(3e38) * f32(10), cast(DType::kF32, constant(DType::kI32, 1))})
    CHECK_FALSE(known_range(e).number);
}
