#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/vector/elementwise_fn.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

constexpr double kUlpF32 = 0x1p-23;

const std::vector<std::vector<Dims>> kBroadcasts = {
    {{}, {}},          {{5}, {5}},
    {{7, 33}, {33}},   {{4, 1, 70}, {4, 9, 70}},
    {{3, 1}, {1, 65}}, {{2, 3, 4, 5}, {3, 1, 1}},
    {{1000}, {1}},     {{6, 200, 16}, {6, 200, 1}},
    {{0, 3}, {3}},     {{40000}, {40000}},
};

TEST_CASE("backends/elementwise: two operands over broadcasts, types, strides and splits") {
  Generator g(11);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Pow", "PRelu", "Equal",
                         "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    for (DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8, DType::kI32,
                       DType::kI64, DType::kU8, DType::kU64}) {
      for (const auto& dims : kBroadcasts) {
        if (type != DType::kF32 && dims[0].size() == 1) continue;
        Problem p;
        p.op = &get_op(op);
        const bool is_mod = std::string_view(op) == "Mod";
        if (is_mod && is_float(type)) p.attrs.set("fmod", int64_t{1});
        if (std::string_view(op) == "PRelu" && dims[0].size() < dims[1].size()) continue;
        const double low = is_unsigned(type) || std::string_view(op) == "Pow" ? 0.25 : -9;
        p.inputs = {g.tensor(type, dims[0], low, 9),
                    g.tensor(type, dims[1], is_unsigned(type) ? 1 : low, 9)};
        if (std::string_view(op) == "PRelu" && dims[0] == Dims{3, 1}) continue;
        // 16-bit results are rounded from f32 once; f32 from f64 in the reference.
        const double relative = type == DType::kF16    ? 0x1p-10
                                : type == DType::kBF16 ? 0x1p-7
                                : type == DType::kF64  ? 1e-14
                                                       : 2 * kUlpF32;
        check_row("xc.elementwise", p, {relative, 1e-6 * (type == DType::kF32)});
      }
    }
  }
}

TEST_CASE("backends/elementwise: short rows of several planes, repeated along any axes") {
  Generator g(12);
  for (DType type : {DType::kF32, DType::kF64, DType::kI8, DType::kBF16})
    for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{{{5, 7, 7, 1}, {5, 7, 1, 7}},
                                                                 {{40, 3, 1}, {40, 1, 5}},
                                                                 {{40, 1, 5}, {1, 3, 5}},
                                                                 {{300, 2, 3}, {300, 2, 1}},
                                                                 {{9, 1, 4, 17}, {1, 6, 4, 1}},
                                                                 {{70, 1, 31}, {1, 30, 1}},
                                                                 {{3, 50, 1, 2}, {3, 1, 9, 2}}}) {
      Problem p;
      p.op = &get_op("Sub");
      p.inputs = {g.tensor(type, a, -9, 9), g.tensor(type, b, -9, 9)};
      INFO(to_text(a) << " - " << to_text(b));
      check_row("xc.elementwise", p, {type == DType::kBF16 ? 0x1p-7 : 0.0, 0});
    }
}

TEST_CASE("backends/elementwise: operands and results whose neighbours lie along different axes") {
  Generator g(14);
  // From a few rows or columns to several tiles and a part, with an operand that repeats.
  for (DType type : {DType::kF32, DType::kF64, DType::kU8, DType::kF16})
    for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{{{70, 131}, {131}},
                                                                 {{5, 200}, {5, 1}},
                                                                 {{130, 4}, {130, 4}},
                                                                 {{3, 40, 300}, {40, 1}},
                                                                 {{200, 21, 3}, {3}},
                                                                 {{2, 33, 9, 70}, {33, 1, 1}},
                                                                 {{2, 9, 40, 65}, {9, 40, 65}}}) {
      Problem p;
      p.op = &get_op("Sub");
      p.inputs = {g.tensor(type, a, 3, 9), g.tensor(type, b, 0, 3)};
      const Tensor want = run_reference(node_of(p), p.inputs)[0];
      for (int in = 0; in < Generator::kStrideKinds; ++in)
        for (int out = 0; out < Generator::kStrideKinds; ++out) {
          Problem laid = p;
          laid.inputs[0] = g.strided(p.inputs[0], in);
          RunOptions options;
          options.output_kind = out;
          const auto got = run_row(find_row("xc.elementwise", "Sub"), laid, options);
          CHECK_MESSAGE(difference(got[0], want, {}) == "", to_text(a) << " - " << to_text(b) << ' '
                                                                       << name(type) << " strides "
                                                                       << in << " to " << out);
        }
    }
}

