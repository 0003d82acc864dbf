// What the standard's text says where implementations differ, each computed here by that text in
// f64: in mode off and with fused kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "support/sessions.h"

namespace xc::test {

namespace {

void check(const std::string& graph, const std::vector<Tensor>& inputs,
           const std::vector<double>& want) {
  CAPTURE(graph);
  for (const JitMode jit : {JitMode::kOff, JitMode::kSync}) {
    Config config;
    config.jit = static_cast<int64_t>(jit);
    const std::vector<double> got =
        testing::run(*testing::session_of(graph, config), inputs)[0].to_doubles();
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(std::abs(got[i] - want[i]) <= 1e-5 * (1 + std::abs(want[i])));
  }
}

}  // namespace

TEST_CASE("ops/standard: Celu of any alpha") {
  // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  const Tensor x = testing::ramp({41}, 8, 0.3);
  for (const double alpha : {1.0, 0.25, -0.5, -4.0}) {
    std::vector<double> want;
    for (double v : x.to_doubles())
      want.push_back(std::max(0.0, v) + std::min(0.0, alpha * (std::exp(v / alpha) - 1)));
    check(fmt::format("graph g(%x: f32[n]) -> (%y) {{\n  %y = Celu(%x) {{alpha = {:.2f}}}\n}}",
                      alpha),
          {x}, want);
  }
}

TEST_CASE(
    "ops/standard: Slice backwards begins at the first element when asked to in front of it") {
  // "for negative stepping it is clamped to [0, dims[axes[i]]-1]"
  const Tensor x = Tensor::of<float>({5, 6, 7}, {3});
  for (const auto& [start, want] : std::vector<std::pair<int64_t, std::vector<double>>>{
           {-4, {5}}, {-100, {5}}, {-3, {5}}, {-1, {7, 6, 5}}, {9, {7, 6, 5}}}) {
    check(fmt::format(R"(graph g(%x: f32[n]) -> (%y) {{
  const %s: i64[1] = [{}]
  const %e: i64[1] = [-100]
  const %a: i64[1] = [0]
  const %p: i64[1] = [-1]
  %y = Slice(%x, %s, %e, %a, %p)
}})",
                      start),
          {x}, want);
    check(R"(graph g(%x: f32[n], %s: i64[1], %e: i64[1]) -> (%y) {
  const %a: i64[1] = [0]
  const %p: i64[1] = [-1]
  %y = Slice(%x, %s, %e, %a, %p)
})",
          {x, Tensor::of<int64_t>({start}), Tensor::of<int64_t>({-100})}, want);
  }
}

TEST_CASE("ops/standard: Resize of a constant image of integers is constant") {
  for (const char* mode : {"linear", "cubic"})
    for (const int64_t antialias : {0, 1}) {
      Tensor x(DType::kU8, {1, 1, 13, 11});
      std::fill_n(x.as<uint8_t>(), x.count(), uint8_t{217});
      check(fmt::format(R"(graph g(%x: u8[1, 1, 13, 11]) -> (%y) {{
  const %s: i64[4] = [1, 1, 11, 13]
  %y = Resize(%x, _, _, %s) {{mode = "{}", antialias = {}}}
}})",
                        mode, antialias),
            {x}, std::vector<double>(143, 217.0));
    }
}

