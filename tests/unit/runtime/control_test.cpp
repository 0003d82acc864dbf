// Control flow, sizes that depend on values, views, and errors, through whole sessions.
#include <doctest/doctest.h>

#include "base/background_thread.h"
#include "ir/text.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "support/sessions.h"
#include "tier/engine_factory.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const char* text) {
  Config config;
  config.set_jit(JitMode::kOff);
  return testing::session_of(text, config);
}

}  // namespace

TEST_CASE("runtime/control: If runs the branch its condition names") {
  auto session = session_of(R"(graph g(%c: bool[], %x: f32[n]) -> (%y) {
  %y = If(%c, %x) {} captures 1 (
    graph then(%x: f32[n]) -> (%r) { %r = Neg(%x) },
    graph else(%x: f32[n]) -> (%r) { %r = Concat(%x, %x) {axis = 0} })
})");
  const Tensor x = Tensor::of<float>({1, 2, 3});
  CHECK(run(*session, {Tensor::scalar(true), x})[0].to_doubles() ==
        std::vector<double>{-1, -2, -3});
  CHECK(run(*session, {Tensor::scalar(false), x})[0].to_doubles() ==
        std::vector<double>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("runtime/control: 30000 Ifs in a row take no quadratic time") {
  constexpr int kIfs = 30000;
  std::string text = fmt::format("graph g(%b: bool[], %x0: f32[n]) -> (%x{}) {{\n", kIfs);
  for (int i = 0; i < kIfs; ++i)
    text += fmt::format(R"(  %x{} = If(%b, %x{}) {{}} captures 1 (
    graph then(%x: f32[n]) -> (%r) {{ %r = Neg(%x) }},
    graph else(%x: f32[n]) -> (%r) {{ %r = Abs(%x) }})
)",
                        i + 1, i);
  auto session = session_of((text + "}").c_str());
  const std::vector<Tensor> inputs{Tensor::scalar(true), Tensor::of<float>({1, -2})};
  run(*session, inputs);
  const double begin = thread_cpu_seconds();
  CHECK(run(*session, inputs)[0].to_doubles() == std::vector<double>{1, -2});
  CHECK(session->explain({}, false).size() > kIfs);
  session.reset();
  const double spent = thread_cpu_seconds() - begin;
  CHECK(spent < 8);
  MESSAGE("30000 Ifs: " << spent << " s");
}

TEST_CASE("runtime/control: a branch for another rank, which is never taken, does no harm") {
  const std::string branches = R"(
  %y = If(%is, %x) {} captures 1 (
    graph then(%x: f32[*]) -> (%r) {
      const %three: i64[] = 3
      const %order: i64[3] = [0, 2, 1]
      %s = Shape(%x)
      %size = Gather(%s, %three)
      %f = Cast(%size) {to = 1}
      %t = Transpose(%x) {perm = [0, 1, 3, 2]}
      %r = Mul(%t, %f)
    },
    graph else(%x: f32[*]) -> (%r) { %r = Neg(%x) })
})";
  const std::string test = R"(
  const %four: i64[] = 4
  %shape = Shape(%x)
  %rank = Size(%shape)
  %is = Equal(%rank, %four))";
  for (const std::string& text :
       {"graph g(%x: f32[n, 2]) -> (%y) {" + test + branches,
        "graph g(%x: f32[*]) -> (%y) {" + test + branches,
        "graph g(%x: f32[n, 2]) -> (%y) {\n const %is: bool[] = false" + branches}) {
    CAPTURE(text);
    auto session = session_of(text.c_str());
    CHECK(run(*session, {Tensor::of<float>({1, 2}, {1, 2})})[0].to_doubles() ==
          std::vector<double>{-1, -2});
  }
}

