// Prepared calls whose inputs decide sizes, runs that may not allocate, and the cap of a run's
// memory.
#include <doctest/doctest.h>

#include "runtime/session.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

Config off() {
  Config config;
  config.jit = static_cast<int64_t>(JitMode::kOff);
  return config;
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
  %y = EyeLike(%x)
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
