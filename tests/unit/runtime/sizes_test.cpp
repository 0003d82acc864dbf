// Sizes that are values of inputs: what inference could not prove is checked before memory is read.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "backends/step.h"
#include "ops/containers.h"
#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const char* text) {
  Config config;
  config.set_jit(JitMode::kOff);
  return testing::session_of(text, config);
}

Tensor shape(std::vector<int64_t> dims) {
  return Tensor::of(dims);
}

const Tensor kSix = Tensor::of<float>({0, 1, 2, 3, 4, 5}, {2, 3});

}  // namespace

TEST_CASE("runtime/sizes: a shape that is an input must hold as many elements") {
  auto session = session_of("graph g(%x: f32[2, m], %s: i64[2]) -> (%y) { %y = Reshape(%x, %s) }");
  CHECK(run(*session, {kSix, shape({3, 2})})[0].dims() == Dims{3, 2});
  CHECK(run(*session, {kSix, shape({-1, 2})})[0].dims() == Dims{3, 2});
  CHECK(run(*session, {kSix, shape({0, 3})})[0].dims() == Dims{2, 3});            // 0 copies a dim
  CHECK(status_of(*session, {kSix, shape({6, 0})}) == Status::kInvalidArgument);  // 6 times 3
}

// The C interface says 0 or 1, and a file or a cast of the host's may hold more: true all the same.
TEST_CASE("runtime/sizes: bools of any byte but 0 are counted once") {
  Tensor x(DType::kBool, {2, 4});
  const uint8_t bytes[] = {0, 255, 1, 2, 0, 128, 0, 0};
  std::copy(std::begin(bytes), std::end(bytes), x.as<uint8_t>());
  for (const int64_t kernels : {0, 1}) {  // the fastest, the reference's
    Config config;
    config.kernels = kernels;
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
      config.jit = static_cast<int64_t>(mode);
      auto session = testing::session_of(
          "graph g(%x: bool[n, m]) -> (%y, %z) {\n const %w: bool[2, 2] = [true, false, false, "
          "true]\n %y = NonZero(%x)\n %z = NonZero(%w) }",
          config);
      const auto got = run(*session, {x});
      CHECK(got[0].dims() == Dims{2, 4});
      CHECK(got[0].to_int64s() == std::vector<int64_t>{0, 0, 0, 1, 1, 2, 3, 1});
      CHECK(got[1].to_int64s() == std::vector<int64_t>{0, 1, 0, 1});
    }
  }
}

TEST_CASE("runtime/sizes: a shape is read through its strides") {
  auto session = session_of("graph g(%x: f32[2, m], %s: i64[2]) -> (%y) { %y = Reshape(%x, %s) }");
  const Tensor numbers = Tensor::of<int64_t>({3, 6, 2, 1, 6});
  const auto read = [&](int64_t first, int64_t stride) {
    return Tensor(numbers.buffer(), numbers.byte_offset() + first * 8, DType::kI64, {2}, {stride});
  };
  for (int round = 0; round < 2; ++round) {  // the second time the signature is the run's before
    CHECK(run(*session, {kSix, read(0, 2)})[0].dims() == Dims{3, 2});
    CHECK(run(*session, {kSix, read(0, 2)})[0].dims() == Dims{3, 2});
    CHECK(run(*session, {kSix, read(2, -2)})[0].dims() == Dims{2, 3});
    CHECK(run(*session, {kSix, read(4, -1)})[0].dims() == Dims{6, 1});
    CHECK(status_of(*session, {kSix, read(2, 0)}) == Status::kInvalidArgument);  // 2 times 2
  }
}

TEST_CASE("runtime/sizes: what does not fit is refused, whatever ran before") {
  auto session = session_of("graph g(%x: f32[2, m], %s: i64[2]) -> (%y) { %y = Reshape(%x, %s) }");
  for (const auto& wrong : std::vector<std::vector<int64_t>>{
           {3, 3}, {1, 1}, {1 << 20, 1 << 20}, {-1, 4}, {-2, 3}, {-1, -1}}) {
    CAPTURE(wrong[0]);
    CHECK(status_of(*session, {kSix, shape(wrong)}) == Status::kInvalidArgument);
    CHECK(status_of(*session, {kSix, shape({6, 1})}) == Status::kOk);
  }
  CHECK(status_of(*session, {kSix, shape({INT64_MIN, 1})}) == Status::kLimit);  // an overflow
}