TEST_CASE("ops/standard: Einsum of three operands, in any order of products") {
  constexpr int64_t p = 7, n = 5, i = 2;
  const Tensor a = testing::ramp({p, n, i}, 1, 0.1), b = testing::ramp({n, i, i}, 1, 0.5),
               c = testing::ramp({p, n, i}, 1, 0.9);
  const auto at = [](const Tensor& t, int64_t x, int64_t y, int64_t z) {
    return static_cast<double>(t.as<float>()[(x * t.dims()[1] + y) * t.dims()[2] + z]);
  };
  std::vector<double> want;
  for (int64_t x = 0; x < p; ++x)
    for (int64_t y = 0; y < n; ++y) {
      double sum = 0;
      for (int64_t k = 0; k < i; ++k)
        for (int64_t l = 0; l < i; ++l) sum += at(a, x, y, k) * at(b, y, k, l) * at(c, x, y, l);
      want.push_back(sum);
    }
  check(R"(graph g(%a: f32[p, 5, 2], %b: f32[5, 2, 2], %c: f32[p, 5, 2]) -> (%y) {
  %y = Einsum(%a, %b, %c) {equation = "pni,nij,pnj->pn"}
})",
        {a, b, c}, want);
  // Two matrices on two axes: each axis is multiplied by its own.
  const Tensor x = testing::ramp({3, 4, 6}, 1, 0.2), u = testing::ramp({1, 4, 5}, 1, 0.7),
               v = testing::ramp({1, 6, 2}, 1, 0.4);
  want.clear();
  for (int64_t o = 0; o < 3; ++o)
    for (int64_t k = 0; k < 5; ++k)
      for (int64_t l = 0; l < 2; ++l) {
        double sum = 0;
        for (int64_t r = 0; r < 4; ++r)
          for (int64_t s = 0; s < 6; ++s) sum += at(x, o, r, s) * at(u, 0, r, k) * at(v, 0, s, l);
        want.push_back(sum);
      }
  check(R"(graph g(%x: f32[n, 4, 6], %u: f32[4, 5], %v: f32[6, 2]) -> (%y) {
  %y = Einsum(%x, %u, %v) {equation = "bxy,xk,yl->bkl"}
})",
        {x, u.reshaped({4, 5}), v.reshaped({6, 2})}, want);
}

TEST_CASE("ops/standard: what a model rounds between two Casts stays rounded when it is moved") {
  const Tensor x = Tensor::of<float>({2049, 1.0001F, -4098.5F, 0.3F});
  const std::vector<double> rounded{2048, 1, -4100, 0.300048828125};
  const std::vector<double> twice{2048, 1, -4100, 0.300048828125, 2048, 1, -4100, 0.300048828125};
  check(R"(graph g(%x: f32[4]) -> (%y) {
  const %s: i64[2] = [2, 2]
  %h = Cast(%x) {to = 10}
  %r = Reshape(%h, %s)
  %y = Cast(%r) {to = 1}
})",
        {x}, rounded);
  check(R"(graph g(%x: f32[n]) -> (%y) {
  %h = Cast(%x) {to = 10}
  %r = Concat(%h, %h) {axis = 0}
  %y = Cast(%r) {to = 1}
})",
        {x}, twice);
}

TEST_CASE("ops/standard: quantised products of more terms than 32 bits hold") {
  Tensor x(DType::kU8, {1, 40000}), w(DType::kU8, {40000, 1});
  std::fill_n(x.as<uint8_t>(), x.count(), uint8_t{255});
  std::fill_n(w.as<uint8_t>(), w.count(), uint8_t{255});
  // 40000 * 255 * 255 * 0.01 * 0.01 / 2000 = 130.05; with the terms known, and in no graph.
  for (const char* terms : {"40000", "k"})
    check(fmt::format(R"(graph g(%x: u8[1, {0}], %w: u8[{0}, 1]) -> (%y) {{
  const %s: f32[] = 0.01
  const %t: f32[] = 2000
  const %z: u8[] = 0
  %a = DequantizeLinear(%x, %s, %z)
  %b = DequantizeLinear(%w, %s, %z)
  %p = MatMul(%a, %b)
  %y = QuantizeLinear(%p, %t, %z)
}})",
                      terms),
          {x, w}, {130});
}