TEST_CASE("backends/elementwise: powers and shifts of integers, on every instruction set") {
  Generator g(13);
  constexpr int64_t kCount = 70;
  for (const auto& [op, fn] : {std::pair{"Pow", cpu::Fn::kPow},
                               {"LEFT", cpu::Fn::kShiftLeft},
                               {"RIGHT", cpu::Fn::kShiftRight}})
    for (const DType type :
         {DType::kI8, DType::kU16, DType::kI32, DType::kU32, DType::kI64, DType::kU64})
      for (const auto& [x_step, y_step] : {std::pair{1, 1}, {0, 1}, {1, 0}}) {
        Problem p;
        p.op = &get_op(fn == cpu::Fn::kPow ? "Pow" : "BitShift");
        if (fn != cpu::Fn::kPow) p.attrs.set("direction", std::string(op));
        p.inputs = {g.tensor(type, {x_step ? kCount : 1}, is_unsigned(type) ? 0 : -120, 120),
                    g.tensor(type, {y_step ? kCount : 1}, is_unsigned(type) ? 0 : -3, 70)};
        // Exponents are small but for some vectors; amounts go beyond the width.
        if (y_step == 1 && fn == cpu::Fn::kPow)
          for (int64_t i = 0; i < kCount / 2; ++i) store_int64(p.inputs[1].data(), type, i, i % 9);
        const Tensor want = run_reference(node_of(p), p.inputs)[0];
        for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
          if (isa > cpu_info().isa) continue;
          Tensor got(type, {kCount});
          cpu::elementwise_fn(fn, type, isa)({{p.inputs[0].data(), p.inputs[1].data()},
                                              {x_step, y_step},
                                              got.data(),
                                              kCount,
                                              nullptr});
          INFO(op << " " << name(type) << " " << name(isa) << x_step << y_step);
          CHECK(same_bits(got, want));
        }
      }
}

TEST_CASE("backends/elementwise: an integer to the power of a fraction is left to the reference") {
  Problem p;
  p.op = &get_op("Pow");
  p.inputs = {Tensor::of<int32_t>({2, 3, 5}), Tensor::of<float>({2.0f, 3.0f, 0.5f})};
  const Node node = node_of(p);
  CHECK_FALSE(find_row("xc.elementwise", "Pow").supports(spec_of(p, node, {})).yes());
  CHECK(run_reference(node, p.inputs)[0].to_int64s() == std::vector<int64_t>{4, 27, 2});
}

TEST_CASE("backends/elementwise: a bound of Clip may have more axes than its input") {
  Problem p;
  p.op = &get_op("Clip");
  p.inputs = {Tensor::of<float>({-3, 2, 7}), Tensor::of<float>({-1}, {1, 1, 1}),
              Tensor::of<float>({5}, {1, 1})};
  check_row("xc.elementwise", p, {0, 0});
}

TEST_CASE("backends/elementwise: a bound of Clip that is NaN makes NaN, as Max and Min do") {
  const float nan = std::nanf("");
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
    for (const auto& [low, high] :
         std::vector<std::pair<float, float>>{{nan, 1.0f}, {0.0f, nan}, {nan, nan}}) {
      Problem p;
      p.op = &get_op("Clip");
      for (const auto& [value, dims] :
           {std::pair(0.5f, Dims{70}), std::pair(low, Dims{}), std::pair(high, Dims{})}) {
        Tensor t(type, dims);
        for (int64_t i = 0; i < t.count(); ++i) store_double(t.data(), type, i, value);
        p.inputs.push_back(std::move(t));
      }
      for (const Tensor& y : {run_reference(node_of(p), p.inputs)[0],
                              run_row(find_row("xc.elementwise", "Clip"), p, {})[0]}) {
        const std::vector<double> got = y.to_doubles();
        CHECK(std::all_of(got.begin(), got.end(), [](double v) { return std::isnan(v); }));
      }
    }
}

TEST_CASE("backends/elementwise: functions of one operand") {
  Generator g(12);
  for (const OpDef* op : all_ops()) {
    const bool arc =
        op->name.starts_with("Ac") || op->name.starts_with("As") || op->name.starts_with("At");
    if (op->max_inputs != 1 || (!op->scalar && !arc) || !op->domain.empty()) continue;
    if (op->name == "Cast" || op->name == "Identity") continue;
    for (DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kI32, DType::kBool}) {
      // Whole numbers against real bounds are the reference's.
      if (op->name == "Shrink" && type == DType::kI32) continue;
      Problem p;
      p.op = op;
      const bool positive = op->name == "Log" || op->name == "Sqrt" || op->name == "Acosh";
      const bool unit = op->name == "Asin" || op->name == "Acos" || op->name == "Atanh";
      p.inputs = {g.tensor(type, {3, 130}, positive ? 1.01 : unit ? -0.99 : -6, unit ? 0.99 : 6)};
      const Node node = node_of(p);
      try {
        infer_concrete(node, p.inputs);
      } catch (const Error&) {
        continue;  // the op does not take this type
      }
      std::string reason;
      const auto& row = find_row("xc.elementwise", op->name);
      if (type == DType::kF64 && !row.supports(spec_of(p, node, {})).yes()) continue;
      INFO(op->name);
      check_row("xc.elementwise", p,
                {type == DType::kF16   ? 0x1p-10
                 : type == DType::kF64 ? 1e-13
                                       : 8 * kUlpF32,
                 // Gelu's definition is 0 where erf has rounded to -1 in f32.
                 type == DType::kF64 && op->name != "Gelu" ? 1e-13 : 1e-6});
    }
  }
}

