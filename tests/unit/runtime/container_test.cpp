// Sequences and optionals through whole sessions, and memory that a step hands on.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/containers.h"
#include "runtime/session.h"
#include "support/sessions.h"
#include "tier/engine_factory.h"

using namespace xc;
using namespace xc::testing;

namespace {

std::shared_ptr<Session> session_of(const char* text) {
  Config config;
  config.set_jit(JitMode::kOff);
  config.poison_arena = 1;
  return testing::session_of(text, config);
}

const Tensor kOne = Tensor::of<float>({1, 2}), kTwo = Tensor::of<float>({3, 4, 5});

}  // namespace

TEST_CASE("runtime/container: a sequence goes in, grows in a loop and comes out") {
  auto session = session_of(R"(graph g(%s: seq(f32[*]), %n: i64[]) -> (%out, %count) {
  const %go: bool[] = true
  %out = Loop(%n, %go, %s) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %t: seq(f32[*])) -> (%c, %u) {
      const %zero: i64[] = 0
      %first = SequenceAt(%t, %zero)
      %double = Add(%first, %first)
      %u = SequenceInsert(%t, %double, %zero)
    })
  %count = SequenceLength(%out)
})");
  const auto out = run(*session, {make_sequence({kOne, kTwo}), Tensor::scalar<int64_t>(2)});
  const auto elements = elements_of(out[0]);
  REQUIRE(elements.size() == 4);
  CHECK(elements[0].to_doubles() == std::vector<double>{4, 8});
  CHECK(elements[1].to_doubles() == std::vector<double>{2, 4});
  CHECK(elements[3].to_doubles() == std::vector<double>{3, 4, 5});
  CHECK(out[1].to_int64s() == std::vector<int64_t>{4});
}

TEST_CASE("runtime/container: a sequence that grows shares memory, and stays as it is") {
  const Tensor one = make_sequence({kOne}), two = appended(one, kTwo), three = appended(two, kOne),
               other = appended(two, kTwo);
  CHECK(elements_of(three).data() == elements_of(two).data());
  CHECK(elements_of(other).data() != elements_of(two).data());  // what is behind `two` is taken
  CHECK(elements_of(one).size() == 1);
  CHECK(elements_of(two).size() == 2);
  CHECK(elements_of(three)[2].to_doubles() == kOne.to_doubles());
  CHECK(elements_of(other)[2].to_doubles() == kTwo.to_doubles());
  CHECK(elements_of(other)[1].to_doubles() == kTwo.to_doubles());

  auto session = session_of(R"(graph g(%s: seq(f32[*]), %n: i64[]) -> (%out) {
  const %go: bool[] = true
  %out = Loop(%n, %go, %s) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %t: seq(f32[*])) -> (%c, %u) {
      %place = Cast(%i) {to = 1}
      %u = SequenceInsert(%t, %place)
    })
})");
  const auto grown = [&](const Tensor& from, int64_t n) {
    return run(*session, {from, Tensor::scalar(n)})[0];
  };
  const Tensor first = grown(one, 50), second = grown(first, 3), third = grown(first, 2);
  REQUIRE(elements_of(first).size() == 51);
  REQUIRE(elements_of(second).size() == 54);
  REQUIRE(elements_of(third).size() == 53);
  for (size_t i = 0; i < 50; ++i)
    for (const Tensor& made : {first, second, third})
      CHECK(elements_of(made)[i + 1].to_doubles() == std::vector<double>{static_cast<double>(i)});
  CHECK(elements_of(second)[53].to_doubles() == std::vector<double>{2});
  CHECK(elements_of(third)[52].to_doubles() == std::vector<double>{1});
}

TEST_CASE("runtime/container: what a sequence holds is row-major, views of the run too") {
  // The exporter's spelling of the places of what is not zero.
  auto session = session_of(R"(graph g(%x: f32[a, b]) -> (%s) {
  %n = NonZero(%x)
  %t = Transpose(%n) {perm = [1, 0]}
  %s = SequenceConstruct(%t)
})");
  Tensor x(DType::kF32, {2, 3});
  std::fill_n(x.as<float>(), 6, 0.0f);
  x.as<float>()[1] = x.as<float>()[5] = 1;
  const auto out = run(*session, {x});
  const auto elements = elements_of(out[0]);
  REQUIRE(elements.size() == 1);
  CHECK(elements[0].contiguous());
  CHECK(elements[0].to_int64s() == std::vector<int64_t>{0, 1, 1, 2});
}

