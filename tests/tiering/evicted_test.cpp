// Labels: asan tsan
// Sizes that leave the table while threads, loops, prepared calls and the background thread work on
// them: results stay right, and what was counted is gone in the end.
#include <random>

#include "runtime/output_pool.h"
#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Rows picked by their values (a later segment), of any rank, and a loop over sizes of its own.
constexpr const char* kModel = R"(graph g(%x: f32[*], %n: i64[]) -> (%y, %z) {
  const %go: bool[] = true
  const %half: f32[] = 0.5
  const %one: f32[] = 1
  const %flat: i64[1] = [-1]
  const %zero: f32[1, 4] = [0, 0, 0, 0]
  %f = Reshape(%x, %flat)
  %m = Greater(%f, %half)
  %w = Compress(%f, %m) {axis = 0}
  %t = Mul(%w, %half)
  %u = Add(%t, %one)
  %y = Tanh(%u)
  %z = Loop(%n, %go, %zero) {} captures 0 (
    graph body(%i: i64[], %go: bool[], %a: f32[r, 4]) -> (%go2, %b) {
      const %row: f32[1, 4] = [1, 1, 1, 1]
      const %k: f32[] = 0.5
      const %l: f32[] = 0.25
      %go2 = Identity(%go)
      %c = Concat(%a, %row) {axis = 0}
      %d = Mul(%c, %k)
      %e = Add(%d, %l)
      %b = Tanh(%e)
    })
})";

std::vector<Tensor> inputs_of(uint64_t random) {
  const auto n = static_cast<int64_t>(random % 37), m = static_cast<int64_t>(random / 37 % 5);
  const Dims dims = random / 185 % 2 ? Dims{n, m} : Dims{n, m, 2};
  return {ramp(dims, 2, 0.1 * static_cast<double>(random % 7)),
          Tensor::scalar<int64_t>(static_cast<int64_t>(random / 370 % 23))};
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims()) return false;
  const auto x = a.to_doubles(), y = b.to_doubles();
  for (size_t k = 0; k < x.size(); ++k)
    if (!(std::fabs(x[k] - y[k]) <= 1e-5)) return false;
  return true;
}

}  // namespace

TEST_CASE("tiering/evicted: sizes come and go under threads, loops, calls and the tier") {
  Config config;
  config.bound_cache_bytes = 48 << 10;
  TierFaults faults;
  faults.eager = true;
  std::shared_ptr<BoundCache> cache;
  {
    Fixture fixture(kModel, config, faults, create_interpreting_compiler());
    Session& session = *fixture.session;
    cache = session.program().bound_cache();
    const auto plain = session_of(kModel, config_in(JitMode::kOff));
    std::atomic<int> wrong{0}, ran{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::mt19937_64 random(t);
        for (int k = 0; k < 600; ++k) {
          const std::vector<Tensor> in = inputs_of(random());
          const std::vector<Tensor> want = testing::run(*plain, in);
          std::vector<TensorView> views;
          for (const Tensor& i : in) views.push_back(i.view());
          const auto check = [&](xc_tensor* const* slots) {
            for (size_t o = 0; o < 2; ++o) wrong += !same(slots[o]->tensor, want[o]);
            ++ran;
          };
          const uint64_t kind = random() % 8;
          try {
            if (kind == 0) {
              const auto call = session.prepare(views, {});
              for (int again = 0; again < 3; ++again) {
                call->run();
                xc_tensor* const slots[2] = {call->output(0), call->output(1)};
                check(slots);
              }
              continue;
            }
            RunOptions options;
            options.no_alloc = kind == 1;
            if (kind == 2)
              options.deadline_ns = steady_ns() + static_cast<int64_t>(random() % 100'000);
            xc_tensor* slots[2] = {};
            session.run(views, slots, options);
            check(slots);
            for (xc_tensor* slot : slots) slot->release();
            if (kind == 3) (void)session.profile();
          } catch (const Error& error) {
            wrong += error.status() != Status::kLimit && error.status() != Status::kDeadline;
          }
        }
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(ran > 0);
    session.wait_idle(std::chrono::seconds(60));
    for (uint64_t k = 0; k < 40; ++k) testing::run(session, inputs_of(k));
    CHECK(session.counters().bound_bytes <= config.bound_cache_bytes * 2);
  }
  CHECK(cache->bytes() == 0);
  CHECK(cache->retired() == 0);
  CHECK(cache->evictable() == 0);
}