TEST_CASE("backends/elementwise: special values follow the reference") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> values = {0.0f,  -0.0f,  inf,   -inf,   nan,   1.0f,
                                     -1.0f, 1e-40f, 3e38f, -3e38f, 88.0f, -104.0f,
                                     0.5f,  2.5f,   -2.5f, 3.5f,   100.0f};
  for (const char* op :
       {"Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid",
        "Erf", "Relu", "IsNaN", "IsInf", "Reciprocal", "LeakyRelu"}) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = {Tensor::of(values)};
    INFO(op);
    check_row("xc.elementwise", p, {4 * kUlpF32, 1e-37});
  }
  std::vector<float> left, right;
  for (float a : values)
    for (float b : values) {
      left.push_back(a);
      right.push_back(b);
    }
  for (const char* op : {"Add", "Max", "Min", "Less", "Equal", "GreaterOrEqual"}) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = {Tensor::of(left), Tensor::of(right)};
    INFO(op);
    check_row("xc.elementwise", p, {kUlpF32, 0});
  }
}

/// How far a result is off, in units of the last place; NaN and infinities must be the same.
double units_off(float got, double want) {
  const auto rounded = static_cast<float>(want);
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(rounded) || want == 0) return got == rounded ? 0 : 1e30;
  return std::fabs(static_cast<double>(got) - want) /
         std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
}

TEST_CASE("backends/elementwise: inverse functions of f32 are those of f64, wherever they stand") {
  struct {
    cpu::Fn fn;
    double (*want)(double);
    double bound;
  } const rows[] = {{cpu::Fn::kAsin, std::asin, 2},   {cpu::Fn::kAcos, std::acos, 2},
                    {cpu::Fn::kAtan, std::atan, 2},   {cpu::Fn::kAsinh, std::asinh, 3},
                    {cpu::Fn::kAcosh, std::acosh, 3}, {cpu::Fn::kAtanh, std::atanh, 3}};
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f,    -0.0f, inf,    -inf,    std::nanf(""), 1.0f,
                          -1.0f,   1.5f,  -1.5f,  0.5f,    -0.5f,         1e-40f,
                          -1e-40f, 3e38f, -3e38f, 8192.0f, 0x1.000002p0f, -0x1.fffffep-1f};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  std::vector<float> y(x.size());
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    for (const auto& row : rows) {
      INFO(static_cast<int>(row.fn) << " on " << static_cast<int>(isa));
      const cpu::ElementwiseFn loop = cpu::elementwise_fn(row.fn, DType::kF32, isa);
      const auto n = static_cast<int64_t>(x.size());
      loop({{x.data()}, {1}, y.data(), n, nullptr});
      double worst = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = row.want(static_cast<double>(x[i]));
        worst = std::max(worst, units_off(y[i], want));
        if (want == 0) CHECK(std::signbit(y[i]) == std::signbit(want));
      }
      CHECK(worst <= row.bound);
      for (size_t first : {1, 5}) {  // elsewhere in a vector, and in its last part
        std::vector<float> part(21);
        loop({{x.data() + first}, {1}, part.data(), 21, nullptr});
        CHECK(std::memcmp(part.data(), y.data() + first, 21 * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("backends/elementwise: powers of f32 are those of f64, special cases included") {
  const float huge = 3e38f, tiny = 1e-40f;
  const std::vector<float> bases = {0,    -0.0f, 1,    -1,    2,      -2,       0.5f,      -0.5f, 3,
                                    huge, -huge, tiny, -tiny, 1e-38f, INFINITY, -INFINITY, NAN};
  const std::vector<float> exponents = {
      0,     -0.0f,  1,     -1,       2,      -2,     3,           -3,    0.5f,     -0.5f,
      1.5f,  -1.5f,  2.5f,  4,        -4,     5,      7,           -7,    16,       -16,
      15.5f, -15.5f, 2.4f,  1 / 2.4f, 17,     1e9f,   16777217.0f, -1e9f, INFINITY, -INFINITY,
      NAN,   1e-6f,  0.75f, 0.25f,    -0.75f, -0.25f, 1.75f};
  Generator g(13);
  Tensor x = g.tensor(DType::kF32, {400}, 0, 3);
  for (size_t i = 0; i < bases.size(); ++i) x.as<float>()[i] = bases[i];
  for (int64_t i = 100; i < 200; ++i) x.as<float>()[i] *= -1;
  const auto close = [](float got, float base, float exponent) {
    const double want = std::pow(static_cast<double>(base), static_cast<double>(exponent));
    CAPTURE(base);
    CAPTURE(exponent);
    CHECK(units_off(got, want) <= 2);  // those to 3 and 0.75 round twice and thrice
    if (want == 0) CHECK(std::signbit(got) == std::signbit(want));
  };
  std::vector<float> y(400), each(400);
  for (size_t i = 0; i < each.size(); ++i) each[i] = exponents[i % exponents.size()];
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::ElementwiseFn power = cpu::elementwise_fn(cpu::Fn::kPow, DType::kF32, isa);
    for (const float& exponent : exponents) {
      power({{x.as<float>(), &exponent}, {1, 0}, y.data(), 400, nullptr});
      for (size_t i = 0; i < y.size(); ++i) close(y[i], x.as<float>()[i], exponent);
    }
    power({{x.as<float>(), each.data()}, {1, 1}, y.data(), 399, nullptr});
    for (size_t i = 0; i < 399; ++i) close(y[i], x.as<float>()[i], each[i]);
    for (const float& base : bases) {
      power({{&base, each.data()}, {0, 1}, y.data(), 399, nullptr});
      for (size_t i = 0; i < 399; ++i) close(y[i], base, each[i]);
    }
  }
}

TEST_CASE("backends/elementwise: Where, Clip, variadic, logic, CastLike") {
  Generator g(13);
  for (DType type :
       {DType::kF32, DType::kI64, DType::kU8, DType::kF16, DType::kBool, DType::kF64}) {
    Problem p;
    p.op = &get_op("Where");
    p.inputs = {g.tensor(DType::kBool, {3, 1, 40}), g.tensor(type, {5, 1}, 0, 9),
                g.tensor(type, {}, 0, 9)};
    check_row("xc.elementwise", p, {});
    p.inputs = {g.tensor(DType::kBool, {300}), g.tensor(type, {300}, 0, 9),
                g.tensor(type, {300}, 0, 9)};
    check_row("xc.elementwise", p, {});
    p.inputs = {g.tensor(DType::kBool, {20, 1}), g.tensor(type, {20, 70}, 0, 9),
                g.tensor(type, {1}, 0, 9)};
    check_row("xc.elementwise", p, {});
  }
  for (DType type : {DType::kF32, DType::kI32, DType::kI8, DType::kU64, DType::kF16}) {
    Problem p;
    p.op = &get_op("Clip");
    const Tensor x = g.tensor(type, {4, 50}, is_unsigned(type) ? 0 : -9, 9);
    const Tensor low = g.tensor(type, {}, 1, 3), high = g.tensor(type, {}, 4, 6);
    for (int which = 0; which < 4; ++which) {
      p.inputs = {x, which & 1 ? low : Tensor(), which & 2 ? high : Tensor()};
      check_row("xc.elementwise", p, {});
    }
  }
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    Problem p;
    p.op = &get_op(op);
    for (size_t count : {1, 2, 3, 5}) {
      p.inputs.clear();
      for (size_t i = 0; i < count; ++i)
        p.inputs.push_back(g.tensor(DType::kF32, i % 2 ? Dims{40} : Dims{6, 40}));
      check_row("xc.elementwise", p, {4 * kUlpF32, 1e-6});
    }
  }
  for (const char* op : {"And", "Or", "Xor"}) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = {g.tensor(DType::kBool, {9, 30}), g.tensor(DType::kBool, {30})};
    check_row("xc.elementwise", p, {});
  }
  Problem p;
  p.op = &get_op("CastLike");
  p.inputs = {g.tensor(DType::kF32, {100}, -20, 20), g.tensor(DType::kI64, {1})};
  check_row("xc.elementwise", p, {});
}