TEST_CASE("runtime/control: a branch that cannot fit fails where it is taken, not before") {
  for (const char* node :
       {"%r = Reshape(%x, %sizes)", "%r = Gather(%x, %sizes) {axis = 3}",
        "%r = Transpose(%x) {perm = [0, 2, 1]}", "%r = Add(%x, %seven)", "%r = MatMul(%x, %seven)",
        "%a = Relu(%x)\n %r = Squeeze(%a, %two)", "%r = Concat(%x, %seven) {axis = 0}"}) {
    std::string misfit = R"(graph wrong(%x: f32[*]) -> (%r) {
      const %sizes: i64[2] = [5, 7]
      const %seven: f32[7] = [1, 2, 3, 4, 5, 6, 7]
      const %two: i64[1] = [2]
      )";
    misfit += node;
    misfit += "}";
    const std::string fit = "graph right(%x: f32[*]) -> (%r) { %r = Neg(%x) }";
    for (const bool first : {true, false}) {
      const std::string text = "graph g(%is: bool[], %x: f32[1, 2]) -> (%y) { %b = Exp(%x)\n" +
                               ("%v = If(%is, %b) {} captures 1 (" + (first ? misfit : fit)) + "," +
                               (first ? fit : misfit) + ")\n %y = Abs(%v) }";
      CAPTURE(text);
      auto session = session_of(text.c_str());
      const Tensor x = Tensor::of<float>({0, 0}, {1, 2});
      for (int round = 0; round < 2; ++round) {
        CHECK(run(*session, {Tensor::scalar(!first), x})[0].to_doubles() ==
              std::vector<double>{1, 1});
        CHECK_THROWS_AS(run(*session, {Tensor::scalar(first), x}), Error);
      }
    }
  }
  // Neither fits: so the model is wrong.
  CHECK_THROWS_AS(session_of(R"(graph g(%is: bool[], %x: f32[1, 2]) -> (%y) {
  %y = If(%is, %x) {} captures 1 (
    graph then(%x: f32[*]) -> (%r) { %r = Transpose(%x) {perm = [0, 2, 1]} },
    graph else(%x: f32[*]) -> (%r) { %r = Transpose(%x) {perm = [0, 1, 2]} })
})"),
                  Error);
}

TEST_CASE("runtime/control: Loop carries state and stacks what each iteration yields") {
  auto session = session_of(R"(graph g(%m: i64[], %x: f32[2]) -> (%last, %all) {
  const %go: bool[] = true
  %last, %all = Loop(%m, %go, %x) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[2]) -> (%c, %t, %t) { %t = Add(%s, %s) })
})");
  const auto out = run(*session, {Tensor::scalar<int64_t>(3), Tensor::of<float>({1, 10})});
  CHECK(out[0].to_doubles() == std::vector<double>{8, 80});
  CHECK(out[1].dims() == Dims{3, 2});
  CHECK(out[1].to_doubles() == std::vector<double>{2, 20, 4, 40, 8, 80});
}

TEST_CASE("runtime/control: a Loop of nothing but its number counts") {
  auto session = session_of(R"(graph g(%m: i64[]) -> (%all) {
  %all = Loop(%m, _) {} captures 0 (
    graph body(%i: i64[], %c: bool[]) -> (%c, %t) { %t = Neg(%i) })
})");
  CHECK(run(*session, {Tensor::scalar<int64_t>(3)})[0].to_int64s() ==
        std::vector<int64_t>{0, -1, -2});
}

TEST_CASE("runtime/control: the axis of a scan output whose rank only the run tells") {
  const auto scan = [](int64_t axis) {
    return session_of(fmt::format(R"(graph g(%xs: f32[t, 4], %shape: i64[r]) -> (%y) {{
  %y = Scan(%xs, %shape) {{num_scan_inputs = 1, scan_output_axes = [{}]}} captures 1 (
    graph body(%x: f32[4], %shape: i64[r]) -> (%out) {{ %out = Reshape(%x, %shape) }})
}})",
                                  axis)
                          .c_str());
  };
  const Tensor xs = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4});
  const Tensor square = Tensor::of<int64_t>({2, 2}), line = Tensor::of<int64_t>({4});
  const Tensor y = run(*scan(2), {xs, square})[0];
  CHECK(y.dims() == Dims{2, 2, 3});
  CHECK(y.to_doubles() == std::vector<double>{1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12});
  for (const int64_t axis : {2, -3}) {
    CHECK_THROWS_WITH_AS(run(*scan(axis), {xs, line}), doctest::Contains("has no axis"), Error);
  }
}

TEST_CASE("runtime/control: Scan over what has any rank takes no rank for granted") {
  auto session = session_of(R"(graph g(%xs: f32[*], %row: f32[1, 2]) -> (%shapes) {
  %shapes = Scan(%xs, %row) {num_scan_inputs = 1} captures 1 (
    graph body(%x: f32[*], %row: f32[1, 2]) -> (%shape) {
      %sum = Add(%x, %row)
      %shape = Shape(%sum)
    })
})");
  const Tensor row = Tensor::of<float>({1, 2}, {1, 2});
  const auto shapes = [&](Dims dims) {
    return run(*session, {Tensor(DType::kF32, std::move(dims)), row})[0].to_int64s();
  };
  CHECK(shapes({2, 3, 2}) == std::vector<int64_t>{3, 2, 3, 2});
  CHECK(shapes({1, 4, 5, 2}) == std::vector<int64_t>{4, 5, 2});
  CHECK(shapes({2}) == std::vector<int64_t>{1, 2, 1, 2});
}

