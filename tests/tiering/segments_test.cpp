// Sizes that a run finds out on its way: what runs behind them is chosen by these sizes, tried,
// specialised, kept for the next time and let go like what runs for a signature.
// Labels: tsan
#include <set>

#include "support.h"
#include "support/scratch.h"

using namespace xc;
using namespace xc::testing;

namespace {

/// tanh-GELU of rows that the run picks, plus b.
const std::string kPicked = gelu_of_picked(R"(  const %first: i64[1] = [0]
  %where = NonZero(%take)
  %rows = Squeeze(%where, %first)
  %some = Gather(%x, %rows) {axis = 0}
)");

/// The first `keep` of all rows.
Tensor first_of(int64_t all, int64_t keep) {
  Tensor take(DType::kBool, {all});
  for (int64_t i = 0; i < all; ++i) take.as<bool>()[i] = i < keep;
  return take;
}

/// Runs kPicked on one signature, whatever is kept; whether the result is right.
bool picks_right(Session& session, int64_t keep) {
  static const std::vector<Tensor> kAll{ramp({640, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  const Tensor y = run(session, {kAll[0], kAll[1], first_of(640, keep)})[0];
  int64_t where = 0;
  return y.dims() == Dims{keep, 96} && gelu_right(kAll, y, where);
}

std::unique_ptr<RegionCompiler> compiler_here() {
  return XC_HAVE_JIT ? nullptr : create_interpreting_compiler();
}

/// Runs `once` until `done`, at most a minute.
template <class Once, class Done>
void drive(Session& session, Once once, Done done) {
  const int64_t end = steady_ns() + 60'000'000'000;
  for (int k = 0; !done() && steady_ns() < end; ++k) {
    once(k);
    if (k % 16 == 0) session.wait_idle(std::chrono::milliseconds(20000));
  }
  session.wait_idle(std::chrono::milliseconds(20000));
  REQUIRE(done());
}

/// Three segments with a region each; what the first makes is read in all of them, and is a result.
constexpr const char* kThrough =
    R"(graph g(%x: f32[n, 32], %b: f32[32], %take: bool[n], %again: bool[2]) -> (%p, %y, %z) {
  const %h: f32[] = 0.5
  %q = Mul(%b, %h)
  %m = Mul(%x, %h)
  %r = Add(%m, %b)
  %p = Tanh(%r)
  %some = Compress(%p, %take) {axis = 0}
  %t = Mul(%some, %b)
  %u = Add(%t, %q)
  %y = Sigmoid(%u)
  %few = Compress(%y, %again) {axis = 0}
  %v = Mul(%few, %h)
  %w = Add(%v, %q)
  %z = Tanh(%w)
})";

/// Runs kThrough keeping the first `some` rows, and of these the first `few`: at most 2.
bool goes_through(Session& session, int64_t n, int64_t some, int64_t few) {
  const std::vector<Tensor> in{ramp({n, 32}, 3, 0.1), ramp({32}, 1, 0.7), first_of(n, some),
                               first_of(2, few)};
  const std::vector<Tensor> out = run(session, in);
  if (out[0].dims() != Dims{n, 32} || out[1].dims() != Dims{some, 32} ||
      out[2].dims() != Dims{few, 32})
    return false;
  const auto near = [](double have, double want) { return std::fabs(have - want) <= 2e-6; };
  bool right = true;
  for (int64_t i = 0; i < n * 32; ++i) {
    const double b = in[1].as<float>()[i % 32];
    const double p = std::tanh(0.5 * static_cast<double>(in[0].as<float>()[i]) + b);
    const double y = 1 / (1 + std::exp(-(p * b + 0.5 * b)));
    right = right && near(out[0].as<float>()[i], p);
    if (i < some * 32) right = right && near(out[1].as<float>()[i], y);
    if (i < few * 32) right = right && near(out[2].as<float>()[i], std::tanh(0.5 * y + 0.5 * b));
  }
  return right;
}

/// Every thread sees many sizes, all in one signature or two.
void run_through(Session& session, int threads, int runs) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int k = 0; k < runs; ++k) {
        const int64_t n = 6 + (k + t) % 2, some = 2 + (k * 5 + t) % 4, few = k % 3;
        if (!goes_through(session, n, some, few)) ++wrong;
      }
    });
  for (std::thread& thread : all) thread.join();
  CHECK(wrong == 0);
}

}  // namespace