TEST_CASE("backends/elementwise: Cast between every pair of types") {
  Generator g(14);
  const DType types[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                         DType::kI16, DType::kI32, DType::kI64, DType::kU8,   DType::kU16,
                         DType::kU32, DType::kU64, DType::kBool};
  const int64_t numbers[] = {1, 11, 10, 16, 3, 5, 6, 7, 2, 4, 12, 13, 9};  // of ONNX
  for (DType from : types)
    for (size_t k = 0; k < std::size(types); ++k) {
      Problem p;
      p.op = &get_op("Cast");
      p.attrs.set("to", numbers[k]);
      const bool sign =
          is_signed(from) || (is_float(from) && (is_signed(types[k]) || is_float(types[k])));
      p.inputs = {g.tensor(from, {3, 77}, sign ? -100 : 0, 100)};
      INFO(name(from) << " to " << name(types[k]));
      check_row("xc.elementwise", p, {});
    }
}

TEST_CASE("backends/elementwise: f32 becomes 32 bits up to its bounds, and any number true") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values;
  std::vector<int64_t> whole, truth;
  const std::vector<std::pair<float, int64_t>> pairs = {{0.0f, 0},
                                                        {-0.0f, 0},
                                                        {1e-45f, 0},
                                                        {-0.99f, 0},
                                                        {2.5f, 2},
                                                        {-2.5f, -2},
                                                        {0x1p31f, INT32_MAX},
                                                        {-0x1p31f, INT32_MIN},
                                                        {inf, INT32_MAX},
                                                        {-inf, INT32_MIN},
                                                        {std::nanf(""), 0},
                                                        {3e38f, INT32_MAX},
                                                        {-3e38f, INT32_MIN},
                                                        {0x1.fffffep30f, 2147483520},
                                                        {-0x1.fffffep30f, -2147483520}};
  for (int repeat = 0; repeat < 5; ++repeat)
    for (const auto& [value, want] : pairs) {
      values.push_back(value);
      whole.push_back(want);
      truth.push_back(value != 0);  // NaN is
    }
  const auto cast = [&](const Tensor& x, int64_t to) {
    Problem p;
    p.op = &get_op("Cast");
    p.attrs.set("to", to);
    p.inputs = {x};
    return run_row(find_row("xc.elementwise", "Cast"), p)[0].to_int64s();
  };
  CHECK(cast(Tensor::of(values), 6) == whole);
  CHECK(cast(Tensor::of(values), 9) == truth);
  CHECK(cast(Tensor::of(std::vector<double>(values.begin(), values.end())), 9) == truth);
}

