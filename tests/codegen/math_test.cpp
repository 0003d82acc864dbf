// Elementary functions: generated code against the C library in the next wider type, over a grid of
// all bit patterns, within the bounds that loop/math.h states. XC_VERBOSE=1 prints the largest
// errors.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

#include "codegen/math_reference.h"
#include "loop/words.h"

using namespace xc;
using namespace xc::loop;
using namespace xc::test;

namespace {

template <class T>
std::vector<T> apply(Op op, const std::vector<T>& x, const std::vector<T>& z,
                     const std::string& target) {
  const auto kernel = compile_function<T>(op, target);
  std::vector<T> y(x.size());
  CHECK(run_function<T>(*kernel, x.data(), z.data(), y.data(), static_cast<int64_t>(x.size())) ==
        0);
  return y;
}

template <class T>
void check_bounds(const std::string& target) {
  const std::vector<T> x = arguments<T>(40009, 30000);
  const MathLevel level = test::math_of(target);
  for (const MathBound& bound : math_bounds()) {
    if (bound.op == Op::kPow) continue;
    const double limit = sizeof(T) == 4 ? bound.f32_ulp : bound.f64_ulp;
    const std::vector<T> y = apply<T>(bound.op, x, x, target);
    double worst = 0;
    T at = 0, got = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!in_domain(bound.op, static_cast<double>(x[i]), sizeof(T) == 4, level)) continue;
      const double error = ulps(y[i], reference<T, long double>(bound.op, x[i]));
      if (error > worst) {
        worst = error;
        at = x[i];
        got = y[i];
      }
    }
    if (std::getenv("XC_VERBOSE"))
      std::printf("%-10s %-10s f%zu: %.2f ULP at %.9g (bound %g)\n", target.c_str(),
                  op_info(bound.op).name, sizeof(T) * 8, worst, static_cast<double>(at), limit);
    INFO(target << " " << op_info(bound.op).name << "(" << at << ") = " << got);
    CHECK(worst <= limit);
  }
}

}  // namespace

TEST_CASE("codegen/math: f32 functions keep their bounds") {
  for (const std::string& target : test::runnable_targets()) check_bounds<float>(target);
}

TEST_CASE("codegen/math: f64 functions keep their bounds") {
  for (const std::string& target : test::runnable_targets()) check_bounds<double>(target);
}

namespace {

/// What a compiled kernel y[n] of x[n] gives.
template <class T>
std::vector<T> run_on(const Compiled& kernel, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  const void* buffers[] = {x.data(), y.data()};
  const auto count = static_cast<int64_t>(x.size());
  xc_kargs args{
      XC_KERNEL_ABI_VERSION,  0, const_cast<void* const*>(buffers), &count, nullptr, nullptr, 0,
      (count + 16383) / 16384};
  CHECK(kernel(args) == 0);
  return y;
}

/// What `term(x) + 1`, in either order and with the argument scaled, gives in generated code.
std::vector<float> apply_sum(Op term, bool one_first, const std::vector<float>& x,
                             const std::string& target) {
  KernelBuilder b("sum");
  const DimParam n = b.dim("n");
  const loop::Buffer in = b.input("x", DType::kF32, {1}), out = b.output("y", DType::kF32, {1});
  b.loop("i", 0, n, [&](Var i) {
    const Expr value = make_unary(term, in(i) * 0.5);
    b.store(out(i), one_first ? 1.0 + value : value + 1.0);
  });
  return run_on(Compiled(schedule_default(b.finish(), {}), target), x);
}

template <class T>
void check_vanishing(const std::string& target) {
  const std::vector<T> x = {
      T(-88),      T(-100), T(-400), T(-709), T(-800), T(-1e30), std::numeric_limits<T>::lowest(),
      T(-INFINITY)};
  for (const Op op : {Op::kSigmoid, Op::kOnePlusTanh}) {
    const std::vector<T> y = apply<T>(op, x, x, target);
    for (size_t i = 0; i < x.size(); ++i) {
      INFO(target << " " << op_info(op).name << "(" << x[i] << ") = " << y[i]);
      if (in_domain(op, static_cast<double>(x[i]), sizeof(T) == 4, test::math_of(target))) continue;
      CHECK(y[i] >= 0);
      CHECK(y[i] < 2 * std::numeric_limits<T>::min());
      if (x[i] < -800) CHECK(y[i] == 0);
    }
  }
}

}  // namespace