TEST_CASE("ops/standard: constants are computed as a run computes") {
  struct Problem {
    const char* type;
    const char* a;
    const char* b;
    const char* nodes;
    double want;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // Integers wrap, floats are rounded, and 1 / -0 is minus infinity.
  for (const Problem& p : std::initializer_list<Problem>{
           {"i32", "65536", "65536", "%y = Mul(%a, %b)", 0},
           {"i32", "2147483647", "1", "%y = Add(%a, %b)", -2147483648.0},
           {"i32", "-2147483648", "1", "%y = Sub(%a, %b)", 2147483647},
           {"i32", "-2147483648", "1", "%y = Neg(%a)", -2147483648.0},
           {"i32", "-2147483648", "1", "%y = Abs(%a)", -2147483648.0},
           {"i32", "50000", "2", "%y = Pow(%a, %b)", -1794967296.0},
           {"i64", "4294967301", "1", "%t = Cast(%a) {to = 6}\n  %y = Cast(%t) {to = 7}", 5},
           {"i64", "16777217", "1", "%t = Cast(%a) {to = 1}\n  %y = Cast(%t) {to = 7}", 16777216},
           {"i64", "9223372036854775807", "2",
            "%c = Concat(%a, %b) {axis = 0}\n  %y = ReduceSum(%c)", -9223372036854775807.0},
           {"i64", "1099511627776", "1099511627776",
            "%c = Concat(%a, %b) {axis = 0}\n  %y = ReduceProd(%c)", 0},
           {"u32", "4294967295", "2", "%c = Concat(%a, %b) {axis = 0}\n  %y = ReduceSum(%c)", 1},
           {"f32", "0.0", "-1.0", "%t = Mul(%a, %b)\n  %y = Reciprocal(%t)", -kInf},
           {"f32", "0.0", "-1.0", "%t = Neg(%a)\n  %y = Reciprocal(%t)", -kInf},
           {"f32", "-0.0", "1.0",
            "%t = Concat(%a, %a) {axis = 0}\n  %u = Reciprocal(%t)\n"
            "  %y = ReduceMax(%u)",
            -kInf},
           {"f32", "-0.0", "1.0", "%t = Cast(%a) {to = 11}\n  %y = Reciprocal(%t)", -kInf},
           {"f32", "-0.0", "1.0", "%t = Ceil(%a)\n  %y = Reciprocal(%t)", -kInf}}) {
    CAPTURE(p.nodes);
    const auto run = [&](const std::string& head, const std::string& body,
                         const std::vector<Tensor>& inputs) {
      const std::string graph = "graph g(" + head + ") -> (%y) {\n" + body + "  " + p.nodes + "\n}";
      CAPTURE(graph);
      return testing::run(*testing::session_of(graph, {}), inputs)[0].to_doubles();
    };
    const auto number = [&](const char* text) {
      Tensor out(*dtype_from_name(p.type), {1});
      if (is_float(out.dtype()))
        store_double(out.data(), out.dtype(), 0, std::stod(text));
      else
        store_int64(out.data(), out.dtype(), 0, std::stoll(text));
      return out;
    };
    const std::vector<double> want{p.want};
    CHECK(run("",
              fmt::format("  const %a: {0}[1] = [{1}]\n  const %b: {0}[1] = [{2}]\n", p.type, p.a,
                          p.b),
              {}) == want);
    CHECK(run(fmt::format("%a: {0}[1], %b: {0}[1]", p.type), "", {number(p.a), number(p.b)}) ==
          want);
  }
}

TEST_CASE("ops/standard: the larger of a number and -0 is no Relu") {
  Config config;
  config.set_jit(JitMode::kOff);
  const auto y = testing::run(*testing::session_of(R"(graph g(%x: f32[2]) -> (%y) {
  const %z: f32[] = -0.0
  %m = Max(%x, %z)
  %y = Reciprocal(%m)
})",
                                                   config),
                              {Tensor::of<float>({-1, 2})})[0]
                     .to_doubles();
  CHECK(y == std::vector<double>{-std::numeric_limits<double>::infinity(), 0.5});
}

