// Ifs that sizes or small integer inputs decide: a program for each outcome, without the Ifs.
// Expected values by hand, from the operators' definitions.
// Labels: tsan
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "runtime/program.h"
#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const std::string& text, JitMode mode = JitMode::kOff) {
  return testing::session_of(text, config_in(mode));
}

/// Control-flow steps in the plans of the variants.
size_t ifs_left(Session& session) {
  size_t out = 0;
  for (const auto& variant : session.program().variants())
    for (const auto& step : variant->base_plan()->steps)
      out += step->kind == Step::Kind::kControl ? 1 : 0;
  return out;
}

Tensor counting(Dims dims) {
  Tensor out(DType::kF32, std::move(dims));
  for (int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(i);
  return out;
}

/// A row alone loses its axis; the sum over the first axis that is left.
constexpr const char* kRanks = R"(graph g(%x: f32[n, m]) -> (%y) {
  const %zero: i64[] = 0
  const %one: i64[] = 1
  const %axes: i64[1] = [0]
  %shape = Shape(%x)
  %rows = Gather(%shape, %zero)
  %alone = Equal(%rows, %one)
  %z = If(%alone, %x, %axes) {} captures 2 (
    graph then(%x: f32[n, m], %axes: i64[1]) -> (%r) { %r = Squeeze(%x, %axes) },
    graph else(%x: f32[n, m], %axes: i64[1]) -> (%r) { %r = Identity(%x) })
  %y = ReduceSum(%z, %axes) {keepdims = 0}
})";

/// Twice x at 16000, x and itself at other rates.
constexpr const char* kRate = R"(graph g(%x: f32[n], %rate: i64[]) -> (%y) {
  const %wide: i64[] = 16000
  %is = Equal(%rate, %wide)
  %z = If(%is, %x) {} captures 1 (
    graph then(%x: f32[n]) -> (%r) { %r = Add(%x, %x) },
    graph else(%x: f32[n]) -> (%r) { %r = Concat(%x, %x) {axis = 0} })
  %y = Neg(%z)
})";

}  // namespace

TEST_CASE("runtime/branch_choice: outcomes that follow from sizes alternate") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kAuto, JitMode::kSync}) {
    auto session = session_of(kRanks, mode);
    for (int k = 0; k < 4; ++k) {
      const Tensor sum = run(*session, {counting({1, 4})})[0];
      CHECK(sum.rank() == 0);
      CHECK(sum.to_doubles() == std::vector<double>{6});
      const Tensor sums = run(*session, {counting({2 + k, 2})})[0];
      CHECK(sums.dims() == Dims{2});
      const double rows = 2 + k;
      CHECK(sums.to_doubles() == std::vector<double>{rows * (rows - 1), rows * rows});
    }
    CHECK(session->program().variants().size() == 2);
    CHECK(ifs_left(*session) == 0);
    CHECK(session->counters().runs == 8);
    CHECK(session->counters().signatures == 5);
    CHECK(session->explain({{3, 2}}, false).find("else") != std::string::npos);
    CHECK(session->explain({{1, 2}}, false).find("then") != std::string::npos);
  }
}

TEST_CASE("runtime/branch_choice: a scalar input decides, whatever number it is") {
  auto session = session_of(kRate);
  const Tensor x = Tensor::of<float>({1, 2});
  for (int k = 0; k < 2; ++k) {
    for (const int64_t rate : {int64_t{8000}, int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX})
      CHECK(run(*session, {x, Tensor::scalar(rate)})[0].to_doubles() ==
            std::vector<double>{-1, -2, -1, -2});
    CHECK(run(*session, {x, Tensor::scalar<int64_t>(16000)})[0].to_doubles() ==
          std::vector<double>{-2, -4});
  }
  CHECK(session->program().variants().size() == 2);
  CHECK(ifs_left(*session) == 0);
}

TEST_CASE("runtime/branch_choice: the input of a prepared call may change its mind") {
  auto session = session_of(kRate);
  const Tensor x = Tensor::of<float>({1, 2});
  Tensor rate = Tensor::scalar<int64_t>(16000);
  const std::vector<TensorView> views{x.view(), rate.view()};
  const auto call = session->prepare(views, {});
  CHECK(call->output(0)->tensor.to_doubles() == std::vector<double>{-2, -4});
  rate.as<int64_t>()[0] = 8000;
  CHECK_THROWS_AS(call->run(), Error);  // another size than the bound output's
  rate.as<int64_t>()[0] = 16000;
  call->run();
  CHECK(call->output(0)->tensor.to_doubles() == std::vector<double>{-2, -4});
}