TEST_CASE("runtime/sizes: the only dim of a result is the one that is asked for") {
  for (const char* text : {"graph g(%x: f32[2, 3], %s: i64[1]) -> (%y) { %y = Reshape(%x, %s) }",
                           "graph g(%x: f32[n, m], %s: i64[1]) -> (%y) { %y = Reshape(%x, %s) }"}) {
    auto session = session_of(text);
    for (const int64_t right : {6, -1}) {
      CAPTURE(right);
      CHECK(run(*session, {kSix, shape({right})})[0].dims() == Dims{6});
    }
    for (const int64_t wrong :
         {int64_t{5}, int64_t{7}, int64_t{0}, int64_t{-2}, int64_t{1} << 40}) {
      CAPTURE(wrong);
      CHECK(status_of(*session, {kSix, shape({wrong})}) == Status::kInvalidArgument);
    }
  }
  // The same with the shape of another input.
  auto like = session_of(R"(graph g(%x: f32[n, m], %z: f32[k]) -> (%y) {
  %s = Shape(%z)
  %y = Reshape(%x, %s)
})");
  CHECK(run(*like, {kSix, Tensor::of<float>({0, 0, 0, 0, 0, 0}, {6})})[0].dims() == Dims{6});
  CHECK(status_of(*like, {kSix, Tensor::of<float>({0, 0, 0, 0, 0}, {5})}) ==
        Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: nothing is reshaped and expanded by the same rules") {
  auto reshape = session_of("graph g(%x: i64[2, 0], %s: i64[2]) -> (%y) { %y = Reshape(%x, %s) }");
  const Tensor none(DType::kI64, {2, 0});
  CHECK(run(*reshape, {none, shape({0, 0})})[0].dims() == Dims{2, 0});
  CHECK(status_of(*reshape, {none, shape({-7, -7})}) == Status::kInvalidArgument);
  auto expand = session_of("graph g(%x: i64[2, 0], %s: i64[2]) -> (%y) { %y = Expand(%x, %s) }");
  CHECK(run(*expand, {none, shape({2, 1})})[0].dims() == Dims{2, 0});
  CHECK(status_of(*expand, {none, shape({2, 4})}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: an axis that is squeezed must have size 1") {
  auto session = session_of(R"(graph g(%x: f32[n, m]) -> (%y) {
  const %axes: i64[1] = [0]
  %y = Squeeze(%x, %axes)
})");
  CHECK(run(*session, {Tensor::of<float>({1, 2, 3}, {1, 3})})[0].dims() == Dims{3});
  CHECK(status_of(*session, {kSix}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: the parts of a split are its axis, no more and no less") {
  for (const char* text :
       {"graph g(%x: f32[2, 3], %s: i64[2]) -> (%y, %z) { %y, %z = Split(%x, %s) {axis = 1} }",
        "graph g(%x: f32[2, m], %s: i64[2]) -> (%y, %z) { %y, %z = Split(%x, %s) {axis = -1} }"}) {
    CAPTURE(text);
    auto session = session_of(text);
    for (const auto& wrong : std::vector<std::vector<int64_t>>{
             {3, 3}, {0, 0}, {1, 1}, {4, -1}, {-1, 4}, {INT64_MAX, INT64_MAX}}) {
      CAPTURE(wrong[0]);
      CHECK(status_of(*session, {kSix, shape(wrong)}) != Status::kOk);
      CHECK(run(*session, {kSix, shape({1, 2})})[1].to_doubles() ==
            std::vector<double>{1, 2, 4, 5});
    }
    CHECK(run(*session, {kSix, shape({0, 3})})[0].dims() == Dims{2, 0});
  }
}

TEST_CASE("runtime/sizes: a split into thousands of parts whose sizes the run gives") {
  constexpr int64_t kParts = 1500;
  std::string parts;
  for (int64_t k = 0; k < kParts; ++k) parts += fmt::format("{}%p{}", k ? ", " : "", k);
  const auto session = session_of(
      fmt::format("graph g(%x: f32[n], %s: i64[{}]) -> (%p0, %p{}) {{ {} = Split(%x, %s) }}",
                  kParts, kParts - 1, parts)
          .c_str());
  Tensor sizes(DType::kI64, {kParts});
  std::fill_n(sizes.as<int64_t>(), kParts, 1);
  sizes.as<int64_t>()[kParts - 1] = 2;
  const auto out = run(*session, {ramp({kParts + 1}, 1, 0), sizes});
  CHECK(out[0].dims() == Dims{1});
  CHECK(out[1].dims() == Dims{2});
  CHECK(out[1].to_doubles() ==
        std::vector<double>{ramp({kParts + 1}, 1, 0).to_doubles()[kParts - 1],
                            ramp({kParts + 1}, 1, 0).to_doubles()[kParts]});
}

TEST_CASE("runtime/sizes: parts that have to be equal divide their axis") {
  auto session = session_of(
      "graph g(%x: f32[n]) -> (%y, %z) { %y, %z = Split(%x) {even = 1, num_outputs = 2} }");
  const Tensor seven = Tensor::of<float>({0, 1, 2, 3, 4, 5, 6});
  for (int round = 0; round < 2; ++round) {
    CHECK(run(*session, {Tensor::of<float>({0, 1, 2, 3, 4, 5})})[1].to_doubles() ==
          std::vector<double>{3, 4, 5});
    CHECK(status_of(*session, {seven}) == Status::kInvalidArgument);
  }
}

TEST_CASE("runtime/sizes: a dim that a run gives expands to the number asked for, or is refused") {
  auto session = session_of(R"(graph g(%x: f32[2, n]) -> (%y) {
  const %s: i64[2] = [2, 4]
  %y = Expand(%x, %s)
})");
  CHECK(run(*session, {Tensor::of<float>({1, 2}, {2, 1})})[0].dims() == Dims{2, 4});
  CHECK(run(*session, {Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4})})[0].dims() ==
        Dims{2, 4});
  CHECK(status_of(*session, {Tensor(DType::kF32, {2, 0})}) == Status::kInvalidArgument);
  CHECK(status_of(*session, {kSix}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: what a run asks to expand to must fit a dim that is known") {
  auto session = session_of("graph g(%x: f32[2, 3], %s: i64[2]) -> (%y) { %y = Expand(%x, %s) }");
  CHECK(run(*session, {kSix, shape({2, 3})})[0].dims() == Dims{2, 3});
  CHECK(run(*session, {kSix, shape({1, 1})})[0].dims() == Dims{2, 3});
  CHECK(status_of(*session, {kSix, shape({2, 4})}) == Status::kInvalidArgument);
  CHECK(status_of(*session, {kSix, shape({0, 3})}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: a dim expands to itself, or from 1") {
  auto session = session_of("graph g(%x: f32[1, 3], %s: i64[2]) -> (%y) { %y = Expand(%x, %s) }");
  const Tensor x = Tensor::of<float>({1, 2, 3}, {1, 3});
  CHECK(run(*session, {x, shape({2, 3})})[0].to_doubles() == std::vector<double>{1, 2, 3, 1, 2, 3});
  CHECK(run(*session, {x, shape({2, 1})})[0].dims() == Dims{2, 3});
  for (const int64_t wrong : {0, 2, 4, -1})
    CHECK(status_of(*session, {x, shape({2, wrong})}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: the least number is a start like any other before the first") {
  auto session = session_of(R"(graph g(%x: f32[4], %s: i64[1]) -> (%y) {
  const %end: i64[1] = [3]
  %y = Slice(%x, %s, %end)
})");
  const Tensor x = Tensor::of<float>({1, 2, 3, 4});
  for (const int64_t start : {INT64_MIN, INT64_MIN + 1, int64_t{-4}, int64_t{0}})
    CHECK(run(*session, {x, shape({start})})[0].to_doubles() == std::vector<double>{1, 2, 3});
}

TEST_CASE("runtime/sizes: comparing numbers that no size can be is no error") {
  auto session = session_of(R"(graph g(%x: i64[2]) -> (%y) {
  const %huge: i64[2] = [9223372036854775807, -9223372036854775808]
  const %other: i64[2] = [-9223372036854775808, 9223372036854775807]
  %less = Less(%huge, %other)
  %y = Where(%less, %x, %huge)
})");
  CHECK(run(*session, {Tensor::of<int64_t>({1, 2})})[0].to_int64s() ==
        std::vector<int64_t>{INT64_MAX, 2});
}

namespace {

/// A session of one step on %x, f32[n, 3], and %v, numbers of %f that the run works out.
std::shared_ptr<Session> worked_out(const std::string& step) {
  return session_of(("graph g(%x: f32[n, 3], %f: f32[k]) -> (%y) {\n  const %half: f32[] = 0.5\n"
                     "  %more = Add(%f, %half)\n  %v = Cast(%more) {to = 7}\n  " +
                     step + "\n  %y = Neg(%part)\n}")
                        .c_str());
}

/// Of which a half more, cut to whole numbers, gives these.
Tensor floats(std::vector<float> values) {
  for (float& v : values)
    if (v < 0) v -= 1;
  return Tensor::of(values);
}

/// [0, 1, 2], [3, 4, 5], ...
Tensor counted(int64_t rows) {
  Tensor out(DType::kF32, {rows, 3});
  for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(i);
  return out;
}

}  // namespace

TEST_CASE("runtime/sizes: a slice that the run works out, of few runs of memory or many") {
  auto session = worked_out(R"(const %axes: i64[2] = [1, 0]
  const %steps: i64[2] = [-1, 2]
  const %ends: i64[2] = [0, 1000]
  %part = Slice(%x, %v, %ends, %axes, %steps))");
  for (const int64_t rows : {1, 4, 40, 400}) {
    const auto got = run(*session, {counted(rows), floats({2, -4})})[0];
    const int64_t first = std::max<int64_t>(0, rows - 4);
    REQUIRE(got.dims() == Dims{(rows - first + 1) / 2, 2});
    for (int64_t i = 0; i < got.dims()[0]; ++i)
      for (int64_t j = 0; j < 2; ++j)
        CHECK(got.as<float>()[2 * i + j] == static_cast<float>(-((first + 2 * i) * 3 + 2 - j)));
    CHECK(status_of(*session, {counted(rows), floats({2})}) == Status::kInvalidArgument);
  }
  auto all = worked_out(R"(const %axes: i64[1] = [1]
  const %ends: i64[1] = [2]
  %part = Slice(%x, %v, %ends, %axes))");
  for (const int64_t rows : {1, 40, 400}) {
    const auto got = run(*all, {counted(rows), floats({1})})[0];
    REQUIRE(got.dims() == Dims{rows, 1});
    for (int64_t i = 0; i < rows; ++i) CHECK(got.as<float>()[i] == static_cast<float>(-3 * i - 1));
  }
}

TEST_CASE("runtime/sizes: a shape that the run works out") {
  auto reshape = worked_out("%part = Reshape(%x, %v)");
  CHECK(run(*reshape, {counted(4), floats({2, -1})})[0].dims() == Dims{2, 6});
  CHECK(run(*reshape, {counted(4), floats({0, 3, 1})})[0].to_doubles()[11] == -11);
  for (const std::vector<float>& wrong :
       {std::vector<float>{5, -1}, {-1, -1}, {-2, 6}, {13}, {3e9f, 3e9f, 3e9f}})
    CHECK(status_of(*reshape, {counted(4), floats(wrong)}) != Status::kOk);
  // The rows of a transposed view do not lie in order.
  auto turned = worked_out("%t = Transpose(%x)\n  %part = Reshape(%t, %v)");
  CHECK(run(*turned, {counted(2), floats({6})})[0].to_doubles() ==
        std::vector<double>{0, -3, -1, -4, -2, -5});

  auto expand = worked_out("%part = Expand(%x, %v)");
  CHECK(run(*expand, {counted(1), floats({2, 1})})[0].to_doubles() ==
        std::vector<double>{0, -1, -2, 0, -1, -2});
  CHECK(run(*expand, {counted(1), floats({50, 3})})[0].to_doubles()[149] == -2);
  for (const std::vector<float>& wrong : {std::vector<float>{2, 2}, {-1, 3}, {3e9f, 3e9f, 3e9f, 3}})
    CHECK(status_of(*expand, {counted(1), floats(wrong)}) != Status::kOk);

  auto split = worked_out("%part, %rest = Split(%x, %v) {axis = 0}");
  CHECK(run(*split, {counted(3), floats({2, 1})})[0].dims() == Dims{2, 3});
  for (const std::vector<float>& wrong : {std::vector<float>{2, 2}, {4, -1}, {3}})
    CHECK(status_of(*split, {counted(3), floats(wrong)}) != Status::kOk);
  CHECK(run(*split, {counted(3), floats({0, 3})})[0].dims() == Dims{0, 3});
}

TEST_CASE("runtime/sizes: a loop whose state grows, stays and grows again finds its sizes") {
  // The state is doubled in iterations 0 and 3; in every one a size follows from a value.
  auto session = session_of(R"(graph g(%x: f32[n]) -> (%last, %counts) {
  const %m: i64[] = 5
  const %go: bool[] = true
  %last, %counts = Loop(%m, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[k]) -> (%c, %t, %number) {
      const %three: i64[] = 3
      %phase = Mod(%i, %three)
      %rest = Cast(%phase) {to = 9}
      %t = If(%rest, %s) {} captures 1 (
        graph then(%s: f32[k]) -> (%r) { %r = Identity(%s) },
        graph else(%s: f32[k]) -> (%r) { %r = Concat(%s, %s) {axis = 0} })
      %where = NonZero(%t)
      %number = Shape(%where)
    })
})");
  const auto out = run(*session, {Tensor::of<float>({1, 0, 2})});
  CHECK(out[0].to_doubles() == std::vector<double>{1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 2});
  CHECK(out[1].to_int64s() == std::vector<int64_t>{1, 4, 1, 4, 1, 4, 1, 8, 1, 8});
}

TEST_CASE("runtime/sizes: operators that simpler ones stand for still ask what they asked") {
  // Each of these would broadcast.
  struct Problem {
    const char* graph;
    std::vector<Dims> good, bad;
  };
  for (const Problem& p : std::initializer_list<Problem>{
           {R"(graph g(%x: f32[n], %b: f32[m]) -> (%y) { %y = "com.microsoft"::BiasGelu(%x, %b) })",
            {{2}, {2}},
            {{2}, {1}}},
           {R"(graph g(%x: f32[n], %b: f32[m]) -> (%y) { %y = "com.microsoft"::FastGelu(%x, %b) })",
            {{2}, {2}},
            {{2}, {1}}},
           {R"(graph g(%x: f32[b, c, 4], %p: f32[4]) -> (%y) {
  const %scale: f32[3] = [1, 2, 3]
  const %mean: f32[3] = [0, 1, 0]
  const %var: f32[3] = [1, 1, 4]
  %t = BatchNormalization(%x, %scale, %mean, %mean, %var)
  %y = Add(%t, %p)
})",
            {{2, 3, 4}, {4}},
            {{2, 1, 4}, {4}}},
           {R"(graph g(%x: f32[2, c, 4], %p: f32[k]) -> (%y) {
  %y, %mean, %var = BatchNormalization(%x, %p, %p, %p, %p) {training_mode = 1}
})",
            {{2, 3, 4}, {3}},
            {{2, 1, 4}, {3}}},
           {R"(graph g(%x: f32[n, 4]) -> (%y) {
  const %q: i8[4, 2] = [1, -2, 3, 4, 5, -6, 7, 8]
  const %s: f32[] = 0.5
  const %c: f32[3, 2] = [1, 2, 3, 4, 5, 6]
  %w = DequantizeLinear(%q, %s)
  %y = Gemm(%x, %w, %c)
})",
            {{3, 4}},
            {{1, 4}}},
           {R"(graph g(%x: f32[b, 3, 8], %c: f32[k, 3, 2]) -> (%y) {
  %y = RotaryEmbedding(%x, %c, %c) {num_heads = 2}
})",
            {{2, 3, 8}, {2, 3, 2}},
            {{2, 3, 8}, {1, 3, 2}}},
           {R"(graph g(%x: f32[1, 1, n], %s: f32[1, 1, m], %w: f32[k]) -> (%y) {
  %y = "com.microsoft"::SkipLayerNormalization(%x, %s, %w, %w)
})",
            {{1, 1, 2}, {1, 1, 2}, {2}},
            {{1, 1, 1}, {1, 1, 2}, {1}}}}) {
    CAPTURE(p.graph);
    auto session = session_of(p.graph);
    const auto inputs = [](const std::vector<Dims>& dims) {
      std::vector<Tensor> out;
      for (const Dims& d : dims) out.push_back(ramp(d, 1, 2));
      return out;
    };
    for (int round = 0; round < 2; ++round) {
      CHECK(status_of(*session, inputs(p.good)) == Status::kOk);
      CHECK(status_of(*session, inputs(p.bad)) == Status::kInvalidArgument);
    }
  }
}

