// What is kept per size: who leaves when it is too much, and that it stays under its cap.
// Labels: asan tsan
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/program.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

namespace {

Config capped(int64_t bytes) {
  Config config = config_in(JitMode::kOff);
  config.bound_cache_bytes = bytes;
  return config;
}

int64_t bound(const Session& session) {
  return session.counters().bound_bytes;
}

/// Size number k of many.
Tensor sized(int64_t k) {
  return ramp({1 + k % 40, 1 + k / 40}, 1, 0);
}

/// Whether it comes true within some seconds.
template <class Done>
bool until(const Done& done) {
  for (int k = 0; k < 10'000 && !done(); ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done();
}

/// Runs in another thread until it is destroyed.
class LongRun {
 public:
  LongRun(Session& session, std::vector<Tensor> inputs) : inputs_(std::move(inputs)) {
    thread_ = std::thread([this, &session] {
      std::vector<TensorView> views;
      for (const Tensor& t : inputs_) views.push_back(t.view());
      std::vector<xc_tensor*> slots(session.model().outputs().size(), nullptr);
      RunOptions options;
      options.cancel = &cancel_;
      try {
        session.run(views, slots, options);
      } catch (const Error& error) {
        ended_ = error.status() == Status::kCancelled;
      }
    });
  }
  /// Whether it was still going on.
  bool end() {
    cancel_ = true;
    thread_.join();
    return ended_;
  }

 private:
  std::vector<Tensor> inputs_;
  std::atomic<bool> cancel_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

constexpr const char* kBesideLoop = R"(graph g(%x: f32[n, m], %trips: i64[]) -> (%y, %count) {
  const %go: bool[] = true
  const %zero: f32[] = 0
  %y = Tanh(%x)
  %count = Loop(%trips, %go, %zero) {} captures 0 (
    graph body(%i: i64[], %go: bool[], %a: f32[]) -> (%go2, %b) {
      const %one: f32[] = 1
      %go2 = Identity(%go)
      %b = Add(%a, %one)
    })
})";

}  // namespace

TEST_CASE("runtime/eviction: a stream of new sizes evicts a few at a time, the oldest first") {
  constexpr int64_t kCap = 1 << 20;
  auto session = session_of("graph g(%x: f32[n, m]) -> (%y) { %y = Tanh(%x) }", capped(kCap));
  Program& program = session->program();
  size_t before = 0, most = 0;
  for (int64_t k = 0; k < 4000; ++k) {
    run(*session, {sized(k)});
    if (k % 16 == 0) run(*session, {sized(0)});  // one in use
    if (k % 16 == 0) run(*session, {sized(0)});
    const size_t now = program.entries().size();
    if (before > now) most = std::max(most, before - now);
    before = now;
    REQUIRE(bound(*session) <= kCap);
  }
  CHECK(most > 0);
  CHECK(most <= 64);
  CHECK(bound(*session) >= kCap * 3 / 4);
  const auto entries = program.entries();
  const auto has = [&](int64_t k) {
    return std::ranges::any_of(entries, [&](const auto& e) {
      return e->symbols[0] == 1 + k % 40 && e->symbols[1] == 1 + k / 40;
    });
  };
  CHECK(has(0));
  for (int64_t k = 1; k < 1000; ++k) REQUIRE_FALSE(has(k));
  for (int64_t k = 3900; k < 4000; ++k) REQUIRE(has(k));
}

TEST_CASE("runtime/eviction: beside a run that takes long the cap holds, and new sizes run") {
  constexpr int64_t kCap = 256 << 10;
  auto session = session_of(kBesideLoop, capped(kCap));
  const Tensor none = Tensor::scalar<int64_t>(0);
  run(*session, {sized(1), none});
  LongRun other(*session, {sized(1), Tensor::scalar<int64_t>(int64_t{1} << 40)});
  while (session->counters().runs < 2) std::this_thread::yield();
  int64_t most = 0;
  for (int64_t k = 2; k < 3000; ++k) {
    REQUIRE(run(*session, {sized(k), none})[0].count() == sized(k).count());
    most = std::max(most, bound(*session));
  }
  CHECK(most <= kCap * 3 / 2);
  CHECK(most > kCap);  // what was evicted counts
  CHECK(other.end());
  // They are kept again.
  for (int64_t k = 3000; k < 3400; ++k) run(*session, {sized(k), none});
  CHECK(bound(*session) <= kCap);
  const int64_t met = session->counters().signatures;
  for (int64_t k = 3390; k < 3400; ++k) run(*session, {sized(k), none});
  CHECK(session->counters().signatures == met);
}

