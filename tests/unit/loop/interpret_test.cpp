// What expr.h and kernel.h say, on examples worked out by hand or by the C library.
#include "loop/interpret.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "loop/evaluate.h"
#include "loop/math.h"
#include "loop/simplify.h"
#include "loop/text.h"

using namespace xc;
using namespace xc::loop;

namespace {

// Value of a constant expression: folded by the simplifier, which uses the interpreter's
// arithmetic.
double fold(const Expr& e) {
  const Expr out = simplify(e);
  REQUIRE(is_const(out));
  return const_as_double(*out);
}
Expr i8(int64_t v) {
  return constant_int(DType::kI8, v);
}
Expr u8(int64_t v) {
  return constant_int(DType::kU8, v);
}

// Runs a kernel over one f32 input of n elements and one f32 output.
std::vector<float> run(std::string_view text, std::vector<float> x, size_t outputs,
                       int32_t status = 0) {
  std::vector<float> y(outputs, -7);
  void* buffers[] = {x.data(), y.data()};
  const auto n = static_cast<int64_t>(x.size());
  alignas(64) float scratch[256];
  const xc_kargs args{XC_KERNEL_ABI_VERSION, 0, buffers, &n, nullptr, scratch, 0, 0};
  CHECK(interpret(parse(text), args) == status);
  return y;
}

}  // namespace

TEST_CASE("loop/interpret: integers wrap and division is defined everywhere") {
  CHECK(fold(i8(100) + i8(100)) == -56);
  CHECK(fold(u8(3) - u8(5)) == 254);
  CHECK(fold(-i8(-128)) == -128);
  CHECK(fold(abs(i8(-128))) == -128);
  CHECK(fold(i8(-7) / i8(2)) == -3);
  CHECK(fold(i8(5) / i8(0)) == 0);
  CHECK(fold(i8(-128) / i8(-1)) == -128);
  CHECK(fold(mod(i8(-7), i8(3))) == 2);
  CHECK(fold(mod(i8(7), i8(-3))) == -2);
  CHECK(fold(rem(i8(-7), i8(3))) == -1);
  CHECK(fold(mod(i8(7), i8(0))) == 0);
  CHECK(fold(shl(u8(129), u8(1))) == 2);
  CHECK(fold(shl(u8(1), u8(8))) == 0);
  CHECK(fold(shr(i8(-128), i8(100))) == -1);
  CHECK(fold(shr(u8(128), u8(7))) == 1);
  CHECK(fold(bit_not(u8(1))) == 254);
}

TEST_CASE("loop/interpret: NaN propagates through min and max; zeros follow the definition") {
  CHECK(std::isnan(fold(max(f32(NAN), f32(1)))));
  CHECK(std::isnan(fold(max(f32(1), f32(NAN)))));
  CHECK(std::isnan(fold(min(f32(1), f32(NAN)))));
  CHECK(std::signbit(fold(max(f32(0.0), f32(-0.0)))));
  CHECK(!std::signbit(fold(max(f32(-0.0), f32(0.0)))));
  CHECK(fold(sign(f32(-2))) == -1);
  CHECK(fold(round(f32(2.5))) == 2);
  CHECK(fold(round(f32(-3.5))) == -4);
}

TEST_CASE("loop/interpret: casts saturate, NaN gives 0") {
  CHECK(fold(cast(DType::kI32, f32(3e9))) == 2147483647);
  CHECK(fold(cast(DType::kI32, f32(-3e9))) == -2147483648.0);
  CHECK(fold(cast(DType::kI32, f32(-1.9))) == -1);
  CHECK(fold(cast(DType::kU8, f32(-1.9))) == 0);
  CHECK(fold(cast(DType::kU8, f32(300))) == 255);
  CHECK(fold(cast(DType::kI64, f64(NAN))) == 0);
  CHECK(fold(cast(DType::kI64, f32(INFINITY))) == 9223372036854775807.0);
  CHECK(fold(cast(DType::kI8, i32(300))) == 44);
  CHECK(fold(cast(DType::kBool, f32(0.5))) == 1);
  CHECK(fold(cast(DType::kF32, boolean(true))) == 1);
  CHECK(fold(round_bf16(f32(1.01))) == 1.0078125);
  CHECK(fold(round_f16(f32(70000))) == INFINITY);
  CHECK(fold(bitcast(DType::kI32, f32(1))) == 0x3f800000);
}