TEST_CASE("runtime/sizes: strict numerics ask what operators asked of which sizes alone are read") {
  struct Problem {
    const char* node;
    std::vector<int64_t> numbers;
    Dims good, bad;
  };
  Config config;
  config.set_jit(JitMode::kOff);
  config.set_numerics(Numerics::kStrict);
  const Tensor v = Tensor::of<float>({1}, {1, 1});
  for (const Problem& p : {Problem{"%r = Reshape(%x, %k)", {1, 1, 1}, {1, 1}, {1, 2}},
                           Problem{"%r, %i = TopK(%x, %k)", {3}, {2, 4}, {4, 2}},
                           Problem{"%r = Squeeze(%x, %k)", {0}, {1, 4}, {2, 4}}}) {
    CAPTURE(p.node);
    const std::string text = fmt::format(
        "graph g(%x: f32[n, m], %v: f32[1, 1]) -> (%y) {{\nconst %k: i64[{}] = [{}]\n{}\n"
        "%s = Shape(%r)\n%y = Expand(%v, %s)\n}}",
        p.numbers.size(), fmt::join(p.numbers, ", "), p.node);
    auto session = testing::session_of(text.c_str(), config);
    for (int round = 0; round < 2; ++round) {
      CHECK(status_of(*session, {ramp(p.good, 1, 2), v}) == Status::kOk);
      CHECK(status_of(*session, {ramp(p.bad, 1, 2), v}) == Status::kInvalidArgument);
    }
  }
}

