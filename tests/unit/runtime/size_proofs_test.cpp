// Sizes that go together at some numbers only: inference has no proof of them, and a run that has
// others is refused before memory is read.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const std::string& text, JitMode mode = JitMode::kOff) {
  return testing::session_of(text, config_in(mode));
}

}  // namespace

TEST_CASE("runtime/size_proofs: what is cut to a number has that size at some lengths only") {
  // [min(n, 4)] + [4]; [min(n, 200000)] + [n]; the odd and the even positions of n, one more of
  // those in front. Each fits at some sizes, and not at the next.
  auto number = session_of(R"(graph g(%x: f32[n], %t: f32[4]) -> (%y) {
  const %b: i64[1] = [0]
  const %e: i64[1] = [4]
  %c = Slice(%x, %b, %e)
  %y = Add(%c, %t)
})");
  const auto line = [](int64_t n) { return ramp({n}, 1, 0); };
  for (const int64_t n : {4, 5, 100, 1})
    CHECK(run(*number, {line(n), line(4)})[0].dims() == Dims{4});
  for (const int64_t n : {2, 3, 0})
    CHECK(status_of(*number, {line(n), line(4)}) == Status::kInvalidArgument);

  auto length = session_of(R"(graph g(%x: f32[n], %t: f32[200000]) -> (%y) {
  const %b: i64[1] = [0]
  %s = Shape(%x)
  %c = Slice(%t, %b, %s)
  %y = Add(%c, %x)
})");
  for (const int64_t n : {0, 1, 7, 200000})
    CHECK(run(*length, {line(n), line(200000)})[0].dims() == Dims{n});
  for (const int64_t n : {200001, 300000})
    CHECK(status_of(*length, {line(n), line(200000)}) == Status::kInvalidArgument);

  for (const char* op : {"Add(%u, %d)", "InstanceNormalization(%w, %d, %d)"}) {
    CAPTURE(op);
    auto halves = session_of(fmt::format(R"(graph g(%x: f32[n]) -> (%y) {{
  const %zero: i64[1] = [0]
  const %one: i64[1] = [1]
  const %two: i64[1] = [2]
  const %end: i64[1] = [1000000]
  const %axes: i64[2] = [0, 2]
  %first = Slice(%x, %zero, %one)
  %rest = Slice(%x, %one, %end, %zero, %two)
  %u = Concat(%first, %rest) {{axis = 0}}
  %d = Slice(%x, %zero, %end, %zero, %two)
  %w = Unsqueeze(%u, %axes)
  %y = {}
}})",
                                         op));
    for (const int64_t n : {1, 5, 7}) CHECK(status_of(*halves, {line(n)}) == Status::kOk);
    for (const int64_t n : {4, 6, 40})
      CHECK(status_of(*halves, {line(n)}) == Status::kInvalidArgument);
  }

  auto expanded = session_of(R"(graph g(%x: f32[n]) -> (%y) {
  const %five: i64[1] = [5]
  %n = Shape(%x)
  %s = Min(%n, %five)
  %y = Expand(%x, %s)
})");
  for (const int64_t n : {1, 3, 5}) CHECK(run(*expanded, {line(n)})[0].dims() == Dims{n});
  for (const int64_t n : {6, 31})
    CHECK(status_of(*expanded, {line(n)}) == Status::kInvalidArgument);
}

TEST_CASE(
    "runtime/size_proofs: the operator whose sizes do not fit is named, not what is fused with "
    "it") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync}) {
    auto session = session_of(R"(graph g(%x: f32[n, 4], %s: f32[4]) -> (%y) {
  %a, %b = Split(%x) {axis = 0, num_outputs = 2}
  %m = Mul(%a, %s) {}
  %c = Add(%m, %b)
  %y = Relu(%c)
})",
                              mode);
    const Tensor factor = ramp({4}, 1, 1);
    CHECK(run(*session, {ramp({4, 4}, 1, 0), factor})[0].dims() == Dims{2, 4});
    std::string where;
    try {
      run(*session, {ramp({5, 4}, 1, 0), factor});
    } catch (const Error& error) {
      where = error.where();
    }
    CAPTURE(where);
    CHECK(where.find("(Add)") != std::string::npos);
  }
}

TEST_CASE("runtime/size_proofs: windows over sizes that are none at zero load, and run elsewhere") {
  // A reshape whose quotient of sizes has no value at a batch of 0; a sum with a crop, which at no
  // size at all would be of a negative one.
  const std::string weights = "\n  const %w: f32[2, 2, 1, 1] = [1, 0, 0, 1]\n";
  for (const char* op :
       {"Conv(%y, %w)", "MaxPool(%y) {kernel_shape = [1, 1]}",
        "AveragePool(%y) {kernel_shape = [1, 1]}", "LpPool(%y) {kernel_shape = [1, 1]}"}) {
    CAPTURE(op);
    const auto strips = session_of("graph g(%x: f32[n, 4, l]) -> (%z) {" + weights + R"(
  const %two: i64[1] = [2]
  const %four: i64[1] = [4]
  const %rest: i64[1] = [-1]
  %n = Shape(%x) {end = 1}
  %s = Concat(%n, %two, %four, %rest) {axis = 0}
  %y = Reshape(%x, %s)
  %z = )" + op + "\n}");
    CHECK(run(*strips, {ramp({3, 4, 10}, 1, 0)})[0].dims() == Dims{3, 2, 4, 5});
    CHECK(run(*strips, {ramp({1, 4, 2}, 1, 0)})[0].dims() == Dims{1, 2, 4, 1});
    CHECK(status_of(*strips, {ramp({0, 4, 2}, 1, 0)}) != Status::kInternal);

    const auto cropped = session_of("graph g(%x: f32[n, 2, h, 4]) -> (%z) {" + weights + R"(
  const %three: f32[2, 2, 3, 1] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
  const %b: i64[1] = [1]
  const %e: i64[1] = [-1]
  const %axis: i64[1] = [2]
  %c = Conv(%x, %three)
  %d = Slice(%x, %b, %e, %axis)
  %y = Add(%c, %d)
  %z = )" + op + "\n}");
    CHECK(run(*cropped, {ramp({2, 2, 7, 4}, 1, 0)})[0].dims() == Dims{2, 2, 5, 4});
    CHECK(run(*cropped, {ramp({2, 2, 3, 4}, 1, 0)})[0].dims() == Dims{2, 2, 1, 4});
    for (const int64_t h : {0, 1})
      CHECK(status_of(*cropped, {ramp({2, 2, h, 4}, 1, 0)}) == Status::kInvalidArgument);
  }
}