TEST_CASE("runtime/control: what no iteration stacked has the dims that the model declares") {
  // Loop-13: a scan output of no iteration is empty; its other dims the body's type tells.
  auto session = session_of(R"(graph g(%m: i64[], %axes: i64[k], %x: f32[2, 3]) -> (%y) {
  const %true: bool[] = true
  %go: bool[] = Identity(%true)
  %all: f32[trips, 3] = Loop(%m, %go, %axes, %x) {} captures 2 (
    graph body(%i: i64[], %c: bool[], %axes: i64[k], %x: f32[2, 3]) -> (%c, %sum) {
      %sum = ReduceSum(%x, %axes) {keepdims = 0}
    })
  %y = Relu(%all)
})");
  const Tensor axes = Tensor::of<int64_t>({0});
  const Tensor x = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(run(*session, {Tensor::scalar<int64_t>(1), axes, x})[0].dims() == Dims{1, 3});
  CHECK(run(*session, {Tensor::scalar<int64_t>(0), axes, x})[0].dims() == Dims{0, 3});
}

TEST_CASE("runtime/control: a Loop's body gets the number and the condition as it declares them") {
  // What exporters write: vectors of one element. Gather keeps their rank.
  auto session = session_of(R"(graph g(%m: i64[], %x: f32[4]) -> (%last, %all) {
  const %go: bool[] = true
  %last, %all = Loop(%m, %go, %x) {} captures 0 (
    graph body(%i: i64[1], %c: bool[1], %s: f32[4]) -> (%more, %t, %one) {
      %more = Identity(%c)
      const %axis: i64[1] = [0]
      %one = Gather(%s, %i)
      %both = Concat(%i, %i) {axis = 0}
      %two = Gather(%s, %both)
      %sum = ReduceSum(%two, %axis) {keepdims = 1}
      %t = Add(%s, %sum) })
})");
  const auto out = run(*session, {Tensor::scalar<int64_t>(3), Tensor::of<float>({1, 2, 3, 4})});
  // Sums: 2 x 1, 2 x 4, 2 x 13.
  CHECK(out[0].to_doubles() == std::vector<double>{37, 38, 39, 40});
  CHECK(out[1].dims() == Dims{3, 1});
  CHECK(out[1].to_doubles() == std::vector<double>{1, 4, 13});
}

TEST_CASE("runtime/control: what a Loop gathers by a number of rank 1 keeps its axis") {
  // By a scalar it would be a Scan over the rows.
  auto session = session_of(R"(graph g(%x: f32[4, 2]) -> (%all) {
  const %m: i64[] = 4
  const %go: bool[] = true
  %all = Loop(%m, %go, %x) {} captures 1 (
    graph body(%i: i64[1], %c: bool[1], %x: f32[4, 2]) -> (%c, %one) { %one = Gather(%x, %i) })
})");
  const auto out = run(*session, {Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2})});
  CHECK(out[0].dims() == Dims{4, 1, 2});
  CHECK(out[0].to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("runtime/control: one element may be declared as a scalar, or of any rank") {
  // Converters of PaddlePaddle declare states of loops as scalars that are vectors of one element.
  for (const auto& [declared, dims] : {std::pair{"f32[]", Dims{}}, {"f32[1, 1, 1]", {1, 1, 1}}}) {
    const std::string text = fmt::format(R"(graph g(%x: f32[n], %k: i64[r]) -> (%y) {{
  %any = Reshape(%x, %k)
  %one: {} = Exp(%any)
  %y = Neg(%one)
}})",
                                         declared);
    auto session = session_of(text.c_str());
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {1, 1}}) {
      const Tensor y = run(*session, {Tensor::of<float>({0}), Tensor::of<int64_t>(shape)})[0];
      CHECK(y.dims() == dims);
      CHECK(y.to_doubles() == std::vector<double>{-1});
    }
    CHECK_THROWS_AS(run(*session, {Tensor::of<float>({0, 0}), Tensor::of<int64_t>({2})}), Error);
  }
}

