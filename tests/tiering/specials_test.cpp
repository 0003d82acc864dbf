// Kernels for some of a region's sizes: used at those sizes only, verified, tried, kept, capped and
// condemned like any other.
// Labels: tsan
#include <algorithm>
#include <atomic>
#include <functional>

#include "support.h"
#include "support/scratch.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr const char* kMasked = R"(graph g(%x: f32[n, s], %m: f32[n, s]) -> (%y) {
  const %c: f32[] = 0.125
  %t = Mul(%x, %c)
  %u = Add(%t, %m)
  %y = Softmax(%u) {axis = -1}
})";

std::vector<Tensor> masked(int64_t n, int64_t s) {
  return {ramp({n, s}, 7, 0.3), ramp({n, s}, 3, -0.7)};
}

bool masked_right(const std::vector<Tensor>& in, const Tensor& y) {
  const int64_t n = y.dims()[0], s = y.dims()[1];
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> e(static_cast<size_t>(s));
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s; ++j) {
      const auto at = static_cast<size_t>(i * s + j);
      e[static_cast<size_t>(j)] = 0.125 * static_cast<double>(in[0].as<float>()[at]) +
                                  static_cast<double>(in[1].as<float>()[at]);
      top = std::max(top, e[static_cast<size_t>(j)]);
    }
    for (double& v : e) sum += v = std::exp(v - top);
    for (int64_t j = 0; j < s; ++j) {
      const double want = e[static_cast<size_t>(j)] / sum;
      const double have = y.as<float>()[static_cast<size_t>(i * s + j)];
      if (!(std::fabs(have - want) <= 1e-5 * want + 1e-7)) return false;
    }
  }
  return true;
}

/// Runs of the general kernel and of those for special sizes.
struct Counts {
  std::atomic<int64_t> general{0}, special{0};
};

bool is_special(const Region& region) {
  return std::any_of(region.space.begin(), region.space.end(),
                     [](const Dim& d) { return !d.as_symbol(); });
}

TierFaults counted(Counts& counts) {
  TierFaults faults;
  faults.eager = faults.specials = true;
  faults.wrap = [&counts](const Region& region, std::shared_ptr<Kernel> kernel) {
    auto& count = is_special(region) ? counts.special : counts.general;
    return std::make_shared<Tampered>(
        std::move(kernel), [&count](int64_t) { ++count; }, region.inputs.size(), 0.0f);
  };
  return faults;
}

struct Specials : Fixture {
  Specials(const char* text, TierFaults faults, const Config& config = {})
      : Fixture(text, config, std::move(faults),
                XC_HAVE_JIT ? nullptr : create_interpreting_compiler()) {}

  void right(int64_t n, int64_t s) {
    const std::vector<Tensor> in = masked(n, s);
    const bool is_right = masked_right(in, run(in)[0]);
    REQUIRE_MESSAGE(is_right, n, " x ", s);
  }
  size_t special_regions(const std::string& state) {
    size_t out = 0;
    for (const RegionSummary& region : session->profile().regions)
      out += region.state == state && region.name.find(" for ") != std::string::npos;
    return out;
  }
  /// Runs `once` until `done`, at most a minute.
  template <class Once, class Done>
  void drive(Once once, Done done) {
    const int64_t end = steady_ns() + 60'000'000'000;
    for (int k = 0; !done() && steady_ns() < end; ++k) {
      once(k);
      if (k % 16 == 0) session->wait_idle(std::chrono::milliseconds(20000));
    }
    session->wait_idle(std::chrono::milliseconds(20000));
    REQUIRE(done());
  }
};

/// The least time of some runs.
int64_t least_us(const std::function<void()>& once) {
  int64_t least = INT64_MAX;
  for (int k = 0; k < 20; ++k) {
    const int64_t begin = steady_ns();
    once();
    least = std::min(least, (steady_ns() - begin) / 1000);
  }
  return least;
}

}  // namespace