/// The standard's quotient rounds towards zero; Mod has the sign of the divisor, with fmod that of
/// the dividend. What nothing defines is 0 here: divisions by 0, and the wrapped quotient by -1.
template <class T>
void check_division() {
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  std::vector<T> numbers;
  for (const int64_t x : {int64_t{kLeast}, int64_t{kLeast} + 1, int64_t{kMost}, int64_t{kMost} - 1})
    numbers.push_back(static_cast<T>(x));
  for (const int64_t x : {0, 1, -1, 2, -2, 3, -3, 7, 100}) numbers.push_back(static_cast<T>(x));
  for (int bit = sizeof(T) < 4 ? 3 : 20; bit < static_cast<int>(8 * sizeof(T)) - 1; ++bit)
    for (const int64_t near : {-1, 0, 1})
      for (const int64_t sign : {-1, 1})
        numbers.push_back(static_cast<T>(sign * ((int64_t{1} << bit) + near)));
  std::vector<T> a, b;
  std::vector<int64_t> quotients, remainders, modulos;
  for (const T x : numbers)
    for (const T y : numbers) {
      a.push_back(x);
      b.push_back(y);
      const bool plain = y != 0 && y != -1;
      const int64_t q = y == 0    ? 0
                        : y == -1 ? static_cast<T>(0 - static_cast<uint64_t>(x))
                                  : static_cast<int64_t>(x) / y;
      const int64_t r = plain ? static_cast<int64_t>(x) % y : 0;
      quotients.push_back(q);
      remainders.push_back(r);
      modulos.push_back(r != 0 && (r < 0) != (y < 0) ? r + y : r);
    }
  const auto of = [&](const char* op, int64_t fmod, const Tensor& left, const Tensor& right) {
    Problem p;
    p.op = &get_op(op);
    if (p.op->name == "Mod") p.attrs.set("fmod", fmod);
    p.inputs = {left, right};
    return run_row(find_row("xc.elementwise", op), p)[0].to_int64s();
  };
  const Tensor left = Tensor::of(a), right = Tensor::of(b);
  CHECK(of("Div", 0, left, right) == quotients);
  CHECK(of("Mod", 1, left, right) == remainders);
  CHECK(of("Mod", 0, left, right) == modulos);
  // One number by all others, all by one.
  const Tensor all = Tensor::of(numbers);
  const auto side = static_cast<int64_t>(numbers.size());
  for (int64_t i = 0; i < side; ++i) {
    const Tensor one = Tensor::of(std::vector<T>{numbers[static_cast<size_t>(i)]});
    const auto by_all = of("Div", 0, one, all), by_one = of("Mod", 0, all, one);
    for (int64_t k = 0; k < side; ++k) {
      CHECK(by_all[static_cast<size_t>(k)] == quotients[static_cast<size_t>(i * side + k)]);
      CHECK(by_one[static_cast<size_t>(k)] == modulos[static_cast<size_t>(k * side + i)]);
    }
  }
}
TEST_CASE("backends/elementwise: whole quotients and remainders at the ends of their range") {
  check_division<int8_t>();
  check_division<uint8_t>();
  check_division<int16_t>();
  check_division<uint16_t>();
  check_division<int32_t>();
  check_division<int64_t>();
}

TEST_CASE("backends/elementwise: Where takes any byte but 0 for true, on every instruction set") {
  Generator g(17);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    for (DType type : {DType::kU8, DType::kI16, DType::kF32, DType::kF64})
      for (int64_t n : {1, 7, 16, 33, 64, 150})
        for (int64_t step_x : {0, 1})
          for (int64_t step_y : {0, 1}) {
            if (isa > cpu_info().isa) continue;
            const auto bytes = static_cast<size_t>(element_size(type));
            const Tensor x = g.tensor(type, {n}, 1, 9), y = g.tensor(type, {n}, 1, 9);
            Tensor z(type, {n});
            std::vector<uint8_t> condition;
            for (int64_t i = 0; i < n; ++i)
              condition.push_back(std::array<uint8_t, 6>{
                  0, 1, 2, 0, 128, 255}[static_cast<size_t>(g.integer(0, 5))]);
            cpu::elementwise_fn(cpu::Fn::kWhere, type, isa)({{condition.data(), x.data(), y.data()},
                                                             {1, step_x, step_y},
                                                             z.data(),
                                                             n,
                                                             nullptr});
            for (int64_t i = 0; i < n; ++i) {
              const bool first = condition[static_cast<size_t>(i)] != 0;
              const auto* from = static_cast<const std::byte*>((first ? x : y).data());
              const auto at = static_cast<size_t>(i * (first ? step_x : step_y)) * bytes;
              CHECK(std::memcmp(
                        static_cast<const std::byte*>(z.data()) + static_cast<size_t>(i) * bytes,
                        from + at, bytes) == 0);
            }
          }
}