TEST_CASE("codegen/math: 1 + tanh and 1 + erf keep their digits where those are near -1") {
  std::vector<float> x = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-30f, 1e30f, -1e30f};
  for (float v = -7.9f; v < 20; v += 0.0037f) x.push_back(v);
  for (const std::string& target : test::runnable_targets())
    for (const bool one_first : {false, true}) {
      const std::vector<float> tanh = apply_sum(Op::kTanh, one_first, x, target);
      const std::vector<float> erf = apply_sum(Op::kErf, one_first, x, target);
      for (size_t i = 0; i < x.size(); ++i) {
        const double half = static_cast<double>(x[i]) * 0.5;
        INFO(target << " at " << half << ": " << tanh[i] << ", " << erf[i]);
        CHECK(ulps(tanh[i], 2 / (1 + std::exp(-2 * static_cast<long double>(half)))) <= 4);
        CHECK(ulps(erf[i], half < -4 ? 0 : std::erfc(-static_cast<long double>(half))) <= 56);
      }
    }
}

TEST_CASE("codegen/math: odd functions of -0 are -0") {
  const auto check = [](auto zero, const std::string& target) {
    using T = decltype(zero);
    const std::vector<T> x(37, zero);
    for (const Op op : {Op::kSin, Op::kTanh, Op::kErf, Op::kExpm1, Op::kLog1p})
      for (const T y : apply<T>(op, x, x, target)) {
        INFO(target << " " << op_info(op).name);
        CHECK((y == 0 && std::signbit(y)));
      }
  };
  for (const std::string& target : test::runnable_targets()) {
    check(-0.0f, target);
    check(-0.0, target);
  }
}

TEST_CASE("codegen/math: e^x - 1 of the least numbers is these") {
  const auto check = [](auto least, const std::string& target) {
    using T = decltype(least);
    std::vector<T> x;
    for (const int factor : {1, 2, 3, 5, 77, 1001}) {
      x.push_back(static_cast<T>(factor) * least);
      x.push_back(-x.back());
    }
    INFO(target);
    CHECK(apply<T>(Op::kExpm1, x, x, target) == x);
  };
  for (const std::string& target : test::runnable_targets()) {
    check(std::numeric_limits<float>::denorm_min(), target);
    check(std::numeric_limits<double>::denorm_min(), target);
  }
}

TEST_CASE("codegen/math: logistic functions end in 0") {
  for (const std::string& target : test::runnable_targets()) {
    check_vanishing<float>(target);
    check_vanishing<double>(target);
  }
}

TEST_CASE("codegen/math: pow keeps its bound and the special cases of C") {
  const std::vector<double> edges = {0.0,      -0.0,      1,    -1,   2,     -2,    3,
                                     -3,       0.5,       -0.5, 1e30, -1e30, 1e-30, 7,
                                     INFINITY, -INFINITY, NAN,  2.5,  -2.5};
  std::vector<float> x, z;
  for (const double a : edges)
    for (const double e : edges) {
      x.push_back(static_cast<float>(a));
      z.push_back(static_cast<float>(e));
    }
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> base(0, 3);
  std::normal_distribution<double> power(0, 8);
  for (int i = 0; i < 50000; ++i) {
    x.push_back(static_cast<float>(base(random) * (i % 10 == 0 ? -1 : 1)));
    z.push_back(static_cast<float>(i % 10 == 0 ? std::round(power(random)) : power(random)));
  }
  const std::vector<double> wide_x(x.begin(), x.end()), wide_z(z.begin(), z.end());
  for (const std::string& target : test::runnable_targets()) {
    const std::vector<float> y = apply<float>(Op::kPow, x, z, target);
    const std::vector<double> wide_y = apply<double>(Op::kPow, wide_x, wide_z, target);
    double worst = 0, wide_worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const long double want =
          std::pow(static_cast<long double>(x[i]), static_cast<long double>(z[i]));
      const double error = ulps(y[i], want), wide_error = ulps(wide_y[i], want);
      if (error > 1) MESSAGE(target << " pow(" << x[i] << ", " << z[i] << ") = " << y[i]);
      worst = std::max(worst, error);
      wide_worst = std::max(wide_worst, wide_error);
    }
    if (std::getenv("XC_VERBOSE"))
      std::printf("%-10s pow: f32 %.2f, f64 %.2f ULP\n", target.c_str(), worst, wide_worst);
    const MathBound& bound = math_bounds().back();
    REQUIRE(bound.op == Op::kPow);
    CHECK(worst <= 1);
    CHECK(wide_worst <= bound.f64_ulp);
  }
}