TEST_CASE(
    "tiering/specials: a frequent size gets a kernel of its own, others run the general one") {
  Counts counts;
  Specials fixture(kMasked, counted(counts));
  fixture.drive([&](int) { fixture.right(5, 16); },
                [&] { return fixture.special_regions("live") == 1; });
  fixture.session->freeze();
  counts.general = counts.special = 0;
  fixture.right(5, 16);
  CHECK(counts.special.load() == 1);
  CHECK(counts.general.load() == 0);
  for (int64_t s = 1; s < 40; ++s)
    if (s != 16) fixture.right(5, s);
  fixture.right(6, 16);
  CHECK(counts.special.load() == 1);
  CHECK(counts.general.load() > 0);
}

TEST_CASE("tiering/specials: sizes of which no one is frequent share what divides them") {
  Counts counts;
  Specials fixture(kMasked, counted(counts));
  // All of one class of sizes. The first runs make their sizes look frequent: kernels for those may
  // come as well.
  constexpr std::array<int64_t, 9> kMultiples{112, 96, 80, 64, 48, 32, 32, 32, 16};
  const auto with = [&](int k, std::atomic<int64_t>& count) {
    const int64_t before = count.load(), n = 1 + k % 9;
    const bool multiple = &count == &counts.special;
    fixture.right(n, multiple ? kMultiples[static_cast<size_t>(n - 1)] : (200 / n | 1) + k % 7 * 2);
    return count.load() > before;
  };
  fixture.drive([&](int k) { with(k, counts.special); },
                [&] {
                  for (const RegionSummary& r : fixture.session->profile().regions)
                    if (r.state == "live" && r.name.ends_with(" for s%16=0")) return true;
                  return false;
                });
  // Those, and odd ones of which none is frequent either, until each had its kernel for a while: a
  // trial takes turns.
  int settled = 0;
  for (int k = 0; k < 4000 && settled < 126; ++k) {
    const bool special = with(k, counts.special), general = with(k, counts.general);
    settled = special && general ? settled + 1 : 0;
    if (settled == 0) fixture.session->wait_idle(std::chrono::milliseconds(20000));
  }
  REQUIRE(settled == 126);
  fixture.session->freeze();
  // Sizes that are new.
  counts.general = counts.special = 0;
  fixture.right(2, 144);
  CHECK(counts.special.load() == 1);
  fixture.right(2, 146);
  CHECK(counts.general.load() == 1);
}

TEST_CASE("tiering/specials: a wrong one is found before it runs, and the general one stays") {
  TierFaults faults;
  faults.eager = faults.specials = true;
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    if (!is_special(region)) return kernel;
    return std::make_shared<Tampered>(std::move(kernel), nullptr, region.inputs.size(), 0.01f);
  };
  Specials fixture(kMasked, faults);
  fixture.drive([&](int) { fixture.right(5, 16); },
                [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
  CHECK(fixture.special_regions("banned") == 1);
  CHECK(live_regions(*fixture.session) == 1);
  for (int k = 0; k < 100; ++k) fixture.right(5, 16);
}

TEST_CASE("tiering/specials: the general kernel is not tried where one for these sizes runs") {
  Counts counts;
  Specials fixture(kMasked, counted(counts));
  fixture.drive([&](int) { fixture.right(5, 16); },
                [&] { return fixture.special_regions("live") == 1; });
  // Another class of sizes, where both are taken over, and soon to be confirmed.
  for (int k = 0; k < 2000; ++k) {
    fixture.right(20, 16);
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(20000));
  }
  INFO(fixture.log.last(EventKind::kRefused));
  CHECK(fixture.log.count(EventKind::kRefused) == 0);
  CHECK(fixture.special_regions("live") >= 1);
  CHECK(live_regions(*fixture.session) > static_cast<int64_t>(fixture.special_regions("live")));
}

TEST_CASE("tiering/specials: one that is not faster loses its trial") {
  TierFaults faults;
  faults.specials = true;
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    // The general one is made to win against the steps, the special one to lose against it.
    const int64_t us = is_special(region) ? 4000 : 0;
    return std::make_shared<Tampered>(
        std::move(kernel), [us](int64_t) { spin_us(us); }, region.inputs.size(), 0.0f);
  };
  if (!XC_HAVE_JIT) return;  // nothing wins there
  Specials fixture(kMasked, faults);
  fixture.drive([&](int) { fixture.right(512, 64); },
                [&] { return fixture.special_regions("banned") == 1; });
  CHECK(fixture.log.count(EventKind::kRejected) > 0);
  CHECK(fixture.special_regions("live") == 0);
}