/// Numbers of every magnitude, whole ones, multiples of each other, and those that are none.
template <class T>
std::vector<T> odd_numbers(Generator& g, size_t count) {
  std::vector<T> out = {0,
                        static_cast<T>(-0.0),
                        1,
                        -1,
                        static_cast<T>(NAN),
                        static_cast<T>(INFINITY),
                        static_cast<T>(-INFINITY),
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::min(),
                        std::numeric_limits<T>::denorm_min()};
  while (out.size() < count) {
    const T v = static_cast<T>(g.real(-9, 9));
    const auto kind = g.integer(0, 5);
    if (kind == 0)
      out.push_back(static_cast<T>(std::ldexp(v, static_cast<int>(g.integer(-140, 120)))));
    else if (kind == 1)
      out.push_back(std::round(v * 100));
    else if (kind == 2)
      out.push_back(std::nextafter(std::round(v), T{0}));
    else if (kind == 3)
      out.push_back(out.back() * static_cast<T>(g.integer(-999, 999)));
    else
      out.push_back(v);
  }
  return out;
}
template <class T, class F>
void check_bits(const std::vector<T>& got, const F& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    const T w = want(i);
    CHECK((std::memcmp(&got[i], &w, sizeof(T)) == 0 || (std::isnan(w) && std::isnan(got[i]))));
  }
}
template <class T>
void check_remainders(Isa isa, DType type) {
  Generator g(19);
  for (int round = 0; round < 40; ++round)
    for (int64_t step_x : {0, 1})
      for (int64_t step_y : {0, 1}) {
        std::vector<T> x = odd_numbers<T>(g, 150), y = odd_numbers<T>(g, 150);
        if (round % 2) {  // no vector with what goes one by one
          for (T& v : x) v = static_cast<T>(g.real(-1000, 1000));
          for (T& v : y) v = static_cast<T>(g.integer(1, 40)) / 8 * (g.integer(0, 1) ? 1 : -1);
          for (size_t i = 0; i < x.size(); i += 3) x[i] = y[i] * static_cast<T>(g.integer(-99, 99));
          for (size_t i = 1; i < x.size(); i += 3) x[i] = std::nextafter(x[i - 1], T{0});
        }
        std::shuffle(x.begin(), x.end(), std::mt19937(static_cast<unsigned>(round)));
        std::vector<T> got(x.size());
        const auto run = [&](cpu::Fn fn) {
          cpu::elementwise_fn(fn, type, isa)({{x.data(), y.data()},
                                              {step_x, step_y},
                                              got.data(),
                                              static_cast<int64_t>(got.size()),
                                              nullptr});
        };
        const auto remainder = [&](size_t i) {
          return std::fmod(x[step_x ? i : 0], y[step_y ? i : 0]);
        };
        run(cpu::Fn::kFmod);
        check_bits(got, remainder);
        run(cpu::Fn::kMod);
        check_bits(got, [&](size_t i) {
          const T r = remainder(i), b = y[step_y ? i : 0];
          return r == 0 ? std::copysign(r, b) : (r < 0) != (b < 0) ? r + b : r;
        });
      }
}

TEST_CASE("backends/elementwise: remainders of floats are exact, on every instruction set") {
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    check_remainders<float>(isa, DType::kF32);
    check_remainders<double>(isa, DType::kF64);
  }
}

TEST_CASE(
    "backends/elementwise: f64 becomes whole as the library makes it, on every instruction set") {
  Generator g(20);
  const std::vector<double> x = odd_numbers<double>(g, 1003);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    std::vector<double> got(x.size());
    const auto check = [&](cpu::Fn fn, double (*want)(double)) {
      cpu::elementwise_fn(fn, DType::kF64, isa)(
          {{x.data()}, {1}, got.data(), static_cast<int64_t>(got.size()), nullptr});
      check_bits(got, [&](size_t i) { return want(x[i]); });
    };
    check(cpu::Fn::kFloor, std::floor);
    check(cpu::Fn::kCeil, std::ceil);
    check(cpu::Fn::kRound, std::rint);
    check(cpu::Fn::kTrunc, std::trunc);
  }
}

/// Holds a function of `x` to so many units of the last place, which are at least `least`, and to
/// the sign, NaN and infinity of `exact`, a function of long double.
template <class T, class F>
void check_units(cpu::Fn fn, DType type, Isa isa, const std::vector<T>& x, F exact, double units,
                 double least = 0) {
  std::vector<T> got(x.size());
  cpu::elementwise_fn(
      fn, type, isa)({{x.data()}, {1}, got.data(), static_cast<int64_t>(got.size()), nullptr});
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double want = exact(static_cast<long double>(x[i]));
    const auto rounded = static_cast<T>(want);
    if (std::isnan(rounded) || std::isinf(rounded)) {
      CHECK((std::isnan(rounded) ? std::isnan(got[i]) : got[i] == rounded));
      continue;
    }
    CHECK(std::signbit(got[i]) == std::signbit(rounded));
    const T magnitude = std::abs(rounded), next = std::nextafter(magnitude, T{INFINITY});
    const double unit = std::max(static_cast<double>(next - magnitude), least);
    worst = std::max(worst, static_cast<double>(std::abs(got[i] - want)) / unit);
  }
  CAPTURE(static_cast<int>(isa));
  CAPTURE(static_cast<int>(fn));
  CHECK(worst <= units);
}

