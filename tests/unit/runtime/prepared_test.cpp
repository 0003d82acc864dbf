// Prepared calls whose inputs decide sizes, runs that may not allocate, outputs that the caller
// gives, and the memory of runs.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "ir/text.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

Config off() {
  return config_in(JitMode::kOff);
}

std::vector<double> values(const xc_tensor* tensor) {
  return tensor->tensor.to_doubles();
}

Status status_of(Session& session, const std::vector<Tensor>& inputs, const RunOptions& options) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<xc_tensor*> slots(session.model().outputs().size(), nullptr);
  Status status = Status::kOk;
  try {
    session.run(views, slots, options);
  } catch (const Error& error) {
    status = error.status();
  }
  for (xc_tensor* handle : slots)
    if (handle) handle->release();
  return status;
}

}  // namespace

TEST_CASE("runtime/prepared: elements that decide sizes and positions may change between runs") {
  auto session = session_of(R"(graph g(%x: f32[10], %s: i64[1], %e: i64[1]) -> (%y) {
  %y = Slice(%x, %s, %e)
})",
                            off());
  std::vector<Tensor> inputs{ramp({10}, 1, 0), Tensor::of<int64_t>({0}), Tensor::of<int64_t>({5})};
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  const auto call = session->prepare(views, {});
  const std::vector<double> all = inputs[0].to_doubles();
  CHECK(values(call->output(0)) == std::vector<double>(all.begin(), all.begin() + 5));
  for (const int64_t start : {5, 2, 0}) {
    inputs[1].as<int64_t>()[0] = start;
    inputs[2].as<int64_t>()[0] = start + 5;
    call->run();
    CHECK(values(call->output(0)) ==
          std::vector<double>(all.begin() + start, all.begin() + start + 5));
  }
  // Another size than the bound output's is refused, and the call stays usable.
  inputs[2].as<int64_t>()[0] = 3;
  try {
    call->run();
    FAIL_CHECK("ran into an output of another size");
  } catch (const Error& error) {
    CHECK(error.status() == Status::kInvalidArgument);
  }
  inputs[2].as<int64_t>()[0] = 5;
  call->run();
  CHECK(values(call->output(0)) == std::vector<double>(all.begin(), all.begin() + 5));
}

TEST_CASE("runtime/prepared: a run that may not allocate refuses steps which always do") {
  // Executed by the reference alone.
  auto session = session_of(R"(graph g(%x: f32[n, n]) -> (%y) {
  %y = Bernoulli(%x)
})",
                            off());
  const std::vector<Tensor> inputs{ramp({3, 3}, 1, 0)};
  for (int k = 0; k < 3; ++k) run(*session, inputs);
  REQUIRE(session->explain({}, false).find("reference") != std::string::npos);
  RunOptions options;
  options.no_alloc = true;
  CHECK(status_of(*session, inputs, options) == Status::kLimit);
  CHECK(status_of(*session, inputs, {}) == Status::kOk);
}

TEST_CASE("runtime/prepared: sizes that only runs without allocation use are in use") {
  const char* const text = "graph g(%x: f32[n]) -> (%y) {\n  %y = Relu(%x)\n}";
  const std::vector<Tensor> served{ramp({1}, 1, 0)};
  Config config = off();
  auto probe = session_of(text, config);
  run(*probe, served);
  constexpr int64_t kRoom = 8;
  config.bound_cache_bytes = kRoom * probe->profile().bound_bytes;
  auto session = session_of(text, config);
  run(*session, served);
  RunOptions no_alloc;
  no_alloc.no_alloc = true;
  int refused = 0;
  for (int64_t n = 2; n < 8 * kRoom; ++n) {
    run(*session, {ramp({n}, 1, 0)});
    for (int k = 0; k < 64; ++k) refused += status_of(*session, served, no_alloc) != Status::kOk;
  }
  CHECK(session->profile().bound_bytes <= config.bound_cache_bytes);
  CHECK(refused == 0);
}