TEST_CASE("runtime/container: results that a run sizes share no memory with each other") {
  const Tensor x = Tensor::of<float>({0, 1, 2, 0});
  for (const std::string text : {
           "graph g(%x: f32[n]) -> (%i, %i) { %i = NonZero(%x) }",
           "graph g(%x: f32[n]) -> (%i, %k) { %i = NonZero(%x)\n %k = Identity(%i) }",
           R"(graph g(%x: f32[n]) -> (%i, %k) {
  %i = NonZero(%x)
  const %axis: i64[1] = [0]
  %k = Squeeze(%i, %axis)
})",
           R"(graph g(%x: f32[n]) -> (%s, %e) {
  const %zero: i64[] = 0
  %s = SplitToSequence(%x) {axis = 0, keepdims = 0}
  %e = SequenceAt(%s, %zero)
})",
           R"(graph g(%x: f32[n]) -> (%s, %q) {
  %s = SplitToSequence(%x) {axis = 0, keepdims = 0}
  %q = Identity(%s)
})",
           R"(graph g(%x: f32[n]) -> (%s) {
  %i = NonZero(%x)
  %s = SequenceConstruct(%i, %i)
})",
       }) {
    CAPTURE(text);
    const auto session = session_of(text.c_str());
    std::vector<xc_tensor*> slots(session->model().outputs().size(), nullptr);
    session->run(std::vector<TensorView>{x.view()}, slots, {});
    std::vector<Tensor> all;
    for (const xc_tensor* slot : slots)
      if (slot->tensor.dtype() == DType::kTensor)
        for (const Tensor& element : elements_of(slot->tensor)) all.push_back(element);
      else
        all.push_back(slot->tensor);
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = 0; k < i; ++k) CHECK(all[i].data() != all[k].data());
    for (xc_tensor* slot : slots) slot->release();
  }
}

TEST_CASE("runtime/container: results of one run may be written by the next") {
  auto session = session_of("graph g(%x: f32[n]) -> (%i, %k) { %i = NonZero(%x)\n %k = Neg(%i) }");
  auto twice = session_of("graph g(%x: f32[n]) -> (%i, %i) { %i = NonZero(%x) }");
  const Tensor x = Tensor::of<float>({0, 1, 2, 0});
  for (Session* each : {session.get(), twice.get()}) {
    std::vector<xc_tensor*> slots(2, nullptr);
    const std::vector<TensorView> inputs{x.view()};
    each->run(inputs, slots, {});
    each->run(inputs, slots, {});
    CHECK(slots[0]->tensor.to_int64s() == std::vector<int64_t>{1, 2});
    for (xc_tensor* slot : slots) slot->release();
  }
}

TEST_CASE("runtime/container: what is no sequence of the declared type is refused") {
  auto session = session_of("graph g(%s: seq(f32[*])) -> (%n) { %n = SequenceLength(%s) }");
  CHECK(status_of(*session, {make_sequence({})}) == Status::kOk);
  CHECK(status_of(*session, {kOne}) == Status::kInvalidArgument);
  CHECK(status_of(*session, {Tensor()}) == Status::kInvalidArgument);
  CHECK(status_of(*session, {make_sequence({Tensor::of<int64_t>({1})})}) ==
        Status::kInvalidArgument);
  CHECK(status_of(*session, {make_sequence({Tensor()})}) == Status::kInvalidArgument);
  CHECK(status_of(*session, {make_sequence({make_sequence({})})}) == Status::kInvalidArgument);
}

TEST_CASE("runtime/container: elements of a sequence cut from a value of open rank have any") {
  // Squeeze without axes: the rank depends on n. onnxruntime's results.
  auto squeezed = session_of(R"(graph g(%x: i64[n, 2, 1, 2]) -> (%y) {
  const %last: i64[] = -1
  %q = Squeeze(%x)
  %s = SplitToSequence(%q) {axis = 1, keepdims = 0}
  %y = SequenceAt(%s, %last)
})");
  const auto y = run(*squeezed, {Tensor::of<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {2, 2, 1, 2})})[0];
  CHECK(y.dims() == Dims{2, 2});
  CHECK(y.to_int64s() == std::vector<int64_t>{2, 3, 6, 7});
  auto reshaped = session_of(R"(graph g(%x: i64[n], %shape: i64[r]) -> (%y) {
  const %last: i64[] = -1
  %q = Reshape(%x, %shape)
  %s = SplitToSequence(%q) {axis = 0, keepdims = 0}
  %y = SequenceAt(%s, %last)
})");
  const Tensor x = Tensor::of<int64_t>({0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(run(*reshaped, {x, Tensor::of<int64_t>({2, 2, 2})})[0].dims() == Dims{2, 2});
  CHECK(run(*reshaped, {x, Tensor::of<int64_t>({2, 4})})[0].to_int64s() ==
        std::vector<int64_t>{4, 5, 6, 7});
}

TEST_CASE("runtime/container: places outside of a sequence are refused") {
  auto at = session_of("graph g(%s: seq(f32[*]), %i: i64[]) -> (%y) { %y = SequenceAt(%s, %i) }");
  auto insert = session_of(R"(graph g(%s: seq(f32[*]), %i: i64[], %x: f32[n]) -> (%t) {
  %t = SequenceInsert(%s, %x, %i)
})");
  const Tensor s = make_sequence({kOne, kTwo});
  for (const int64_t i : {-3, -2, -1, 0, 1, 2, 3}) {
    CAPTURE(i);
    CHECK((status_of(*at, {s, Tensor::scalar(i)}) == Status::kOk) == (i >= -2 && i < 2));
    CHECK((status_of(*insert, {s, Tensor::scalar(i), kOne}) == Status::kOk) == (i >= -2 && i <= 2));
  }
}