TEST_CASE("tiering/specials: what becomes slow with the general kernel goes with it") {
  if (!XC_HAVE_JIT) return;
  std::atomic<int64_t> general_us{0}, all_us{0};
  TierFaults faults;
  faults.specials = true;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    const bool special = is_special(region);
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&, special](int64_t) { spin_us(all_us.load() + (special ? 0 : general_us.load())); },
        region.inputs.size(), 0.0f);
  };
  Specials fixture(kMasked, faults);
  const std::vector<Tensor> in = masked(16384, 64);
  const auto run_once = [&](int) { fixture.run(in); };
  fixture.drive(run_once, [&] { return live_regions(*fixture.session) == 1; });
  // Half of what the general kernel saves: it stays, and the special one, without, clearly wins.
  Config off;
  off.set_jit(JitMode::kOff);
  off.rules = 1;
  const auto separate = session_of(kMasked, off);
  const int64_t base_us = least_us([&] { run(*separate, in); });
  general_us = std::max<int64_t>(1, (base_us - least_us([&] { fixture.run(in); })) / 2);
  fixture.drive(run_once, [&] { return fixture.special_regions("live") == 1; });
  CHECK(masked_right(in, fixture.run(in)[0]));
  all_us = 20 * base_us;
  int runs = 0;
  fixture.drive([&](int) { fixture.run(in), ++runs; },
                [&] { return live_regions(*fixture.session) == 0; });
  MESSAGE("gone after ", runs, " slow runs");
  CHECK(runs < 500);
  CHECK(fixture.log.count(EventKind::kRolledBack) >= 1);
}

TEST_CASE("tiering/specials: one of a region that lost is tried although the region's parts run") {
  if (!XC_HAVE_JIT) return;
  constexpr const char* kProducts =
      R"(graph g(%x: f32[n, 96], %w: f32[n, 4], %v: f32[96, 4]) -> (%y) {
  const %axis: i64[1] = [-1]
  %m = MatMul(%x, %v)
  %q = Mul(%w, %m)
  %t = Transpose(%x) {perm = [1, 0]}
  %s = ReduceSum(%q, %axis) {keepdims = 1}
  %p = Mul(%w, %s)
  %d = Sub(%q, %p)
  %y = MatMul(%t, %d)
})";
  TierFaults faults;
  faults.specials = true;
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    const bool general = std::any_of(region.space.begin(), region.space.end(),
                                     [](const Dim& d) { return !d.is_constant(); });
    const int64_t us = region.blocks && general ? 3000 : 0;
    return std::make_shared<Tampered>(
        std::move(kernel), [us](int64_t) { spin_us(us); }, region.inputs.size(), 0.0f);
  };
  Specials fixture(kProducts, faults);
  const std::vector<Tensor> in{ramp({100, 96}, 1, 0.3), ramp({100, 4}, 1, 0.7),
                               ramp({96, 4}, 1, -0.7)};
  const auto tried = [&] {
    std::lock_guard lock(fixture.log.mutex);
    return std::any_of(fixture.log.events.begin(), fixture.log.events.end(), [](const Event& e) {
      return e.kind == EventKind::kTrial && e.subject.starts_with("blocks") &&
             e.subject.find(" for ") != std::string::npos;
    });
  };
  fixture.drive([&](int) { fixture.run(in); }, tried);
  // The general one had lost before, and its parts were there.
  CHECK(fixture.log.count(EventKind::kRejected) > 0);
  CHECK(fixture.log.count(EventKind::kRefused) == 0);
  std::vector<std::string> names;
  for (const RegionSummary& region : fixture.session->profile().regions)
    names.push_back(region.name);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("tiering/specials: a region has at most eight") {
  Counts counts;
  Specials fixture(kMasked, counted(counts));
  size_t most = 0, ever = 0;
  for (int64_t s = 6; s < 18; ++s) {  // of one class of sizes
    for (int k = 0; k < 2500; ++k) {
      fixture.right(4, s);
      if (k % 64 == 0) fixture.session->wait_idle(std::chrono::milliseconds(20000));
    }
    most = std::max(most, fixture.special_regions("live"));
  }
  for (const RegionSummary& r : fixture.session->profile().regions)
    ever += r.name.find(" for ") != std::string::npos;
  CHECK(ever > policy::kMaxSpecials);  // else this tests nothing
  CHECK(most <= policy::kMaxSpecials);
  CHECK(most >= 2);
}