TEST_CASE(
    "backends/elementwise: exponentials of f64 to units of the last place, on every instruction "
    "set") {
  Generator g(21);
  std::vector<double> x = {0,      -0.0, NAN,   INFINITY, -INFINITY, 1e-300, -5e-324, 709.78,
                           709.79, 711,  1e300, -708.3,   -708.5,    -745.1, -745.2,  -800,
                           -1e300, 0.55, -0.55, 19.0,     20.1,      40.0};
  while (x.size() < 20003) {
    const double scale = std::ldexp(1.0, static_cast<int>(g.integer(-30, 9)));
    x.push_back(g.real(-1.5, 1.5) * scale);
  }
  using Wide = long double;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const auto check = [&](cpu::Fn fn, auto exact, double units, double least) {
      check_units(fn, DType::kF64, isa, x, exact, units, least);
    };
    check(cpu::Fn::kExp, [](Wide v) { return std::exp(v); }, 1.0, 0);
    check(cpu::Fn::kTanh, [](Wide v) { return std::tanh(v); }, 2.0, 0);
    // 0 where e^-x is infinite.
    check(cpu::Fn::kSigmoid, [](Wide v) { return 1 / (1 + std::exp(-v)); }, 2.0, 1e-307);
  }
}

TEST_CASE(
    "backends/elementwise: expm1 and log1p of f32 to two units of the last place, on every "
    "instruction set") {
  Generator g(22);
  std::vector<float> x = {0,       -0.0f,    NAN,       INFINITY,     -INFINITY,  1e-30f,
                          -1e-40f, 88.7f,    88.73f,    3e38f,        -1,         -17,
                          -19,     -104,     -3e38f,    0.35f,        -0.29f,     1,
                          -0.5f,   0x1p-24f, -0x1p-25f, -0.99999994f, -1.0000001f};
  while (x.size() < 20003) {
    const double scale = std::ldexp(1.0, static_cast<int>(g.integer(-30, 7)));
    x.push_back(static_cast<float>(g.real(-1.0, 1.5) * scale));
  }
  using Wide = long double;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    check_units(cpu::Fn::kExpm1, DType::kF32, isa, x, [](Wide v) { return std::expm1(v); }, 2);
    check_units(cpu::Fn::kLog1p, DType::kF32, isa, x, [](Wide v) { return std::log1p(v); }, 2);
  }
}

TEST_CASE("backends/elementwise: odd functions of -0 are -0") {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16})
    for (const char* op : {"Sin", "Tan", "Asin", "Atan", "Sinh", "Asinh", "Atanh", "Tanh", "Erf"}) {
      CAPTURE(op);
      CAPTURE(name(type));
      Tensor x(type, {37});  // several registers and a rest
      for (int64_t i = 0; i < x.count(); ++i) store_double(x.data(), type, i, -0.0);
      Problem p;
      p.op = &get_op(op);
      p.inputs = {x};
      const std::vector<double> got =
          run_row(find_row("xc.elementwise", op), p, {})[0].to_doubles();
      CHECK(
          std::all_of(got.begin(), got.end(), [](double y) { return y == 0 && std::signbit(y); }));
    }
}