TEST_CASE("runtime/prepared: a refused run without allocation gives back what it took") {
  auto session =
      session_of("graph g(%x: f32[n]) -> (%y, %z) {\n  %y = Neg(%x)\n  %z = Exp(%x)\n}", off());
  const std::vector<Tensor> inputs{ramp({4}, 1, 0)};
  const std::vector<TensorView> views{inputs[0].view()};
  xc_tensor* held[2] = {};
  session->run(views, held, {});
  held[0]->release();
  RunOptions no_alloc;
  no_alloc.no_alloc = true;
  xc_tensor* slots[2] = {};
  for (int k = 0; k < 3; ++k) {
    CHECK_THROWS_AS(session->run(views, slots, no_alloc), Error);
    CHECK(slots[0] == nullptr);
    CHECK(slots[1] == nullptr);
  }
  held[1]->release();
  CHECK(status_of(*session, inputs, no_alloc) == Status::kOk);
}

TEST_CASE("runtime/prepared: of two runs without allocation one takes the only free result") {
  constexpr int kRuns = 20000, kThreads = 2;
  std::atomic<int64_t> allocations{0};
  HostHooks hooks;
  hooks.allocate = [&](size_t bytes, size_t alignment) {
    ++allocations;
    return std::aligned_alloc(alignment, bytes);
  };
  hooks.release = [](void* memory, size_t) { std::free(memory); };
  const auto engine = std::make_shared<Engine>(off(), hooks, nullptr);
  Session session(
      Model::create(engine, parse_graph("graph g(%x: f32[n]) -> (%y) {\n  %y = Neg(%x)\n}")),
      Config{});
  const std::vector<Tensor> inputs{ramp({4}, 1, 0)};
  const std::vector<TensorView> views{inputs[0].view()};
  {  // a context for each, ready for the plan
    const auto one = session.prepare(views, {}), other = session.prepare(views, {});
  }
  RunOptions no_alloc;
  no_alloc.no_alloc = true;
  xc_tensor* slot = nullptr;
  session.run(views, {&slot, 1}, {});
  std::vector<xc_tensor*> taken;  // all there are, but the last
  try {
    for (; slot; session.run(views, {&slot, 1}, no_alloc))
      taken.push_back(std::exchange(slot, nullptr));
  } catch (const Error&) {
    taken.back()->release();
    taken.pop_back();
  }
  const int64_t before = allocations;
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < kRuns; ++k) ran += status_of(session, inputs, no_alloc) == Status::kOk;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ran > 0);
  CHECK(allocations == before);
  for (xc_tensor* handle : taken) handle->release();
}

TEST_CASE("runtime/prepared: the cap of a run's memory covers copies of strided inputs") {
  Config config = off();
  config.max_memory_bytes = 1 << 20;
  auto session = session_of(
      "graph g(%x: f32[n, m]) -> (%y) {\n  %y = ReduceMax(%x) {keepdims = 0}\n}", config);
  // One number, wherever it is read.
  const Tensor one = Tensor::of<float>({3});
  const auto repeated = [&](int64_t n) {
    return std::vector<Tensor>{
        Tensor(one.buffer(), one.byte_offset(), one.dtype(), {n, n}, {0, 0})};
  };
  CHECK(status_of(*session, repeated(8000), {}) == Status::kLimit);
  CHECK(status_of(*session, repeated(500), {}) == Status::kOk);
  CHECK(status_of(*session, repeated(513), {}) == Status::kLimit);
}

TEST_CASE("runtime/prepared: rows that a loop copies are the host's memory, and charged") {
  constexpr int64_t kSteps = 4, kWidth = 1 << 16;
  std::atomic<int64_t> held{0}, most{0};
  HostHooks hooks;
  hooks.allocate = [&](size_t bytes, size_t alignment) {
    most = std::max<int64_t>(most, held += static_cast<int64_t>(bytes));
    return std::aligned_alloc(alignment, bytes);
  };
  hooks.release = [&](void* memory, size_t bytes) {
    held -= static_cast<int64_t>(bytes);
    std::free(memory);
  };
  const std::string graph = fmt::format(R"(graph g(%x: f32[n, {0}]) -> (%y) {{
  %y = Scan(%x) {{num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1]}} captures 0 (
    graph body(%s: f32[n]) -> (%t) {{ %t = Neg(%s) }})
}})",
                                        kSteps);
  const Tensor x = ramp({kWidth, kSteps}, 1, 0);
  for (const int64_t limit : {0, 1 << 20}) {
    Config config = off();
    config.max_memory_bytes = limit;
    most = 0;
    {
      const auto engine = std::make_shared<Engine>(config, hooks, nullptr);
      Session session(Model::create(engine, parse_graph(graph)), Config{});
      // The rows that are read, those that are made, and the result in the order of its axes.
      CHECK(status_of(session, {x}, {}) == (limit ? Status::kLimit : Status::kOk));
      if (limit) CHECK(most <= limit);
      if (!limit) CHECK(most >= (2 * kSteps + 1) * kWidth * int64_t{sizeof(float)});
    }
    CHECK(held == 0);
  }
}