TEST_CASE("runtime/eviction: what a long run held up goes also where that program runs no more") {
  constexpr int64_t kCap = 256 << 10;
  std::string text = kBesideLoop;
  text.replace(text.find("f32[n, m]"), 9, "f32[*]");
  auto session = session_of(text, capped(kCap));
  const Tensor none = Tensor::scalar<int64_t>(0);
  run(*session, {sized(1), none});
  LongRun other(*session, {sized(1), Tensor::scalar<int64_t>(int64_t{1} << 40)});
  while (session->counters().runs < 2) std::this_thread::yield();
  for (int64_t k = 2; k < 2000; ++k) run(*session, {sized(k), none});
  CHECK(bound(*session) > kCap);
  CHECK(other.end());
  // Another rank has a program of its own.
  const auto rows = [](int64_t k) { return ramp({1 + k}, 1, 0); };
  for (int64_t k = 0; k < 20; ++k) run(*session, {rows(k), none});
  CHECK(bound(*session) <= kCap);
  const int64_t met = session->counters().signatures;
  for (int64_t k = 0; k < 20; ++k) run(*session, {rows(k), none});
  CHECK(session->counters().signatures == met);
}

TEST_CASE("runtime/eviction: what waited for a run that may not allocate goes behind it") {
  auto session = session_of(R"(graph g(%x: f32[n, m]) -> (%y) {
  %a = Tanh(%x)
  %b = Softmax(%a)
  %c = Erf(%b)
  %d = Softmax(%c)
  %e = Tanh(%d)
  %y = Softmax(%e)
})",
                            capped(64 << 10));
  const BoundCache& cache = *session->program().bound_cache();
  bool waited = false;
  for (int64_t round = 0; round < 20 && !waited; ++round) {
    // A run that takes long enough for others to fill the cache, how long these may take.
    const Tensor large = ramp({int64_t{1 << 11} << std::min<int64_t>(round, 3), 1 << 10}, 1, 0);
    run(*session, {large});
    const int64_t before = session->counters().runs;
    std::thread in_place([&] {
      const std::vector<TensorView> views{large.view()};
      xc_tensor* slot = nullptr;
      RunOptions options;
      options.no_alloc = true;
      session->run(views, {&slot, 1}, options);
      slot->release();
    });
    while (session->counters().runs == before) std::this_thread::yield();
    for (int64_t k = 0; k < 200 && cache.retired() == 0; ++k)
      run(*session, {sized(200 * round + k)});
    waited = cache.retired() > 0;
    in_place.join();
  }
  REQUIRE(waited);
  // Runs that evict nothing are enough.
  const std::vector<int64_t> known = session->program().entries().at(0)->symbols;
  for (int k = 0; k < 3; ++k) run(*session, {ramp({known[0], known[1]}, 1, 0)});
  CHECK(cache.retired() == 0);
}

TEST_CASE("runtime/eviction: a loop under way leaves an entry that no run may begin with") {
  auto session = session_of(kBesideLoop, capped(256 << 10));
  LongRun loop(*session, {sized(1), Tensor::scalar<int64_t>(int64_t{1} << 40)});
  REQUIRE(until([&] {
    const auto bodies = session->program().children();
    return !bodies.empty() && bodies[0]->total_runs() > 10;
  }));
  Program& body = *session->program().children()[0];
  const auto entry = body.entries().at(0);
  body.forget(*entry);
  CHECK(until([&] { return body.entries().size() == 1 && body.entries()[0] != entry; }));
  CHECK(loop.end());
}