TEST_CASE("runtime/branch_choice: runs that may not allocate take what is there") {
  auto session = session_of(kRate);
  const Tensor x = Tensor::of<float>({1, 2});
  Tensor wide = Tensor::scalar<int64_t>(16000), narrow = Tensor::scalar<int64_t>(8000);
  run(*session, {x, wide});
  RunOptions options;
  options.no_alloc = true;
  const auto status = [&](const Tensor& rate) {
    std::vector<xc_tensor*> slots(1, nullptr);
    const std::vector<TensorView> views{x.view(), rate.view()};
    try {
      session->run(views, slots, options);
    } catch (const Error& error) {
      return error.status();
    }
    CHECK(slots[0]->tensor.to_doubles() == std::vector<double>{-2, -4});
    slots[0]->release();
    return Status::kOk;
  };
  CHECK(status(wide) == Status::kOk);
  CHECK(status(narrow) == Status::kLimit);
  CHECK(status(wide) == Status::kOk);
}

TEST_CASE("runtime/branch_choice: Ifs in branches and behind Ifs are decided in turn") {
  // Rank 2 or 1 behind the first; the second asks for that rank, the one inside for the length.
  auto session = session_of(R"(graph g(%x: f32[n, m], %flat: bool[]) -> (%y) {
  const %all: i64[1] = [-1]
  const %two: i64[] = 2
  const %axis: i64[1] = [0]
  %z = If(%flat, %x, %all) {} captures 2 (
    graph then(%x: f32[n, m], %all: i64[1]) -> (%r) { %r = Reshape(%x, %all) },
    graph else(%x: f32[n, m], %all: i64[1]) -> (%r) { %r = Transpose(%x) {perm = [1, 0]} })
  %zs = Shape(%z)
  %rank = Size(%zs)
  %is = Equal(%rank, %two)
  %same = Not(%is)
  %w = If(%same, %z, %axis, %two) {} captures 3 (
    graph then(%z: f32[*], %axis: i64[1], %two: i64[]) -> (%r) {
      %count = Size(%z)
      %few = LessOrEqual(%count, %two)
      %r = If(%few, %z, %axis) {} captures 2 (
        graph then(%z: f32[*], %axis: i64[1]) -> (%r) { %r = Neg(%z) },
        graph else(%z: f32[*], %axis: i64[1]) -> (%r) { %r = Unsqueeze(%z, %axis) })
    },
    graph else(%z: f32[*], %axis: i64[1], %two: i64[]) -> (%r) { %r = Identity(%z) })
  %y = Add(%w, %w)
})");
  const Tensor yes = Tensor::scalar(true), no = Tensor::scalar(false);
  for (int k = 0; k < 2; ++k) {
    const Tensor turned = run(*session, {counting({2, 2}), no})[0];
    CHECK(turned.dims() == Dims{2, 2});
    CHECK(turned.to_doubles() == std::vector<double>{0, 4, 2, 6});
    const Tensor few = run(*session, {counting({1, 2}), yes})[0];
    CHECK(few.dims() == Dims{2});
    CHECK(few.to_doubles() == std::vector<double>{0, -2});
    const Tensor many = run(*session, {counting({2, 2}), yes})[0];
    CHECK(many.dims() == Dims{1, 4});
    CHECK(many.to_doubles() == std::vector<double>{0, 2, 4, 6});
  }
  CHECK(session->program().variants().size() == 3);
  CHECK(ifs_left(*session) == 0);
}

TEST_CASE(
    "runtime/branch_choice: what data decides stays an If, and so does what leaves no size open") {
  for (const char* text : {R"(graph g(%x: f32[n], %c: i64[]) -> (%y) {
  const %zero: f32[] = 0
  %sum = ReduceSum(%x) {keepdims = 0}
  %is = Greater(%sum, %zero)
  %y = If(%is, %x) {} captures 1 (
    graph then(%x: f32[n]) -> (%r) { %r = Neg(%x) },
    graph else(%x: f32[n]) -> (%r) { %r = Concat(%x, %x) {axis = 0} })
})",
                           R"(graph g(%x: f32[n], %c: i64[]) -> (%y) {
  const %zero: i64[] = 0
  %is = Greater(%c, %zero)
  %y = If(%is, %x) {} captures 1 (
    graph then(%x: f32[n]) -> (%r) { %r = Neg(%x) },
    graph else(%x: f32[n]) -> (%r) { %r = Add(%x, %x) })
})"}) {
    auto session = session_of(text);
    CHECK(run(*session, {Tensor::of<float>({1, 2}), Tensor::scalar<int64_t>(1)})[0].to_doubles() ==
          std::vector<double>{-1, -2});
    CHECK(session->program().variants().empty());
  }
}