TEST_CASE("ops/standard: -1 of a Reshape is what the dims that are not copied leave") {
  const Tensor x(DType::kF32, {0, 3});
  for (const char* head :
       {"graph g(%x: f32[0, 3]", "graph g(%x: f32[n, 3]", "graph g(%x: f32[n, m]"})
    for (const bool given : {false, true}) {
      const std::string graph = std::string(head) + (given ? ", %s: i64[2]" : "") +
                                ") -> (%y) {\n" + (given ? "" : "  const %s: i64[2] = [0, -1]\n") +
                                "  %y = Reshape(%x, %s)\n}";
      CAPTURE(graph);
      std::vector<Tensor> inputs{x};
      if (given) inputs.push_back(Tensor::of<int64_t>({0, -1}));
      CHECK(testing::run(*testing::session_of(graph, {}), inputs)[0].dims() == Dims{0, 3});
    }
}

TEST_CASE("ops/standard: NaN is one value to Unique, the largest") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto session = testing::session_of(
      "graph g(%x: f32[n]) -> (%y, %i, %c) {\n  %y, %f, %i, %c = Unique(%x)\n}", {});
  const auto got = testing::run(*session, {Tensor::of<float>({3, nan, 1, nan, 3, nan, 1})});
  const std::vector<double> y = got[0].to_doubles();  // as numpy.unique
  REQUIRE(y.size() == 3);
  CHECK((y[0] == 1 && y[1] == 3 && std::isnan(y[2])));
  CHECK(got[1].to_int64s() == std::vector<int64_t>{1, 2, 0, 2, 1, 2, 0});
  CHECK(got[2].to_int64s() == std::vector<int64_t>{2, 2, 3});
}

TEST_CASE("ops/standard: Unique of numbers is that of slices of one number each") {
  std::mt19937 random(5);
  for (const DType type :
       {DType::kF32, DType::kF64, DType::kF16, DType::kI64, DType::kI32, DType::kU8})
    for (int64_t n : {0, 1, 40, 3000})
      for (unsigned values : {1u, 7u, 100000u})
        for (int sorted : {0, 1}) {
          CAPTURE(name(type));
          CAPTURE(n);
          CAPTURE(values);
          const auto session_of = [&](const char* axis) {
            return testing::session_of(
                fmt::format("graph g(%x: {}[n]) -> (%y, %f, %i, %c) {{\n"
                            "  %y, %f, %i, %c = Unique(%x) {{{}sorted={}}}\n}}",
                            name(type), axis, sorted),
                {});
          };
          const auto flat = session_of(""), slices = session_of("axis=0, ");
          Tensor x(type, {n});
          for (int64_t i = 0; i < n; ++i) {
            double v = static_cast<double>(random() % values) - 3;
            if (is_float(type))
              v = v == -3 ? std::nan("") : v == 0 && random() % 2 ? -0.0 : v * 1.5;
            store_double(x.data(), type, i, v);
          }
          const auto got = testing::run(*flat, {x}), want = testing::run(*slices, {x});
          for (size_t k = 0; k < 4; ++k) {
            REQUIRE(got[k].dims() == want[k].dims());
            CHECK(std::memcmp(got[k].data(), want[k].data(),
                              static_cast<size_t>(got[k].count() * element_size(got[k].dtype()))) ==
                  0);
          }
        }
}

TEST_CASE("ops/standard: Hardmax finds NaN as ArgMax does, whatever runs it") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* dims : {"[1, 4]", "[1, n]"})
    check(fmt::format("graph g(%x: f32{}) -> (%y) {{\n  %y = Hardmax(%x)\n}}", dims),
          {Tensor::of<float>({1, nan, 7, nan}, {1, 4})}, {0, 1, 0, 0});
}