TEST_CASE("runtime/prepared: inputs of any strides are copied in each run") {
  auto session = session_of("graph g(%x: f32[n, m]) -> (%y) {\n  %y = Neg(%x)\n}", off());
  const Tensor x = ramp({6, 4}, 1, 0);
  const Tensor turned(x.buffer(), x.byte_offset() + 23 * 4, x.dtype(), {4, 6}, {-1, -4});
  const std::vector<TensorView> views{turned.view()};
  const auto call = session->prepare(views, {});
  for (const float first : {0.0f, 5.0f}) {
    x.as<float>()[23] = first;
    call->run();
    for (int64_t i = 0; i < 24; ++i) {
      const int64_t at = 23 - i / 6 - i % 6 * 4;
      CHECK(values(call->output(0))[static_cast<size_t>(i)] == -x.as<float>()[at]);
    }
  }
}

TEST_CASE("runtime/prepared: what a call holds is not evicted, and what is forgotten bound again") {
  Config config = off();
  config.bound_cache_bytes = 16 << 10;
  auto session = session_of("graph g(%x: f32[n]) -> (%y) {\n  %y = Neg(%x)\n}", config);
  Program& program = session->program();
  const Tensor x = ramp({3}, 1, 0);
  const std::vector<TensorView> views{x.view()};
  const auto call = session->prepare(views, {});
  const auto entry = [&] {
    for (const auto& e : program.entries())
      if (e->symbols[0] == 3) return e.get();
    return static_cast<SignatureEntry*>(nullptr);
  };
  const SignatureEntry* const first = entry();
  REQUIRE(first);
  for (int64_t n = 4; n < 400; ++n) run(*session, {ramp({n}, 1, 0)});
  CHECK(program.entries().size() < 200);
  CHECK(entry() == first);
  call->run();
  program.forget(*first);
  CHECK_FALSE(entry());
  call->run();
  CHECK(entry());
  CHECK(values(call->output(0)) ==
        std::vector<double>{-x.as<float>()[0], -x.as<float>()[1], -x.as<float>()[2]});
}

TEST_CASE("runtime/prepared: the cap of a run's memory covers its results") {
  Config config = off();
  config.max_memory_bytes = 1 << 20;
  const auto one = [](int64_t n) {
    return std::vector<Tensor>{Tensor::of<float>({1}), Tensor::of<int64_t>({n})};
  };
  // Sizes from elements of an input, and from values that only the run knows.
  auto fixed =
      session_of("graph g(%x: f32[1], %s: i64[1]) -> (%y) {\n  %y = Expand(%x, %s)\n}", config);
  CHECK(status_of(*fixed, one(1000), {}) == Status::kOk);
  CHECK(status_of(*fixed, one(int64_t{1} << 30), {}) == Status::kLimit);
  auto dynamic = session_of(R"(graph g(%x: f32[1], %s: i64[1]) -> (%y) {
  const %shape: i64[1] = [-1]
  %n = NonZero(%s)
  %m = Add(%s, %n)
  %t = Reshape(%m, %shape)
  %y = Expand(%x, %t)
})",
                            config);
  CHECK(status_of(*dynamic, one(1000), {}) == Status::kOk);
  CHECK(status_of(*dynamic, one(int64_t{1} << 30), {}) == Status::kLimit);
  CHECK(status_of(*dynamic, one(1000), {}) == Status::kOk);
}