#if XC_HAVE_JIT
TEST_CASE("tiering/segments: each length found out in the run has the plan that is faster for it") {
  // Planted: below 100 rows the kernel takes far longer than what it replaces.
  constexpr int64_t kShort = 4, kLong = 512;
  std::array<std::atomic<int64_t>, 2> fused{};  // runs of the kernel, short and long
  TierFaults faults;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&](int64_t rows) {
          ++fused[rows >= 100];
          if (rows < 100) spin_us(400);
        },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kPicked, {}, faults);
  for (int k = 0; k < 3000 || (k < 20000 && fixture.log.count(EventKind::kAccepted) == 0); ++k) {
    REQUIRE(picks_right(*fixture.session, k % 2 ? kLong : kShort));
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kAccepted) >= 1);
  fixture.session->freeze();
  const int64_t held = fixture.session->profile().bound_bytes;
  fused[0] = fused[1] = 0;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int k = 0; k < 64; ++k)
        if (!picks_right(*fixture.session, k % 2 ? kLong : kShort)) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(fused[0] == 0);
  CHECK(fused[1] == 4 * 32);
  CHECK(fixture.session->profile().bound_bytes == held);  // a repeat binds nothing
  // New lengths go with their like at once.
  fused[0] = fused[1] = 0;
  for (int64_t n : {3, 5, 400, 600}) REQUIRE(picks_right(*fixture.session, n));
  CHECK(fused[0] == 0);
  CHECK(fused[1] == 2);
  CHECK(fixture.session->profile().signatures == 1);
}

TEST_CASE("tiering/segments: what was learnt of lengths found out is there for the next process") {
  const ScratchDirectory scratch;
  Config config;
  config.cache_dir = scratch.path;
  TierFaults faults;
  faults.eager = true;
  {
    Fixture fixture(kPicked, config, faults);
    drive(
        *fixture.session, [&](int) { REQUIRE(picks_right(*fixture.session, 300)); },
        [&] { return live_regions(*fixture.session) >= 1; });
  }
  for (const JitMode mode : {JitMode::kFreeze, JitMode::kAuto}) {
    CAPTURE(static_cast<int>(mode));
    std::atomic<int64_t> fused{0};
    faults.wrap = [&](const Region& region, std::shared_ptr<Kernel> kernel) {
      return std::make_shared<Tampered>(
          std::move(kernel), [&](int64_t) { ++fused; }, region.inputs.size(), 0.0f);
    };
    config.jit = static_cast<int64_t>(mode);
    Fixture fixture(kPicked, config, faults);
    const int runs = mode == JitMode::kFreeze ? 1 : 64;
    for (int k = 0; k < runs; ++k) {
      REQUIRE(picks_right(*fixture.session, 300));
      fixture.session->wait_idle(std::chrono::milliseconds(20000));
    }
    CHECK(fused >= 1);
    CHECK(fixture.log.count(EventKind::kCompiled) == 0);
  }
}
#endif

TEST_CASE("tiering/segments: a length found out that stays the same gets a kernel of its own") {
  std::atomic<int64_t> general{0}, special{0};
  TierFaults faults;
  faults.eager = faults.specials = true;
  faults.wrap = [&](const Region& region, std::shared_ptr<Kernel> kernel) {
    auto& count = region.space.front().is_constant() ? special : general;
    return std::make_shared<Tampered>(
        std::move(kernel), [&count](int64_t) { ++count; }, region.inputs.size(), 0.0f);
  };
  Fixture fixture(kPicked, {}, faults, compiler_here());
  const auto special_lives = [&] {
    for (const RegionSummary& region : fixture.session->profile().regions)
      if (region.state == "live" && region.name.find(" for ") != std::string::npos) return true;
    return false;
  };
  drive(*fixture.session, [&](int) { REQUIRE(picks_right(*fixture.session, 7)); }, special_lives);
  fixture.session->freeze();
  general = special = 0;
  REQUIRE(picks_right(*fixture.session, 7));
  CHECK(special == 1);
  CHECK(general == 0);
  for (int64_t keep : {1, 6, 8, 30}) REQUIRE(picks_right(*fixture.session, keep));
  CHECK(special == 1);
  bool counted = false;  // the size is known by its frequency
  for (const SizeSummary& size : fixture.session->profile().sizes)
    for (const auto& frequent : size.frequent) counted = counted || frequent.value == 7;
  CHECK(counted);
}

TEST_CASE("tiering/segments: regions behind each find are compiled and used") {
  for (const JitMode mode : {JitMode::kSync, JitMode::kAuto}) {
    CAPTURE(static_cast<int>(mode));
    Config config;
    config.jit = static_cast<int64_t>(mode);
    TierFaults faults;
    faults.eager = true;
    Fixture fixture(kThrough, config, faults, compiler_here());
    drive(
        *fixture.session, [&](int k) { REQUIRE(goes_through(*fixture.session, 6, 5 - k % 2, 2)); },
        [&] { return live_regions(*fixture.session) >= 3; });
    run_through(*fixture.session, 4, 60);
    // Nothing stays that follows a plan which no run begins with any more.
    Program& program = fixture.session->program();
    fixture.session->freeze();
    program.drop_stale_segments();
    std::set<std::pair<uint32_t, const Plan*>> published;
    for (const auto& entry : program.entries())
      published.emplace(entry->segment, program.published(*entry)->active->bound->plan.get());
    size_t later = 0;
    for (const auto& entry : program.entries()) {
      if (entry->segment == 0) continue;
      ++later;
      CHECK(published.count({entry->segment - 1, entry->begun.get()}) == 1);
    }
    CHECK(later > 0);
    run_through(*fixture.session, 2, 30);
  }
}

