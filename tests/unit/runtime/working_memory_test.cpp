// Working memory of runs: kept while runs need it, given back when they do not any more.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>

#include "ir/text.h"
#include "runtime/output_pool.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

/// Its arena is as large as its input, and its result one number.
constexpr const char* kNumber = R"(graph g(%x: f32[n, 64]) -> (%y) {
  %a = Softmax(%x)
  %b = Softmax(%a) {axis = 0}
  %y = ReduceSum(%b) {keepdims = 0}
})";

/// A session that counts what the host is asked for.
struct Fixture {
  int64_t allocations = 0;
  std::shared_ptr<Engine> engine;
  std::unique_ptr<Session> session;
  explicit Fixture(const char* text = kNumber) {
    HostHooks hooks;
    hooks.allocate = [this](size_t bytes, size_t alignment) {
      ++allocations;
      return std::aligned_alloc(alignment, bytes);
    };
    hooks.release = [](void* memory, size_t) { std::free(memory); };
    engine = std::make_shared<Engine>(config_in(JitMode::kOff), hooks, nullptr);
    session = std::make_unique<Session>(Model::create(engine, parse_graph(text)), Config{});
  }
  int64_t held() const { return engine->working_bytes(); }
};

Tensor rows(int64_t n) {
  Tensor out(DType::kF32, {n, 64});
  std::memset(out.data(), 0, static_cast<size_t>(out.byte_size()));
  return out;
}

constexpr int64_t kLarge = 1 << 14;  // rows: 4 MiB

}  // namespace

TEST_CASE("runtime/working_memory: what one large run needed is given back to small ones") {
  Fixture f;
  const Tensor large = rows(kLarge), small = rows(2);
  run(*f.session, {large});
  REQUIRE(f.held() >= large.byte_size());
  // One now and then finds it.
  for (int k = 0; k < 3000; ++k) run(*f.session, {k % 500 == 499 ? large : small});
  const int64_t before = f.allocations;
  for (int k = 0; k < 3000; ++k) run(*f.session, {k % 500 == 499 ? large : small});
  CHECK(f.allocations == before);
  CHECK(f.held() >= large.byte_size());
  for (int k = 0; k < 3000; ++k) run(*f.session, {small});
  CHECK(f.held() < 1 << 18);
  const int64_t settled = f.allocations;
  for (int k = 0; k < 3000; ++k) run(*f.session, {small});
  CHECK(f.allocations <= settled + 1);
  // And taken again.
  const double sum = run(*f.session, {large})[0].to_doubles()[0];
  CHECK(sum == doctest::Approx(64).epsilon(1e-3));
}

TEST_CASE("runtime/working_memory: contexts that are used no more hold none") {
  Fixture f;
  const Tensor large = rows(kLarge), small = rows(2);
  {
    const std::vector<TensorView> views{large.view()};
    std::vector<std::unique_ptr<Call>> calls;
    for (int k = 0; k < 4; ++k) calls.push_back(f.session->prepare(views, {}));
    CHECK(f.held() >= 4 * large.byte_size());
    for (int k = 0; k < 6000; ++k) run(*f.session, {small});
    CHECK(f.held() >= 4 * large.byte_size());  // of calls, it stays
    const int64_t before = f.allocations;
    for (const auto& call : calls) call->run();
    CHECK(f.allocations == before);
  }
  for (int k = 0; k < 6000; ++k) run(*f.session, {small});
  CHECK(f.held() < 1 << 18);
}

TEST_CASE("runtime/working_memory: a result that is to take no memory has a handle with room") {
  Fixture f;
  const auto pool = std::make_shared<OutputPool>(f.engine, 1);
  const Dims line{1000}, cube{2, 2, 2};
  xc_tensor* const long_one = pool->acquire(0, DType::kF32, line);
  xc_tensor* const deep = pool->acquire(0, DType::kF32, cube);
  deep->release();
  long_one->release();
  // The one that came back last has the bytes, but no room for more dims.
  CHECK(pool->acquire_ready(0, DType::kF32, cube) == deep);
  CHECK(pool->acquire_ready(0, DType::kF32, cube) == nullptr);
  CHECK(pool->acquire_ready(0, DType::kF32, line) == long_one);
  CHECK(pool->acquire_ready(0, DType::kF32, line) == nullptr);
  deep->release();
  CHECK(pool->acquire_ready(0, DType::kF32, line) == nullptr);
  long_one->release();
}

TEST_CASE("runtime/working_memory: it stays where runs may not allocate, and so do results") {
  for (const char* text : {kNumber, "graph g(%x: f32[n, 64]) -> (%y) { %y = Tanh(%x) }"}) {
    Fixture f(text);
    const Tensor large = rows(kLarge), small = rows(2);
    RunOptions in_place;
    in_place.no_alloc = true;
    const auto runs_in_place = [&] {
      const std::vector<TensorView> views{large.view()};
      xc_tensor* slot = nullptr;
      f.session->run(views, {&slot, 1}, in_place);
      slot->release();
    };
    run(*f.session, {large});
    runs_in_place();
    for (int k = 0; k < 6000; ++k) run(*f.session, {small});
    const int64_t before = f.allocations;
    CHECK_NOTHROW(runs_in_place());
    CHECK(f.allocations == before);
  }
}

TEST_CASE("runtime/working_memory: it stays for all ranks where some runs may not allocate") {
  Fixture f(R"(graph g(%x: f32[*]) -> (%y) {
  %a = Softmax(%x)
  %b = Softmax(%a) {axis = 0}
  %y = ReduceSum(%b) {keepdims = 0}
})");
  const Tensor large = rows(kLarge);
  const Tensor deep(large.buffer(), 0, DType::kF32, {kLarge, 8, 8});
  const auto runs_in_place = [&](const Tensor& x) {
    const std::vector<TensorView> views{x.view()};
    xc_tensor* slot = nullptr;
    RunOptions in_place;
    in_place.no_alloc = true;
    f.session->run(views, {&slot, 1}, in_place);
    slot->release();
  };
  run(*f.session, {deep});
  run(*f.session, {large});
  runs_in_place(large);
  const Tensor small = ramp({2, 8, 8}, 1, 0);
  for (int k = 0; k < 6000; ++k) run(*f.session, {small});
  CHECK_NOTHROW(runs_in_place(deep));
}