TEST_CASE("runtime/container: an optional is its value or nothing") {
  auto session = session_of(R"(graph g(%o: opt(f32[*]), %x: f32[n]) -> (%has, %y) {
  %has = OptionalHasElement(%o)
  %y = If(%has, %o, %x) {} captures 2 (
    graph then(%o: opt(f32[*]), %x: f32[n]) -> (%r) { %r = OptionalGetElement(%o) },
    graph else(%o: opt(f32[*]), %x: f32[n]) -> (%r) { %r = Identity(%x) })
})");
  auto out = run(*session, {kTwo, kOne});
  CHECK(out[0].to_int64s() == std::vector<int64_t>{1});
  CHECK(out[1].to_doubles() == std::vector<double>{3, 4, 5});
  out = run(*session, {Tensor(), kOne});
  CHECK(out[0].to_int64s() == std::vector<int64_t>{0});
  CHECK(out[1].to_doubles() == std::vector<double>{1, 2});
  auto get = session_of("graph g(%o: opt(f32[*])) -> (%y) { %y = OptionalGetElement(%o) }");
  CHECK(status_of(*get, {Tensor()}) == Status::kRange);
}

TEST_CASE(
    "runtime/container: an optional is read as an object, whatever else is copied for a run") {
  auto add = session_of(R"(graph g(%o: opt(f32[*]), %x: f32[n, m]) -> (%y) {
  %value = OptionalGetElement(%o)
  %y = Add(%value, %x)
})");
  const Tensor rows = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor columns(rows.buffer(), 0, DType::kF32, {3, 2}, {1, 3});
  CHECK(run(*add, {columns, columns})[0].to_doubles() == std::vector<double>{2, 8, 4, 10, 6, 12});
  auto get = session_of("graph g(%o: opt(f32[*])) -> (%y) { %y = OptionalGetElement(%o) }");
  int64_t shared = 0;
  CHECK_THROWS_WITH_AS(run_in_memory_of_inputs(*get, {kOne}, {kOne}, &shared),
                       doctest::Contains("give the output other memory"), Error);
}

TEST_CASE("runtime/container: elements stay when the memory they were made in is used again") {
  auto session = session_of(R"(graph g(%x: f32[4]) -> (%s, %z) {
  %a = Exp(%x)
  %s = SequenceConstruct(%a, %x)
  %b = Transpose(%x)
  %c = MatMul(%b, %x)
  %z = Add(%c, %b)
})");
  const Tensor x = Tensor::of<float>({0, 0, 0, 0});
  const auto first = run(*session, {x});
  run(*session, {Tensor::of<float>({1, 1, 1, 1})});
  CHECK(elements_of(first[0])[0].to_doubles() == std::vector<double>{1, 1, 1, 1});
  CHECK(elements_of(first[0])[1].to_doubles() == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("runtime/container: a loop without iterations gives its state, not memory of others") {
  auto session = session_of(R"(graph g(%n: i64[], %x: f32[64]) -> (%last, %z) {
  const %go: bool[] = true
  %a = Softmax(%x)
  %last = Loop(%n, %go, %a) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[64]) -> (%c, %t) { %t = Add(%s, %s) })
  %b = CumSum(%x, %n)
  %d = Softmax(%b)
  %z = CumSum(%d, %n)
})");
  const Tensor x = Tensor(DType::kF32, {64});
  std::fill_n(x.as<float>(), 64, 1.0f);
  const auto out = run(*session, {Tensor::scalar<int64_t>(0), x});
  CHECK(out[0].to_doubles() == std::vector<double>(64, 1.0 / 64));
}

TEST_CASE("runtime/container: a view of what a body gave keeps its dims and its strides") {
  auto session = session_of(R"(graph g(%c: bool[], %x: f32[2, 2]) -> (%t, %r) {
  const %shape: i64[1] = [4]
  %y = If(%c, %x) {} captures 1 (
    graph then(%x: f32[2, 2]) -> (%r) { %r = Neg(%x) },
    graph else(%x: f32[2, 2]) -> (%r) { %r = Exp(%x) })
  %t = Transpose(%y)
  %r = Reshape(%y, %shape)
})");
  const auto out = run(*session, {Tensor::scalar(true), Tensor::of<float>({1, 2, 3, 4}, {2, 2})});
  CHECK(out[0].to_doubles() == std::vector<double>{-1, -3, -2, -4});
  CHECK(out[1].dims() == Dims{4});
  CHECK(out[1].to_doubles() == std::vector<double>{-1, -2, -3, -4});
}