TEST_CASE("loop/interpret: fma rounds once, scale rounds once") {
  const double a = 1 + 0x1p-12;
  CHECK(fold(fma(f32(a), f32(a), f32(-1))) ==
        static_cast<double>(std::fma(static_cast<float>(a), static_cast<float>(a), -1.0f)));
  CHECK(fold(fma(f32(a), f32(a), f32(-1))) != fold(f32(a) * f32(a) + f32(-1)));
  CHECK(fold(scale(f32(1.5), f32(-149))) == static_cast<double>(std::ldexp(1.5f, -149)));
  CHECK(fold(scale(f32(1), f32(128))) == INFINITY);
}

TEST_CASE("loop/interpret: a reduction follows the tree of 16 lanes by 4") {
  std::mt19937 random(5);
  std::vector<float> x(1000);
  for (float& v : x) v = std::normal_distribution<float>(0, 1000)(random);
  float p[64];
  for (float& v : p) v = -0.0f;
  for (size_t t = 0; t < x.size(); ++t) p[t % 64] += x[t];
  float q[16];
  for (size_t l = 0; l < 16; ++l) q[l] = (p[l] + p[l + 16]) + (p[l + 32] + p[l + 48]);
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) q[l] += q[l + half];
  const char* const text = R"(
    kernel sum(n) {
      in x: f32[1]
      out y: f32[1]
      acc s: f32 sum lanes = 3:f32
      acc left: f32 sum seq
      for i = 0 .. n {
        s <- x[i]
        left <- x[i]
      }
      y[0] = s
      y[1] = left
    })";
  const std::vector<float> y = run(text, x, 2);
  CHECK(y[0] == 3.0f + q[0]);
  float left = 0;
  for (const float v : x) left += v;
  CHECK(y[1] == left);
}

TEST_CASE("loop/interpret: arg-reductions prefer NaN, then the first or the last of equals") {
  const char* const text = R"(
    kernel arg(n) {
      in x: f32[1]
      out y: f32[1]
      acc first: f32 argmax lanes
      acc last: f32 argmax_last lanes
      acc low: f32 argmin lanes
      for i = 0 .. n {
        first <- x[i], i
        last <- x[i], i
        low <- x[i], i
      }
      y[0] = cast<f32>(first.index)
      y[1] = cast<f32>(last.index)
      y[2] = cast<f32>(low.index)
      y[3] = low
    })";
  CHECK(run(text, {1, 5, 2, 5, 0, 0}, 4) == std::vector<float>{1, 3, 4, 0});
  std::vector<float> of_nan = run(text, {1, NAN, 2, NAN, 0, 7}, 4);
  CHECK(std::isnan(of_nan[3]));
  of_nan.pop_back();
  CHECK(of_nan == std::vector<float>{1, 3, 1});
  CHECK(run(text, {-INFINITY, -INFINITY}, 4) == std::vector<float>{0, 1, 0, -INFINITY});
  CHECK(run(text, {}, 4) == std::vector<float>{-1, -1, -1, INFINITY});
}

TEST_CASE("loop/interpret: a checked index out of range is a range error, a false guard is not") {
  const char* const text = R"(
    kernel gather(n) {
      in x: f32[1]
      out y: f32[1]
      for i = 0 .. 2 {
        y[i] = (x[check(cast<i64>(x[i]), n)] if (x[i] > -5:f32))
      }
    })";
  CHECK(run(text, {2, 0, 42}, 2) == std::vector<float>{42, 2});
  CHECK(run(text, {2, -9, 42}, 2) == std::vector<float>{42, 0});
  (void)run(text, {2, 3, 42}, 2, XC_KERNEL_RANGE_ERROR);
  (void)run(text, {2, -1, 42}, 2, XC_KERNEL_RANGE_ERROR);
}

TEST_CASE("loop/simplify: rewrites what keeps every bit and leaves the rest") {
  const Kernel kernel = simplify(parse(R"(
    kernel s(n) {
      in x: f32[1]
      out y: f32[1]
      for i = 0 .. n {
        let dead: f32 = x[i]
        let a: f32 = ((x[i] * 1:f32) + -0:f32)
        y[i] = select((2 > 1), (a + 0:f32), x[0])
      }
      for k = 3 .. 3 {
        y[k] = 1:f32
      }
    })"));
  CHECK(print(kernel) == R"(kernel s(n) {
  in x: f32[1]
  out y: f32[1]
  for i = 0 .. n {
    let a: f32 = x[i]
    y[i] = (a + 0:f32)
  }
}
)");
}