namespace {

/// y[n]: of x[n] a constant power.
Kernel power_kernel(DType type, double power) {
  KernelBuilder b("power");
  const DimParam n = b.dim("n");
  const loop::Buffer in = b.input("x", type, {1}), out = b.output("y", type, {1});
  b.loop("i", 0, n, [&](Var i) { b.store(out(i), pow(in(i), constant(type, power))); });
  return b.finish();
}

/// The largest error of x to a constant power, in ULP.
double worst_of_power(double power, Accuracy accuracy, const std::vector<float>& x,
                      const std::string& target) {
  Kernel kernel = power_kernel(DType::kF32, power);
  kernel.accuracy = accuracy;
  const std::vector<float> y = run_on(Compiled(schedule_default(std::move(kernel), {}), target), x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::pow(static_cast<long double>(x[i]),
                                                static_cast<long double>(power))));
  return worst;
}

}  // namespace

TEST_CASE("codegen/math: constant powers have the special cases of C") {
  const std::vector<float> x = {0,      -0.0f,   1,     -1,     INFINITY, -INFINITY, NAN,
                                1e-40f, -1e-40f, 3e38f, -3e38f, 1.5e-45f, -2.5f,     0.75f};
  for (const std::string& target : test::runnable_targets())
    for (int quarters = -68; quarters <= 68; ++quarters) {
      const double power = quarters / 4.0;
      const std::vector<float> y =
          run_on(Compiled(schedule_default(power_kernel(DType::kF32, power), {}), target), x);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = std::pow(static_cast<double>(x[i]), power);
        INFO(target << " pow(" << x[i] << ", " << power << ") = " << y[i] << ", not " << want);
        CHECK(ulps(y[i], want) <= (power == 0.75 ? math_bounds().back().f32_ulp : 2));
        CHECK((std::isnan(want) || std::signbit(y[i]) == std::signbit(want)));
      }
    }
}

TEST_CASE("codegen/math: constant powers keep their bounds") {
  const std::vector<float> x = arguments<float>(40009, 30000);
  const MathBound& bound = math_bounds().back();
  REQUIRE(bound.op == Op::kPow);
  for (const std::string& target : test::runnable_targets())
    for (const double power :
         {-1.0, 0.0,   0.5, 1.0, 2.0,  3.0,  4.0,  5.0,   7.0,  16.0, 17.0, -2.0,  -3.0,
          -7.0, -16.0, 1.5, 2.5, 15.5, -0.5, -1.5, -15.5, 0.25, 0.75, 1.75, -0.25, -2.75})
      for (const Accuracy accuracy : {Accuracy::kDefault, Accuracy::kStrict, Accuracy::kFast}) {
        const double worst = worst_of_power(power, accuracy, x, target);
        INFO(target << " pow(x, " << power << "): " << worst << " ULP");
        const bool in_f32 = power == 3 || power == 4 || power == -0.5 || power == 0.25;
        const double most = accuracy == Accuracy::kStrict || !in_f32 ? 1 : 2;
        CHECK(worst <= (power == 0.75 ? bound.f32(accuracy) : most));
      }
}

TEST_CASE("codegen/math: constant powers of f64 end in denormal numbers") {
  const std::vector<double> x = {1e20, 3e19,   1e100, 1e200, 1.7e308,  5e-324,    1e-310, 1e-20,
                                 7e20, 1e-200, 0,     -0.0,  INFINITY, -INFINITY, NAN,    -2.5};
  for (const std::string& target : test::runnable_targets())
    for (int quarters = -64; quarters <= 64; ++quarters) {
      const double power = quarters / 4.0;
      const std::vector<double> y =
          run_on(Compiled(schedule_default(power_kernel(DType::kF64, power), {}), target), x);
      for (size_t i = 0; i < x.size(); ++i) {
        const long double want =
            std::pow(static_cast<long double>(x[i]), static_cast<long double>(power));
        INFO(target << " pow(" << x[i] << ", " << power << ") = " << y[i]);
        CHECK(ulps(y[i], want) <= 32);
      }
    }
}