/// Adds one to the last element of what another implementation computes.
class OffByOne final : public Kernel {
 public:
  explicit OffByOne(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    struct Wrong final : BoundKernel {
      std::shared_ptr<const BoundKernel> inner;
      int64_t last = 0;
      void run(const StepArgs& args, int64_t begin, int64_t end) const override {
        inner->run(args, begin, end);
        static_cast<float*>(args.buffers[2])[last] *= 1.0001f;
      }
    };
    auto out = std::make_shared<Wrong>();
    out->inner = inner_->bind(context);
    out->last = element_count(context.outputs[0].dims) - 1;
    out->scratch_bytes = out->inner->scratch_bytes;
    return out;
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

TEST_CASE("backends/harness: a planted wrong kernel is caught") {
  Generator g(15);
  Problem p;
  p.op = &get_op("Add");
  p.inputs = {g.tensor(DType::kF32, {3, 5}, 1, 2), g.tensor(DType::kF32, {3, 5}, 1, 2)};
  const Node node = node_of(p);
  const StepSpec spec = spec_of(p, node, {});
  const Implementation& row = find_row("xc.elementwise", "Add");
  OffByOne wrong(row.create(spec));
  const auto got = run_kernel(wrong, p, {});
  const auto want = run_reference(node, p.inputs);
  CHECK_FALSE(difference(got[0], want[0], {2 * kUlpF32, 0}).empty());
  CHECK(difference(run_row(row, p)[0], want[0], {2 * kUlpF32, 0}).empty());
}

TEST_CASE("backends/harness: a kernel that reads what it has overwritten is caught") {
  struct Reversed final : BoundKernel {
    int64_t n = 0;
    void run(const StepArgs& args, int64_t, int64_t) const override {
      for (int64_t i = 0; i < n; ++i)
        static_cast<float*>(args.buffers[1])[i] =
            static_cast<const float*>(args.buffers[0])[n - 1 - i];
    }
  };
  Reversed kernel;
  kernel.n = 6;
  const std::vector<Tensor> in = {Tensor::of(std::vector<float>{1, 2, 3, 4, 5, 6})},
                            out = {Tensor::of(std::vector<float>{6, 5, 4, 3, 2, 1})};
  CHECK(in_place_difference(kernel, in, out, {}).empty());  // makes no claim
  kernel.in_place = 1;
  CHECK(in_place_difference(kernel, in, out, {}) ==
        "output 0 differs where the first lies in input 0's place");
}

TEST_CASE("backends/elementwise: refusals have a reason") {
  Problem p;
  p.op = &get_op("Equal");
  p.inputs = {Tensor::of(std::vector<std::string>{"a"}), Tensor::of(std::vector<std::string>{"b"})};
  const Node node = node_of(p);
  const Verdict verdict = find_row("xc.elementwise", "Equal").supports(spec_of(p, node, {}));
  CHECK_FALSE(verdict.yes());
  CHECK(verdict.reason == "elements of type string");
  CHECK(chosen_row(p) == "reference");
}

/// `op` over inputs, as the reference does it.
Tensor one(const char* op, std::vector<Tensor> inputs) {
  Problem p;
  p.op = &get_op(op);
  p.inputs = std::move(inputs);
  return run_reference(node_of(p), p.inputs)[0];
}

TEST_CASE("backends/elementwise: a chain gives what its operators give one by one") {
  Generator g(31);
  struct Head {
    const char* op;
    std::vector<Dims> inputs;  ///< the first has the dims of the result
  };
  // Rows of values per channel from a few up to more than a chunk; a value per row; whole operands.
  const std::vector<Head> heads = {
      {"Mul", {{2, 50, 5}, {5}}},
      {"Mul", {{300, 33}, {33}}},
      {"Mul", {{40, 128}, {128}}},
      {"Add", {{9, 256}, {256}}},
      {"Sub", {{6, 300}, {300}}},
      {"Mul", {{3, 2000}, {2000}}},
      {"Mul", {{7, 70}, {7, 1}}},
      {"Sum", {{4, 90}, {4, 90}, {90}}},
      {"Max", {{31, 20}, {20}, {31, 1}}},
      {"Add", {{2, 40, 77}, {77}}},
      {"Abs", {{1500}}},
      {"Mul", {{0, 8}, {8}}},
  };
  for (const DType type : {DType::kF32, DType::kF64, DType::kI32})
    for (const Head& head : heads) {
      if (!is_float(type) && std::string_view(head.op) == "Sum") continue;
      Problem p;
      p.op = &get_op(head.op);
      for (const Dims& dims : head.inputs) p.inputs.push_back(g.tensor(type, dims, -5, 5));
      const Dims& dims = head.inputs[0];
      const Tensor row = g.tensor(type, {dims.back()}, -3, 3), whole = g.tensor(type, dims, -3, 3);
      const auto first = static_cast<uint32_t>(p.inputs.size());
      Tensor three(type, {});
      store_double(three.data(), type, 0, 3);
      const auto binary = [](const char* op, uint32_t operand, bool in_front) {
        return PostOp{PostOp::Kind::kBinary, &get_op(op), {}, operand, in_front, {}};
      };
      // whole - min(relu(head + row), 3)
      p.post_ops = {binary("Add", first, true),
                    {PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}},
                    {PostOp::Kind::kUnary, &get_op("Clip"), {}, 0, true, {Tensor(), three}},
                    binary("Sub", first + 1, false)};
      Tensor want = one("Relu", {one("Add", {one(head.op, p.inputs), row})});
      want = one("Sub", {whole, one("Min", {want, three})});
      for (int kind = 0; kind < Generator::kStrideKinds; ++kind) {
        Problem laid = p;
        laid.inputs[0] = g.strided(p.inputs[0], kind);
        laid.post_inputs = {row, g.strided(whole, kind)};
        for (const int64_t pieces : {1, 0}) {
          RunOptions options;
          options.pieces = pieces;
          options.output_kind = kind;
          const auto got = run_row(find_row("xc.elementwise", head.op), laid, options);
          const double relative = type == DType::kF64 ? 1e-14 : 4 * kUlpF32;
          CHECK_MESSAGE(
              difference(got[0], want, {relative, 4e-6 * (type == DType::kF32)}) == "",
              head.op << ' ' << to_text(dims) << ' ' << name(type) << " strides " << kind);
        }
      }
    }
  // Numbers that f64 does not have.
  const int64_t low = (int64_t{1} << 53) + 1, high = (int64_t{1} << 62) + 1;
  Problem whole;
  whole.op = &get_op("Neg");
  whole.inputs = {Tensor::of<int64_t>({-5, -low - 2, -high - 9})};
  whole.post_ops = {{PostOp::Kind::kUnary,
                     &get_op("Clip"),
                     {},
                     0,
                     true,
                     {Tensor::scalar(low), Tensor::scalar(high)}}};
  CHECK(run_row(find_row("xc.elementwise", "Neg"), whole, {})[0].to_int64s() ==
        std::vector<int64_t>{low, low + 2, high});
  // Halves round behind each operator: no chain.
  Problem halves;
  halves.op = &get_op("Mul");
  halves.inputs = {g.tensor(DType::kF16, {4, 8}), g.tensor(DType::kF16, {8})};
  halves.post_ops = {{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}}};
  const Node node = node_of(halves);
  CHECK_FALSE(find_row("xc.elementwise", "Mul").supports(spec_of(halves, node, {})).yes());
}

}  // namespace
}  // namespace xc