TEST_CASE("runtime/sizes: labels of Einsum with a symbol from each operand may turn out to be 1") {
  auto session = session_of(R"(graph g(%x: f32[b, i, j], %z: f32[c, k]) -> (%y) {
  %y = Einsum(%x, %z) {equation = "bij,bj->bi"}
})");
  for (const auto& [x_dims, z_dims] : std::initializer_list<std::pair<Dims, Dims>>{
           {{2, 3, 4}, {2, 4}}, {{1, 3, 4}, {2, 4}}, {{2, 3, 4}, {1, 1}}, {{2, 3, 1}, {2, 4}}}) {
    CAPTURE(to_text(x_dims));
    CAPTURE(to_text(z_dims));
    const Tensor x = ramp(x_dims, 1, 0), z = ramp(z_dims, 1, 1);
    const int64_t b = std::max(x_dims[0], z_dims[0]), j = std::max(x_dims[2], z_dims[1]);
    const auto got = run(*session, {x, z})[0];
    REQUIRE(got.dims() == Dims{b, 3});
    const auto at = [](int64_t index, int64_t size) { return size == 1 ? 0 : index; };
    for (int64_t p = 0; p < b; ++p)
      for (int64_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (int64_t k = 0; k < j; ++k)
          sum += x.to_doubles()[(at(p, x_dims[0]) * 3 + i) * x_dims[2] + at(k, x_dims[2])] *
                 z.to_doubles()[at(p, z_dims[0]) * z_dims[1] + at(k, z_dims[1])];
        CHECK(got.to_doubles()[p * 3 + i] == doctest::Approx(sum).epsilon(1e-5));
      }
  }
  CHECK(status_of(*session, {ramp({2, 3, 4}, 1, 0), ramp({3, 4}, 1, 0)}) ==
        Status::kInvalidArgument);
  CHECK(status_of(*session, {ramp({2, 3, 4}, 1, 0), ramp({2, 3}, 1, 0)}) ==
        Status::kInvalidArgument);
}