TEST_CASE(
    "runtime/prepared: an output that the caller gives is row-major, whichever step makes it") {
  // By a kernel, and by a step whose sizes only the run tells: both give two rows of three.
  const char* const texts[] = {"graph g(%x: f32[2, 3]) -> (%y) { %y = Neg(%x) }",
                               "graph g(%x: f32[a, b]) -> (%y) { %y = NonZero(%x) }"};
  const Tensor x = Tensor::of<float>({1, 1, 1, 0, 0, 0}, {2, 3});
  const std::vector<TensorView> views{x.view()};
  for (const char* text : texts) {
    CAPTURE(text);
    auto session = session_of(text, off());
    const Tensor y = run(*session, {x})[0];
    for (const Dims& strides : {Dims{1, 2}, Dims{0, 0}, Dims{3, 1}}) {
      auto* given = new xc_tensor;
      given->tensor = Tensor(Tensor(y.dtype(), {2, 3}).buffer(), 0, y.dtype(), {2, 3}, strides);
      xc_tensor* slot = given;
      const auto run_into = [&] { session->run(views, {&slot, 1}, {}); };
      if (strides == Dims{3, 1}) {
        run_into();
        CHECK(given->tensor.to_doubles() == y.to_doubles());
      } else {
        CHECK_THROWS_WITH_AS(run_into(), doctest::Contains("row-major"), Error);
      }
      given->release();
    }
  }
}

TEST_CASE("runtime/prepared: what is wrong with tensors is told by the port's name") {
  const auto told = [](Session& session, std::initializer_list<TensorView> inputs,
                       std::initializer_list<Tensor> outputs) {
    std::vector<xc_tensor*> slots;
    for (const Tensor& tensor : outputs) {
      slots.push_back(tensor ? new xc_tensor : nullptr);
      if (tensor) slots.back()->tensor = tensor;
    }
    std::string text = "nothing";
    try {
      session.run(inputs, slots, {});
    } catch (const Error& error) {
      text = error.where() + ": " + error.what();
    }
    for (xc_tensor* slot : slots)
      if (slot) slot->release();
    return text;
  };
  // By kernels, and by a step whose sizes only the run tells.
  auto two = session_of(
      "graph g(%x: f32[n], %w: f32[n]) -> (%y, %z) { %y = Neg(%x) %z = Add(%x, %w) }", off());
  auto found = session_of("graph g(%x: f32[n]) -> (%y) { %y = NonZero(%x) }", off());
  const Tensor x = ramp({4}, 1, 1), w = ramp({4}, 1, 1), y(DType::kF32, {4});
  const TensorView whole = x.view(), other = w.view();
  CHECK(told(*two, {whole, {}}, {{}, {}}) == "input 'w': was not given; it wants f32[n]");
  CHECK(told(*two, {whole, other}, {{}, Tensor(DType::kF32, {3})}) ==
        "output 'z': the tensor given for it is f32[3], the result is f32[4]");
  CHECK(told(*found, {whole}, {Tensor(DType::kF32, {1, 4})}) ==
        "output 'y': the tensor given for it is f32[1, 4], the result is i64[1, 4]");
  CHECK(told(*two, {whole, other}, {y, y}) == "output 'z': its memory overlaps that of output 'y'");
  const Tensor part(x.buffer(), 4, x.dtype(), {3});
  CHECK(told(*two, {whole, other}, {{}, part})
            .starts_with("output 'z': its memory overlaps that of input 'x': "));
  const Tensor turned(y.buffer(), 12, y.dtype(), {4}, {-1});
  CHECK(told(*two, {whole, other}, {{}, turned}) ==
        "output 'z': the tensor given for it must be row-major");
  CHECK(told(*two, {whole, other}, {y, {}}) == "nothing");
}

TEST_CASE("runtime/prepared: memory of results follows what is asked for") {
  auto session = session_of("graph g(%x: f32[n]) -> (%y) { %y = Neg(%x) }", off());
  const Tensor large(DType::kF32, {1 << 22}), small(DType::kF32, {3});
  const auto held = [&] { return session->counters().working_bytes; };
  std::memset(large.data(), 0, 16 << 20);
  std::memset(small.data(), 0, 12);
  const std::vector<TensorView> views{large.view()};
  xc_tensor* slots[3] = {};
  for (xc_tensor*& slot : slots) session->run(views, {&slot, 1}, {});
  for (xc_tensor* slot : slots) slot->release();
  CHECK(held() >= 3 * (16 << 20));
  // A large one now and then finds its memory.
  for (int k = 0; k < 300; ++k) run(*session, {k % 30 == 0 ? large : small});
  CHECK(held() >= 16 << 20);
  for (int k = 0; k < 300; ++k) run(*session, {small});
  CHECK(held() < 1 << 20);
}