TEST_CASE("tiering/segments: a region reads a transposed view of what the run found") {
  const std::string text = R"(graph g(%x: f32[n, 32], %take: bool[n]) -> (%y) {
  %some = Compress(%x, %take) {axis = 0}
  %turned = Transpose(%some) {perm = [1, 0]}
  %e = Exp(%turned)
  %t = Tanh(%e)
  %y = Mul(%t, %e)
})";
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(text, {}, faults, compiler_here());
  const auto once = [&](int k) {
    const int64_t keep = 3 + k % 2;
    const std::vector<Tensor> in{ramp({6, 32}, 1, 0.1), first_of(6, keep)};
    const Tensor y = fixture.run(in)[0];
    REQUIRE(y.dims() == Dims{32, keep});
    for (int64_t i = 0; i < y.count(); ++i) {
      const double e = std::exp(double{in[0].as<float>()[i % keep * 32 + i / keep]});
      REQUIRE(std::fabs(y.as<float>()[i] - std::tanh(e) * e) <= 1e-5);
    }
  };
  drive(*fixture.session, once, [&] { return live_regions(*fixture.session) >= 1; });
  for (int k = 0; k < 8; ++k) once(k);
}

TEST_CASE("tiering/segments: plans change at every run under four threads") {
  for (const JitMode mode : {JitMode::kSync, JitMode::kAuto}) {
    CAPTURE(static_cast<int>(mode));
    Config config;
    config.force_swap = 1;
    config.jit = static_cast<int64_t>(mode);
    TierFaults faults;
    faults.eager = true;
    Fixture fixture(kThrough, config, faults, compiler_here());
    run_through(*fixture.session, 4, 150);
  }
}

TEST_CASE("tiering/segments: what was bound for lengths that come no more makes room") {
  Config config;
  config.bound_cache_bytes = 256 << 10;
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kPicked, config, faults, compiler_here());
  for (int k = 0; k < 900; ++k) {
    REQUIRE(picks_right(*fixture.session, 1 + k % 300));
    REQUIRE(fixture.session->profile().bound_bytes <= config.bound_cache_bytes);
  }
  CHECK(fixture.log.count(EventKind::kEvicted) >= 1);
}

TEST_CASE("tiering/segments: a loop whose carried size grows runs what is best for each size") {
  // Each round puts a row in front of what is carried and maps all of it.
  Config config;
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(R"(graph g(%m: i64[], %x: f32[1, 8], %b: f32[8]) -> (%last) {
  const %go: bool[] = true
  %last = Loop(%m, %go, %x, %x, %b) {} captures 2 (
    graph body(%i: i64[], %c: bool[], %s: f32[r, 8], %x: f32[1, 8], %b: f32[8]) -> (%c, %t) {
      const %h: f32[] = 0.5
      %all = Concat(%x, %s) {axis = 0}
      %u = Mul(%all, %h)
      %v = Add(%u, %b)
      %w = Mul(%v, %h)
      %t = Tanh(%w)
    })
})",
                  config, faults, compiler_here());
  const Tensor x = ramp({1, 8}, 3, 0.1), b = ramp({8}, 1, 0.7);
  const auto right = [&](int64_t rounds) {
    const Tensor y = fixture.run({Tensor::scalar<int64_t>(rounds), x, b})[0];
    if (y.dims() != Dims{rounds + 1, 8}) return false;
    bool all = true;
    for (int64_t i = 0; i <= rounds; ++i)
      for (int64_t j = 0; j < 8; ++j) {
        double want = x.as<float>()[j];
        for (int64_t k = 0; k < std::min(i + 1, rounds); ++k)
          want = std::tanh(0.5 * (0.5 * want + static_cast<double>(b.as<float>()[j])));
        all = all && std::fabs(y.as<float>()[i * 8 + j] - want) <= 2e-6;
      }
    return all;
  };
  drive(
      *fixture.session, [&](int k) { REQUIRE(right(6 + k % 8)); },
      [&] { return live_regions(*fixture.session) >= 1; });
  fixture.session->freeze();
  for (int k = 0; k < 4; ++k) REQUIRE(right(20 - k));
  const int64_t held = fixture.session->profile().bound_bytes;
  for (int k = 0; k < 4; ++k) REQUIRE(right(20 - k));
  CHECK(fixture.session->profile().bound_bytes == held);  // a repeat binds nothing
}