TEST_CASE("runtime/sizes: a part of a split whose size the run gives moves those behind it") {
  auto session = session_of(R"(graph g(%n: i64[1]) -> (%a, %b) {
  const %x: i64[6] = [10, 11, 12, 13, 14, 15]
  const %two: i64[1] = [2]
  %sizes = Concat(%n, %two) {axis = 0}
  %a, %b = Split(%x, %sizes)
})");
  const auto got = run(*session, {shape({4})});
  CHECK(got[0].to_int64s() == std::vector<int64_t>{10, 11, 12, 13});
  CHECK(got[1].to_int64s() == std::vector<int64_t>{14, 15});
}

TEST_CASE("runtime/sizes: what does not fit is the inputs' fault, wherever a run finds out") {
  const auto blamed = [](const char* text, const std::vector<Tensor>& good,
                         const std::vector<Tensor>& bad) {
    CAPTURE(text);
    auto session = session_of(text);
    CHECK(status_of(*session, good) == Status::kOk);
    for (int round = 0; round < 2; ++round) {
      try {
        run(*session, bad);
        FAIL_CHECK("no error");
      } catch (const Error& error) {
        CHECK(error.status() == Status::kInvalidArgument);
        CHECK(error.message().find("with these input sizes") != std::string::npos);
      }
    }
    CHECK(status_of(*session, good) == Status::kOk);
  };
  const Tensor four = Tensor::of<float>({1, 2, 3, 4});
  // A rank that the model leaves open.
  blamed("graph g(%x: f32[*]) -> (%y) { %y = Transpose(%x) {perm = [1, 0]} }",
         {Tensor(DType::kF32, {2, 3})}, {Tensor(DType::kF32, {2, 3, 1})});
  // Behind sizes that the run finds out.
  blamed(R"(graph g(%x: f32[4]) -> (%y) {
  const %w: f32[4, 2] = splat 1
  %n = NonZero(%x)
  %f = Cast(%n) {to = 1}
  %y = MatMul(%f, %w)
})",
         {four}, {Tensor::of<float>({1, 0, 3, 4})});
  // In a step that waits for its operands.
  blamed(R"(graph g(%s: seq(f32[*]), %i: i64[], %x: f32[2]) -> (%y) {
  %e = SequenceAt(%s, %i)
  %y = Add(%e, %x)
})",
         {make_sequence({Tensor::of<float>({1, 2})}), Tensor::scalar<int64_t>(0),
          Tensor::of<float>({1, 2})},
         {make_sequence({Tensor::of<float>({1, 2, 3})}), Tensor::scalar<int64_t>(0),
          Tensor::of<float>({1, 2})});
}