TEST_CASE("runtime/branch_choice: more outcomes alternate than programs are kept") {
  std::string text = "graph g(%x: f32[n], %c: bool[4]) -> (%z4) {\n  %z0 = Identity(%x)\n";
  for (int k = 0; k < 4; ++k)
    text += fmt::format(R"(  const %i{0}: i64[] = {0}
  %c{0} = Gather(%c, %i{0})
  %z{1} = If(%c{0}, %z{0}) {{}} captures 1 (
    graph then(%z: f32[*]) -> (%r) {{ %r = Concat(%z, %z) {{axis = 0}} }},
    graph else(%z: f32[*]) -> (%r) {{ %r = Neg(%z) }})
)",
                        k, k + 1);
  auto session = session_of(text + "}");
  int64_t runs = 0;
  for (int round = 0; round < 2; ++round)
    for (int bits = 0; bits < 16; ++bits) {
      Tensor c(DType::kBool, {4});
      int doubled = 0;
      for (int k = 0; k < 4; ++k) {
        c.as<bool>()[k] = (bits >> k & 1) != 0;
        doubled += bits >> k & 1;
      }
      const double value = doubled % 2 == 0 ? 3 : -3;  // four less those negate
      CHECK(run(*session, {Tensor::of<float>({3}), c})[0].to_doubles() ==
            std::vector<double>(size_t{1} << doubled, value));
      CHECK(session->counters().runs == ++runs);
      CHECK(session->program().variants().size() <= 8);
    }
  CHECK(session->program().variants().size() == 8);
}

TEST_CASE("runtime/branch_choice: a branch that fits no size and is not taken does no harm") {
  // Behind the first If a matrix is there or a line, the second takes it by data.
  auto session = session_of(R"(graph g(%x: f32[n, m], %line: bool[]) -> (%y) {
  const %all: i64[1] = [-1]
  const %zero: f32[] = 0
  %z = If(%line, %x, %all) {} captures 2 (
    graph then(%x: f32[n, m], %all: i64[1]) -> (%r) { %r = Reshape(%x, %all) },
    graph else(%x: f32[n, m], %all: i64[1]) -> (%r) { %r = Identity(%x) })
  %sum = ReduceSum(%x) {keepdims = 0}
  %is = Less(%sum, %zero)
  %y = If(%is, %z) {} captures 1 (
    graph then(%z: f32[*]) -> (%r) { %r = Transpose(%z) {perm = [1, 0]} },
    graph else(%z: f32[*]) -> (%r) { %r = Neg(%z) })
})");
  const Tensor x = counting({1, 3});
  for (int k = 0; k < 2; ++k) {
    const Tensor line = run(*session, {x, Tensor::scalar(true)})[0];
    CHECK(line.dims() == Dims{3});
    CHECK(line.to_doubles() == std::vector<double>{0, -1, -2});
    CHECK(run(*session, {x, Tensor::scalar(false)})[0].dims() == Dims{1, 3});
  }
  CHECK(session->program().variants().size() == 2);
}

TEST_CASE("runtime/branch_choice: of a division by zero no outcome follows, the run tells") {
  auto session = session_of(R"(graph g(%x: f32[n], %parts: i64[1]) -> (%y) {
  const %one: i64[] = 1
  const %two: i64[] = 2
  const %rest: i64[1] = [-1]
  %wanted = Concat(%parts, %rest) {axis = 0}
  %rows = Reshape(%x, %wanted) {allowzero = 1}
  %shape = Shape(%rows)
  %share = Gather(%shape, %one)
  %few = Less(%share, %two)
  %z = If(%few, %x) {} captures 1 (
    graph then(%x: f32[n]) -> (%r) { %r = Concat(%x, %x) {axis = 0} },
    graph else(%x: f32[n]) -> (%r) { %r = Neg(%x) })
  %y = Abs(%z)
})");
  const OpenBranches branches(*session->model().graph());
  const auto follows = [&](int64_t parts) {
    const Tensor x = counting({6}), number = Tensor::of<int64_t>({parts});
    const std::vector<TensorView> views{x.view(), number.view()};
    return branches.any_follows(views);
  };
  CHECK(follows(2));
  CHECK(follows(6));
  CHECK_FALSE(follows(0));
  for (int k = 0; k < 2; ++k) {
    CHECK(run(*session, {counting({6}), Tensor::of<int64_t>({6})})[0].count() == 12);
    CHECK(status_of(*session, {counting({6}), Tensor::of<int64_t>({0})}) != Status::kOk);
  }
  CHECK(session->program().variants().size() == 1);
}

TEST_CASE("runtime/branch_choice: threads bring outcomes at once") {
  auto session = session_of(kRate, JitMode::kAuto);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const Tensor x = Tensor::of<float>({1, 2});
      for (int k = 0; k < 50; ++k) {
        const bool wide = (k + t) % 2 == 0;
        const Tensor y = run(*session, {x, Tensor::scalar<int64_t>(wide ? 16000 : 8000)})[0];
        wrong += y.to_doubles() !=
                 (wide ? std::vector<double>{-2, -4} : std::vector<double>{-1, -2, -1, -2});
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(session->program().variants().size() == 2);
  CHECK(session->counters().runs == 150);
}