TEST_CASE("runtime/control: sizes that only values tell reach the steps behind them") {
  auto session = session_of(R"(graph g(%x: f32[n]) -> (%y, %count) {
  const %zero: f32[] = 0
  %p = Greater(%x, %zero)
  %where = NonZero(%p)
  %flat = Squeeze(%where)
  %some = Gather(%x, %flat) {axis = 0}
  %y = Add(%some, %some)
  %count = Shape(%y)
})");
  const auto out = run(*session, {Tensor::of<float>({1, -1, 3, 0, 5})});
  CHECK(out[0].to_doubles() == std::vector<double>{2, 6, 10});
  CHECK(out[1].to_int64s() == std::vector<int64_t>{3});
  CHECK(run(*session, {Tensor::of<float>({-1, -1})})[0].dims() == Dims{0});
}

TEST_CASE("runtime/control: an output made before sizes that only values tell") {
  auto session = session_of(R"(graph g(%x: f32[n]) -> (%early, %where, %late) {
  %early = Exp(%x)
  %where = NonZero(%x)
  %flat = Squeeze(%where)
  %some = Gather(%x, %flat) {axis = 0}
  %late = Neg(%some)
})");
  const auto out = run(*session, {Tensor::of<float>({1, 0, 5})});
  CHECK(out[0].to_doubles()[1] == 1);
  CHECK(out[1].to_int64s() == std::vector<int64_t>{0, 2});
  CHECK(out[2].to_doubles() == std::vector<double>{-1, -5});
}

TEST_CASE("runtime/control: views cost no step") {
  auto session = session_of(R"(graph g(%x: f32[n, 6]) -> (%y) {
  const %shape: i64[3] = [0, 2, 3]
  %a = Reshape(%x, %shape)
  %b = Transpose(%a) {perm = [0, 2, 1]}
  %y = Neg(%b)
})");
  const auto out = run(*session, {Tensor::of<float>({1, 2, 3, 4, 5, 6}, {1, 6})});
  CHECK(out[0].dims() == Dims{1, 3, 2});
  CHECK(out[0].to_doubles() == std::vector<double>{-1, -4, -2, -5, -3, -6});
  CHECK(session->program().base_plan()->steps.size() == 1);
}

TEST_CASE("runtime/control: wrong inputs name the input, and the session stays usable") {
  auto session = session_of("graph g(%x: f32[n, 6], %w: f32[n, 6]) -> (%y) { %y = Add(%x, %w) }");
  const Tensor good(DType::kF32, {2, 6});
  for (const Tensor& bad : {Tensor(DType::kF32, {2, 5}), Tensor(DType::kF64, {2, 6}),
                            Tensor(DType::kF32, {2, 6, 1}), Tensor(DType::kF32, {3, 6})}) {
    try {
      run(*session, {good, bad});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.status() == Status::kInvalidArgument);
      CHECK(error.where() == "input 'w'");
    }
  }
  CHECK(run(*session, {good, good})[0].dims() == Dims{2, 6});
}

TEST_CASE("runtime/control: an index out of range is an error of that run only") {
  auto session =
      session_of("graph g(%x: f32[4], %i: i64[1]) -> (%y) { %y = Gather(%x, %i) {axis = 0} }");
  const Tensor x = Tensor::of<float>({1, 2, 3, 4});
  try {
    run(*session, {x, Tensor::of<int64_t>({9})});
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.status() == Status::kRange);
    CHECK(error.where().find("Gather") != std::string::npos);
  }
  CHECK(run(*session, {x, Tensor::of<int64_t>({2})})[0].to_doubles() == std::vector<double>{3});
}

TEST_CASE("runtime/control: sizes that turn out not to fit are refused before anything runs") {
  auto session = session_of(R"(graph g(%x: f32[n, 4], %w: f32[m, 4]) -> (%y) {
  const %start: i64[1] = [0]
  const %end: i64[1] = [3]
  const %axis: i64[1] = [0]
  %cut = Slice(%w, %start, %end, %axis)
  %y = Add(%x, %cut)
})");
  CHECK(run(*session, {Tensor(DType::kF32, {3, 4}), Tensor(DType::kF32, {9, 4})})[0].dims() ==
        Dims{3, 4});
  CHECK_THROWS_AS(run(*session, {Tensor(DType::kF32, {8, 4}), Tensor(DType::kF32, {9, 4})}), Error);
  CHECK(run(*session, {Tensor(DType::kF32, {2, 4}), Tensor(DType::kF32, {2, 4})})[0].dims() ==
        Dims{2, 4});
}