TEST_CASE("runtime/sizes: sizes that cannot be computed are told of the node that has them") {
  const auto refused = [](const char* graph, const std::vector<Tensor>& inputs) {
    try {
      run(*session_of(graph), inputs);
    } catch (const Error& error) {
      CHECK(error.status() == Status::kInvalidArgument);
      return error.where();
    }
    return std::string("nothing");
  };
  const auto ones = [](Dims dims) { return Tensor(DType::kF32, std::move(dims)); };
  CHECK(refused(R"(graph g(%x: f32[n], %y: f32[m]) -> (%b) {
  %b = Add(%x, %y)
})",
                {ones({2}), ones({3})}) == "node 'b' (Add)");
  CHECK(refused(R"(graph g(%x: f32[n, m]) -> (%y) {
  const %rest: i64[1] = [-1]
  const %three: i64[1] = [3]
  const %first: i64[] = 0
  const %axis: i64[1] = [0]
  %s = Shape(%x)
  %n = Gather(%s, %first)
  %v = Unsqueeze(%n, %axis)
  %shape = Concat(%rest, %three, %v) {axis = 0}
  %y = Reshape(%x, %shape)
})",
                {ones({0, 5})}) == "node 'y' (Reshape)");
}

TEST_CASE("runtime/sizes: heads of images of any size are scored as the windows give them") {
  // Windows with and without padding; heads are split off by shapes that are taken from values.
  std::string text = R"(graph g(%x: f32[B, 4, H, W]) -> (%y) {
  const %flat: i64[3] = [0, 4, -1]
  const %zero: i64[] = 0
  const %one: i64[] = 1
  const %axis: i64[1] = [0]
  const %minus: i64[1] = [-1]
  const %two: i64[1] = [2]
  %cq = MaxPool(%x) {kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]}
  %ck = MaxPool(%cq) {kernel_shape = [3, 3], strides = [4, 4]}
)";
  for (const std::string n : {"q", "k"}) {
    text += "  %r" + n + " = Reshape(%c" + n + ", %flat)\n  %t" + n + " = Transpose(%r" + n +
            ") {perm = [0, 2, 1]}\n  %s" + n + " = Shape(%t" + n + ")\n  %b" + n + " = Gather(%s" +
            n + ", %zero)\n  %n" + n + " = Gather(%s" + n + ", %one)\n  %b1" + n +
            " = Unsqueeze(%b" + n + ", %axis)\n  %n1" + n + " = Unsqueeze(%n" + n +
            ", %axis)\n  %w" + n + " = Concat(%b1" + n + ", %n1" + n +
            ", %minus, %two) {axis = 0}\n  %h" + n + " = Reshape(%t" + n + ", %w" + n + ")\n";
  }
  text += R"(  %q = Transpose(%hq) {perm = [0, 2, 1, 3]}
  %k = Transpose(%hk) {perm = [0, 2, 3, 1]}
  %y = MatMul(%q, %k)
})";
  auto session = session_of(text.c_str());
  struct Planes {
    int64_t h, w;
    std::vector<double> values;  // [image and channel, h, w]
  };
  const auto pool = [](const Planes& x, int64_t stride, int64_t pad) {
    const auto outputs = [&](int64_t n) { return (n + 2 * pad - 3) / stride + 1; };
    Planes y{outputs(x.h), outputs(x.w), {}};
    const auto count = static_cast<int64_t>(x.values.size()) / (x.h * x.w);
    for (int64_t c = 0; c < count; ++c)
      for (int64_t i = 0; i < y.h * y.w; ++i) {
        double most = -1e30;
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t r = i / y.w * stride - pad + tap / 3, s = i % y.w * stride - pad + tap % 3;
          if (r >= 0 && r < x.h && s >= 0 && s < x.w)
            most = std::max(most, x.values[static_cast<size_t>((c * x.h + r) * x.w + s)]);
        }
        y.values.push_back(most);
      }
    return y;
  };
  for (const Dims& dims : {Dims{1, 4, 16, 9}, Dims{2, 4, 7, 22}}) {
    const Tensor x = ramp(dims, 1, 0.3);
    const Planes q = pool({dims[2], dims[3], x.to_doubles()}, 2, 1), k = pool(q, 4, 0);
    const int64_t queries = q.h * q.w, keys = k.h * k.w;
    const Tensor y = run(*session, {x})[0];
    CHECK(y.dims() == Dims{dims[0], 2, queries, keys});
    double worst = 0;
    for (int64_t i = 0; i < y.count(); ++i) {
      const int64_t head = i / (queries * keys), query = i / keys % queries, key = i % keys;
      double want = 0;
      for (int64_t c = 2 * head; c < 2 * head + 2; ++c)
        want += q.values[static_cast<size_t>(c * queries + query)] *
                k.values[static_cast<size_t>(c * keys + key)];
      worst = std::max(worst, std::fabs(want - static_cast<double>(y.as<float>()[i])));
    }
    CHECK(worst < 1e-5);
  }
}