TEST_CASE("ops/standard: text becomes the integer it spells") {
  Config config;
  config.set_jit(JitMode::kOff);
  const auto cast = [&](const char* text, DType to) {
    const std::string graph = fmt::format(
        "graph g(%x: string[1]) -> (%y) {{\n  %y = Cast(%x) {{to = {}}}\n}}", onnx_number(to));
    return testing::run(*testing::session_of(graph, config),
                        {Tensor::of(std::vector<std::string>{text})})[0];
  };
  CHECK(cast("9007199254740993", DType::kI64).as<int64_t>()[0] == 9007199254740993);
  CHECK(cast("-9223372036854775807", DType::kI64).as<int64_t>()[0] == -INT64_MAX);
  CHECK(cast("18446744073709551615", DType::kU64).as<uint64_t>()[0] == UINT64_MAX);
  CHECK(cast("3.75", DType::kI64).as<int64_t>()[0] == 3);
  CHECK(cast("16777217", DType::kI32).as<int32_t>()[0] == 16777217);
}

TEST_CASE(
    "ops/standard: a scalar is quantised by a scale whose vector turns out to have one element") {
  for (const char* graph :
       {"graph g(%x: f32[], %s: f32[n]) -> (%y) {\n  %y = QuantizeLinear(%x, %s)\n}",
        "graph g(%x: u8[], %s: f32[n]) -> (%y) {\n  %y = DequantizeLinear(%x, %s)\n}"}) {
    CAPTURE(graph);
    const bool quantises = std::string(graph).find(" QuantizeLinear") != std::string::npos;
    const auto session = testing::session_of(graph, {});
    const Tensor x = quantises ? Tensor::scalar<float>(5) : Tensor::scalar<uint8_t>(5);
    const auto run = [&](std::vector<float> scale) {
      return testing::run(*session, {x, Tensor::of(scale)})[0].to_doubles()[0];
    };
    CHECK(run({0.5f}) == (quantises ? 10 : 2.5));
    CHECK_THROWS_AS(run({0.5f, 0.5f}), Error);
  }
}

TEST_CASE("ops/standard: counts of valid keys beyond the keys are refused, expanded or not") {
  for (const char* length : {"3", "k"}) {
    const std::string graph = fmt::format(
        "graph g(%q: f32[1, 1, 2, 4], %k: f32[1, 1, {0}, 4], %n: i64[1]) -> (%y) {{\n"
        "  %y = Attention(%q, %k, %k, _, _, _, %n)\n}}",
        length);
    CAPTURE(graph);
    const auto session = testing::session_of(graph, {});
    const auto run = [&](int64_t valid) {
      return testing::run(*session,
                          {testing::ramp({1, 1, 2, 4}, 1, 0), testing::ramp({1, 1, 3, 4}, 1, 1),
                           Tensor::of<int64_t>({valid})});
    };
    CHECK(run(3)[0].dims() == Dims{1, 1, 2, 4});
    CHECK(run(0)[0].to_doubles() == std::vector<double>(8, 0.0));
    for (const int64_t wrong : {-1, 4}) CHECK_THROWS_AS(run(wrong), Error);
  }
}

TEST_CASE("ops/standard: a reshape that sizes do not fit is refused, whatever follows it") {
  for (const char* inner : {"Reshape(%x, %two)", "Squeeze(%x, %first)"}) {
    const std::string graph = fmt::format(R"(graph g(%x: f32[n, 4]) -> (%y) {{
  const %two: i64[2] = [2, 8]
  const %first: i64[1] = [0]
  const %rows: i64[2] = [-1, 2]
  %r = {}
  %y = Reshape(%r, %rows)
}})",
                                          inner);
    CAPTURE(graph);
    for (const JitMode jit : {JitMode::kOff, JitMode::kSync}) {
      Config config;
      config.jit = static_cast<int64_t>(jit);
      CHECK_THROWS_AS(
          testing::run(*testing::session_of(graph, config), {testing::ramp({3, 4}, 1, 0)}), Error);
    }
  }
}

}  // namespace xc::test