TEST_CASE("loop/kernel: scratch sizes are checked, rows aligned") {
  const Kernel kernel = parse(R"(
    kernel k(n) {
      out y: f32[1]
      scratch a: f32[n]
      scratch b: i64[(n * 2)]
      y[0] = 1:f32
    })");
  const int64_t three = 3, huge = std::numeric_limits<int64_t>::max() / 2, negative = -1;
  CHECK(scratch_bytes(kernel, {&three, 1}) == 64 + 64);
  CHECK_THROWS((void)scratch_bytes(kernel, {&huge, 1}));
  CHECK_THROWS((void)scratch_bytes(kernel, {&negative, 1}));
}

TEST_CASE("loop/math: a rounded quotient by a constant is what the division gives") {
  std::mt19937 random(7);
  std::vector<float> divisors = {0.1f,          -3.0f,         0.0078125f,
                                 0x1.000002p0f, 0x1.fffffep0f, 0x1.fffffep-8f};
  std::uniform_real_distribution<float> exponent(-13, 13);
  // Both with reciprocals that are nearly half of the last bit off and with some that are not.
  while (divisors.size() < 150) divisors.push_back(std::exp2(exponent(random)));
  for (const float d : divisors) {
    std::vector<float> x = {0.0f, -0.0f,     INFINITY,   -INFINITY,
                            NAN,  0x1p-149f, -0x1p-127f, 0x1.fffffep127f};
    for (int k = 0; k < 600; ++k) {
      // Ties and their neighbours, and anything.
      const float tie = (static_cast<float>(k) - 299.5f) * d;
      for (const float v : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 2 * tie)})
        x.push_back(v);
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    }
    const std::string text = fmt::format(
        "kernel q(n) {{\n  in x: f32[1]\n  out y: f32[1]\n  for i = 0 .. n {{\n"
        "    y[i] = round((x[i] / {:.9g}:f32))\n  }}\n}}\n",
        d);
    const std::string expanded = print(expand_math(parse(text), MathLevel::kFma));
    CHECK(expanded.find('/') == std::string::npos);
    const auto got = run(text, x, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = std::nearbyint(x[i] / d);
      CAPTURE(d);
      CAPTURE(x[i]);
      // Beyond 2^100 all is saturated that is rounded.
      if (std::isnan(want) || std::fabs(want) >= 0x1p99f)
        CHECK((std::isnan(want) ? std::isnan(got[i])
                                : std::fabs(got[i] / want - 1) < 1e-6f || got[i] == want));
      else
        CHECK(std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want));
    }
  }
}

TEST_CASE("loop/math: a rounded quotient of dequantised bytes needs no case beyond all numbers") {
  const auto expanded = [](const char* x) {
    return print(expand_math(parse(fmt::format("kernel q(n) {{\n  in x: u8[1]\n  in z: f32[1]\n"
                                               "  out y: f32[1]\n  for i = 0 .. n {{\n"
                                               "    y[i] = round(({} / 0.04:f32))\n  }}\n}}\n",
                                               x)),
                             MathLevel::kFma));
  };
  const char* const bytes = "((cast<f32>(x[i]) - 128:f32) * 0.02:f32)";
  CHECK(expanded(bytes).find("is_nan") == std::string::npos);
  CHECK(expanded("z[i]").find("is_nan") != std::string::npos);
  CHECK(expanded("(cast<f32>(x[i]) * z[i])").find("is_nan") != std::string::npos);
  CHECK(expanded("(cast<f32>(x[i]) * 1e30:f32)").find("is_nan") != std::string::npos);
  // All bytes, by the division and without.
  const std::string text = fmt::format(
      "kernel q(n) {{\n  in x: f32[1]\n  out y: f32[1]\n  for i = 0 .. n {{\n"
      "    y[i] = round((((cast<f32>(cast<u8>(x[i])) - 128:f32) * 0.02:f32) / 0.04:f32))\n  "
      "}}\n}}\n");
  std::vector<float> x;
  for (int i = 0; i < 256; ++i) x.push_back(static_cast<float>(i));
  const auto got = run(text, x, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float value = (x[i] - 128.0f) * 0.02f;
    CHECK(got[i] == std::nearbyint(value / 0.04f));
  }
}