TEST_CASE("runtime/eviction: bodies and the graph around them have one cap") {
  constexpr int kLoops = 6;
  constexpr int64_t kCap = 256 << 10;
  std::string text = R"(graph g(%x0: f32[n, m]) -> (%x6) {
  const %go: bool[] = true
  const %trips: i64[] = 2
)";
  for (int k = 0; k < kLoops; ++k)
    text += fmt::format(R"(  %x{1} = Loop(%trips, %go, %x{0}) {{}} captures 0 (
    graph body(%i: i64[], %go: bool[], %a: f32[n, m]) -> (%go2, %b) {{
      %go2 = Identity(%go)
      %t = Tanh(%a)
      %b = Mul(%t, %t)
    }})
)",
                        k, k + 1);
  auto session = session_of(text + "}", capped(kCap));
  int64_t most = 0;
  for (int64_t k = 0; k < 600; ++k) {
    run(*session, {sized(k)});
    most = std::max(most, bound(*session));
  }
  CHECK(most <= kCap);
  CHECK(most > kCap / 2);
  // All of them keep what came last.
  for (const auto& body : session->program().children()) CHECK(body->entries().size() >= 4);
}

TEST_CASE("runtime/eviction: a loop of more signatures than there is room for keeps some of them") {
  constexpr int64_t kTrips = 600, kCap = 256 << 10;
  auto session = session_of(R"(graph g(%x: f32[n, 4], %trips: i64[], %a0: f32[1, 4]) -> (%y) {
  const %go: bool[] = true
  %y = Loop(%trips, %go, %a0, %x) {} captures 1 (
    graph body(%i: i64[], %go: bool[], %a: f32[1, 4], %x: f32[n, 4]) -> (%go2, %b) {
      const %axis: i64[1] = [0]
      const %one: i64[1] = [1]
      %go2 = Identity(%go)
      %from = Unsqueeze(%i, %axis)
      %to = Add(%from, %one)
      %row = Slice(%x, %from, %to, %axis)
      %b = Add(%a, %row)
    })
})",
                            capped(kCap));
  const std::vector<Tensor> inputs{ramp({kTrips, 4}, 1, 0), Tensor::scalar<int64_t>(kTrips),
                                   ramp({1, 4}, 0, 0)};
  std::vector<double> want(4, 0), rows = inputs[0].to_doubles();
  for (size_t k = 0; k < rows.size(); ++k) want[k % 4] += rows[k];
  std::vector<uint64_t> bound_in;
  for (int round = 0; round < 3; ++round) {
    const auto children = session->program().children();
    const uint64_t before = children.empty() ? 0 : children[0]->signatures();
    const std::vector<double> sums = run(*session, inputs)[0].to_doubles();
    for (size_t k = 0; k < 4; ++k) CHECK(sums[k] == doctest::Approx(want[k]).epsilon(1e-4));
    bound_in.push_back(session->program().children()[0]->signatures() - before);
    CHECK(bound(*session) <= kCap);
  }
  CHECK(bound_in[0] == kTrips);
  CHECK(bound_in[1] < kTrips - 50);
  CHECK(bound_in[2] <= bound_in[1]);
}

TEST_CASE("runtime/eviction: what a loop stays with is in the table, whatever it met before") {
  constexpr int64_t kRows = 300;
  auto session = session_of(fmt::format(R"(graph g(%a0: f32[1, 4], %trips: i64[]) -> (%y) {{
  const %go: bool[] = true
  %y = Loop(%trips, %go, %a0) {{}} captures 0 (
    graph body(%i: i64[], %go: bool[], %a: f32[n, 4]) -> (%go2, %b) {{
      const %rows: i64[] = {}
      %go2 = Identity(%go)
      %more = Less(%i, %rows)
      %b = If(%more, %a) {{}} captures 1 (
        graph then(%c: f32[n, 4]) -> (%d) {{
          const %row: f32[1, 4] = [0, 0, 0, 0]
          %d = Concat(%c, %row) {{axis = 0}}
        }},
        graph else(%c: f32[n, 4]) -> (%d) {{
          %d = Identity(%c)
        }})
    }})
}})",
                                        kRows - 1),
                            capped(64 << 10));
  LongRun loop(*session, {ramp({1, 4}, 0, 0), Tensor::scalar<int64_t>(int64_t{1} << 40)});
  REQUIRE(until([&] {
    const auto bodies = session->program().children();
    return !bodies.empty() && bodies[0]->total_runs() > kRows + 10;
  }));
  const auto entries = session->program().children()[0]->entries();
  CHECK(entries.size() < kRows / 2);  // it met more than there is room for
  CHECK(std::ranges::any_of(entries, [&](const auto& e) {
    return e->segment == 0 && e->symbols == std::vector<int64_t>{kRows};
  }));
  CHECK(loop.end());
}