TEST_CASE("tiering/specials: the next process has them from its first runs") {
  const ScratchDirectory scratch;
  Config config;
  config.cache_dir = scratch.path;
  Counts counts;
  {
    Specials fixture(kMasked, counted(counts), config);
    fixture.drive([&](int) { fixture.right(5, 16); },
                  [&] { return fixture.special_regions("live") == 1; });
  }
  TierFaults faults = counted(counts);
  faults.eager = faults.specials = false;
  Specials fixture(kMasked, faults, config);
  fixture.drive([&](int) { fixture.right(5, 16); },
                [&] { return fixture.special_regions("live") == 1; });
  counts.general = counts.special = 0;
  fixture.right(5, 16);
  CHECK(counts.special.load() == 1);
  CHECK(counts.general.load() == 0);
  for (int k = 0; k < 8; ++k) {  // the plan without it is made when it is needed
    fixture.right(5, 17);
    fixture.session->wait_idle(std::chrono::milliseconds(20000));
  }
  CHECK(counts.general.load() > 0);
  CHECK(counts.special.load() == 1);
  CHECK(fixture.log.count(EventKind::kCompiled) == 0);
}

TEST_CASE("tiering/specials: the sentinel takes out the one that runs, not the general one") {
  std::atomic<bool> wrong{false};
  TierFaults faults;
  faults.eager = faults.specials = true;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    if (!is_special(region)) return kernel;
    return std::make_shared<TurnsWrong>(std::move(kernel), region.inputs.size(), wrong);
  };
  Specials fixture(kMasked, faults);
  fixture.drive([&](int) { fixture.right(5, 16); },
                [&] { return fixture.special_regions("live") == 1; });
  wrong = true;
  fixture.drive([&](int) { fixture.run(masked(5, 16)); },
                [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
  CHECK(fixture.special_regions("banned") == 1);
  for (int k = 0; k < 20; ++k) fixture.right(5, 16);
  CHECK(live_regions(*fixture.session) == 1);
}

TEST_CASE("tiering/specials: sizes that a run finds out are asked for when they are known") {
  constexpr const char* kText = R"(graph g(%x: f32[n, s], %m: f32[n, s], %take: bool[s]) -> (%y) {
  const %c: f32[] = 0.125
  %a = Compress(%x, %take) {axis = 1}
  %b = Compress(%m, %take) {axis = 1}
  %t = Mul(%a, %c)
  %u = Add(%t, %b)
  %y = Softmax(%u) {axis = -1}
})";
  // Two lengths by one mask each are different symbols to the graph: fused only where they agree.
  Counts counts;
  Specials fixture(kText, counted(counts));
  const std::vector<Tensor> all = masked(6, 48);
  const auto go = [&](int64_t keep) {
    Tensor take(DType::kBool, {48});
    for (int64_t i = 0; i < 48; ++i) take.as<bool>()[i] = i < keep;
    const Tensor y = fixture.run({all[0], all[1], take})[0];
    REQUIRE(y.dims() == Dims{6, keep});
    std::vector<Tensor> kept;
    for (const Tensor& t : all) {
      kept.emplace_back(DType::kF32, Dims{6, keep});
      for (int64_t i = 0; i < 6; ++i)
        for (int64_t j = 0; j < keep; ++j)
          kept.back().as<float>()[i * keep + j] = t.as<float>()[i * 48 + j];
    }
    REQUIRE(masked_right(kept, y));
  };
  fixture.drive([&](int) { go(32); }, [&] { return fixture.special_regions("live") >= 1; });
  for (int64_t keep : {1, 16, 17, 31, 33, 32, 48}) go(keep);
  counts.general = counts.special = 0;
  go(32);
  CHECK(counts.special.load() > 0);
}
