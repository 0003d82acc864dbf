#include "tier/policy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "tier/region_policy.h"

using namespace xc::policy;

namespace {

/// Times around `mean` with 5 % noise and now and then an interruption, as machines give them.
std::vector<float> times(std::mt19937& random, double mean, size_t count) {
  std::normal_distribution<double> noise(1.0, 0.05);
  std::vector<float> out;
  for (size_t k = 0; k < count; ++k)
    out.push_back(static_cast<float>(mean * noise(random) * (random() % 20 == 0 ? 4 : 1)));
  return out;
}

}  // namespace

TEST_CASE("tier/policy: a trial accepts what is clearly faster and rejects what is not") {
  std::mt19937 random(7);
  int wrong = 0;
  for (int k = 0; k < 200; ++k) {
    wrong += judge(times(random, 1000, 8), times(random, 600, 8)).verdict == Verdict::kReject;
    wrong += judge(times(random, 1000, 64), times(random, 800, 64)).verdict != Verdict::kAccept;
    wrong += judge(times(random, 1000, 64), times(random, 1000, 64)).verdict == Verdict::kAccept;
    wrong += judge(times(random, 1000, 64), times(random, 1300, 64)).verdict != Verdict::kReject;
  }
  CHECK(wrong <= 4);  // of 800
  CHECK(judge({1000, 1010, 990}, {100, 104}).verdict == Verdict::kUndecided);
  CHECK(judge({1000, 1010, 990}, {100, 104, 98}).verdict == Verdict::kAccept);
  CHECK(judge({100, 104, 98}, {1000, 1010, 990}).verdict == Verdict::kReject);
  // Apart, but no further than they vary.
  CHECK(judge({1000, 1150, 900}, {800, 700, 890}).verdict == Verdict::kUndecided);
}

TEST_CASE("tier/policy: a kernel in use is doubted when two windows in a row were slow") {
  Watch watch;
  // Whether `windows` full ones whose samples take so long end in doubt.
  const auto runs = [&](int windows, double seconds, int kept = 0) {
    bool doubted = false;
    for (int w = 0; w < windows; ++w) {
      // A few of a window are interrupted, and two are told as one.
      for (uint64_t k = 2; k < Watch::kWindow; ++k)
        REQUIRE_FALSE(watch.add(1, k % 4 == 0 ? 20 * seconds : seconds));
      REQUIRE(watch.add(2, 2 * seconds));
      CHECK(watch.median_s() == doctest::Approx(seconds));
      // What it replaced is as it was when the first window ended.
      doubted = watch.look(watch.has_reference() ? 1e9 : 2e-3, kept);
    }
    return doubted;
  };
  CHECK_FALSE(runs(3, 1e-3));
  CHECK_FALSE(runs(1, 3e-3));
  CHECK_FALSE(runs(1, 1e-3));
  CHECK_FALSE(runs(4, 2.2e-3));  // no more than others vary
  CHECK_FALSE(runs(1, 3e-3));
  CHECK(runs(1, 3e-3));
  CHECK(runs(2, 3e-3));
  // Kept before, it is doubted after more of them, but not after ever more.
  CHECK_FALSE(runs(3, 3e-3, 1));
  CHECK(runs(1, 3e-3, 1));
  CHECK_FALSE(runs((2 << Watch::kMostKept) - 1, 3e-3, 100));
  CHECK(runs(1, 3e-3, 100));
}

TEST_CASE("tier/policy: doubts that end in keeping a kernel are counted until one does not") {
  RegionPolicy policy;
  const auto kept = [&] { return policy.measured(3)->kept; };
  policy.decide(3, true, 2e-3, 1e-3, 0, 0);
  CHECK(kept() == 0);
  policy.decide(3, true, 2e-3, 1e-3, 0, 0);  // nobody doubted it
  CHECK(kept() == 0);
  for (int doubts = 1; doubts < 4; ++doubts) {
    policy.doubt(3);
    policy.decide(3, true, 2e-3, 1e-3, 0, 0);
    CHECK(kept() == doubts);
  }
  policy.doubt(3);
  policy.decide(3, false, 1e-3, 2e-3, 0, 0);
  CHECK(kept() == 0);
}

TEST_CASE("tier/policy: a trial that cost much comes again later, and ever more rarely") {
  const Prices prices;
  RegionPolicy policy;
  // When it may be tried next, whatever there is to win.
  const auto again = [&](double now_s) {
    double at = now_s;
    for (; at < 1e6; at += 0.5) {
      policy.ran_base(3, 1e6, 1, 0.1, at);
      if (policy.wants(3, prices, at) == Trial::kTry) break;
    }
    return at - now_s;
  };
  policy.decide(3, false, 1e-3, 2e-3, 0, 5e-3);
  CHECK(again(0) == doctest::Approx(1));
  policy.decide(3, false, 1e-3, 2e-3, 100, 5e-3);
  CHECK(again(100) == doctest::Approx(2));
  // Three runs of 2 s that took 4 s.
  policy.decide(3, false, 2, 4, 200, 6);
  CHECK(again(200) == doctest::Approx(100 * 6));
  for (int k = 0; k < 20; ++k) policy.decide(3, false, 1e-3, 2e-3, 1000, 0);
  CHECK(again(1000) == doctest::Approx(4096));
}

TEST_CASE("tier/policy: a trial that was given up for want of runs is waited for twice as long") {
  RegionPolicy policy;
  CHECK(policy.patience(3) == 1);
  policy.gave_up(3);
  CHECK(policy.patience(3) == 2);
  policy.gave_up(3);
  CHECK(policy.patience(3) == 4);
  CHECK(policy.patience(5) == 1);
  for (int k = 0; k < 40; ++k) policy.gave_up(3);
  CHECK(policy.patience(3) == 1 << RegionPolicy::kMostWaits);
  policy.decide(3, true, 2e-3, 1e-3, 0, 0);
  CHECK(policy.patience(3) == 1);
}

TEST_CASE("tier/policy: a kernel that won by little is looked at once more") {
  const Prices prices;
  for (const double fused_s : {0.95e-3, 0.8e-3}) {
    RegionPolicy policy;
    policy.decide(3, true, 1e-3, fused_s, 0, 0);
    CHECK(policy.wants(3, prices, 0) == Trial::kNone);
    policy.ran_fused(3, 1000);
    const bool slim = fused_s > 0.9e-3;
    CHECK(policy.wants(3, prices, 0) == (slim ? Trial::kConfirm : Trial::kNone));
    policy.decide(3, true, 1e-3, fused_s, 1, 0);  // and once only
    policy.ran_fused(3, 1000);
    CHECK(policy.wants(3, prices, 1) == Trial::kNone);
    CHECK(policy.measured(3)->kept == 0);
  }
}

TEST_CASE("tier/policy: a rate is what came lately, per second") {
  Rate rate(30);
  CHECK(rate.per_s(0) == 0);
  for (int second = 0; second < 600; ++second) rate.add(0.002, second);
  CHECK(rate.per_s(599) == doctest::Approx(0.002).epsilon(0.03));
  CHECK(rate.per_s(599 + 30) == doctest::Approx(rate.per_s(599) / 2));
  CHECK(rate.per_s(500) == rate.per_s(599));  // a clock that goes back
  CHECK(stale(rate.per_s(599), rate.per_s(599 + 120)));
  CHECK(!stale(rate.per_s(599), rate.per_s(599 + 60)));
  CHECK(!stale(0, 0));
}

TEST_CASE("tier/policy: code makes room by what a byte of it saves, and clearly") {
  CHECK(makes_room(0, 4096, 1e-3, 4096));
  CHECK(!makes_room(0, 4096, 0, 4096));
  CHECK(makes_room(1e-3, 4096, 2e-3, 4096));
  CHECK(!makes_room(1e-3, 4096, 1.2e-3, 4096));
  CHECK(makes_room(2e-3, 40960, 1e-3, 4096));
  CHECK(!makes_room(1e-3, 4096, 2e-3, 40960));
}

TEST_CASE("tier/policy: a busy host and a long queue raise the price") {
  Prices prices;
  const double free = prices.threshold_s(false);
  CHECK(prices.threshold_s(true) == doctest::Approx(2 * free));
  for (int k = 0; k < 50; ++k) prices.worked(0.01, 0.01);
  CHECK(prices.threshold_s(false) == doctest::Approx(free));
  for (int k = 0; k < 50; ++k) prices.worked(0.02, 0.01);  // half a processor
  CHECK(prices.threshold_s(false) == doctest::Approx(2 * free).epsilon(0.01));
  for (int k = 0; k < 50; ++k) prices.worked(10, 0.01);
  CHECK(prices.threshold_s(false) == doctest::Approx(Prices::kBusiest * free));
  prices.worked(10, 1e-6);  // too short to say anything
  for (int k = 0; k < 50; ++k) prices.worked(0.01, 0.01);
  CHECK(prices.threshold_s(false) == doctest::Approx(free));
  prices.queued = 3;
  CHECK(prices.threshold_s(false) == doctest::Approx(2 * free));
  prices.queued = 1000;
  CHECK(prices.threshold_s(false) == doctest::Approx(4 * free));
}

TEST_CASE("tier/policy: the sentinel looks at one run in a thousand and costs a thousandth") {
  CHECK(sentinel_runs(1e-6, 1e-3) == kSentinelRuns);
  // 2 ms of looking are a thousandth of 2 s: 200,000 runs of 10 us.
  CHECK(sentinel_runs(2e-3, 1e-5) == doctest::Approx(200'000));
  CHECK(std::isfinite(sentinel_runs(2e-3, 0)));
}

TEST_CASE("tier/policy: signatures of any size weigh alike in a pool") {
  // The fused kernel takes 0.7 of the time on every size; sizes span a factor of 1000 and come a
  // different number of times, few of them on both sides equally often.
  std::mt19937 random(11);
  std::vector<Sides> signatures;
  for (int k = 0; k < 40; ++k) {
    const double mean = 100.0 * std::pow(1000.0, k / 40.0);
    signatures.push_back(
        {times(random, mean, 1 + random() % 4), times(random, 0.7 * mean, 1 + random() % 4)});
  }
  const Sides pooled = pool(signatures);
  CHECK(pooled.active.size() < 200);
  const TrialResult result = judge(pooled.active, pooled.challenger);
  CHECK(result.verdict == Verdict::kAccept);
  CHECK(result.challenger / result.active == doctest::Approx(0.7).epsilon(0.1));
  for (Sides& sides : signatures) std::swap(sides.active, sides.challenger);
  const Sides back = pool(signatures);
  CHECK(judge(back.active, back.challenger).verdict == Verdict::kReject);
  CHECK(pool({}).active.empty());
  // No size comes twice: what is predicted for the sizes puts them on one scale.
  std::vector<Sides> once;
  for (int k = 0; k < 60; ++k) {
    const double mean = 100.0 * std::pow(4.0, k / 60.0);
    once.push_back({.predicted = 1e-9 * mean});
    (k % 2 ? once.back().challenger : once.back().active) =
        times(random, (k % 2 ? 0.7 : 1.0) * mean, 1);
  }
  const Sides lone = pool(once);
  const TrialResult seen = judge(lone.active, lone.challenger);
  CHECK(seen.verdict == Verdict::kAccept);
  CHECK(seen.challenger / seen.active == doctest::Approx(0.7).epsilon(0.1));
}

TEST_CASE("tier/policy: the budget allows a burst for a young model and a share of CPU after it") {
  Budget budget(2);
  CHECK(budget.allows(0, 100));
  budget.spend(0.3);
  CHECK_FALSE(budget.allows(1, 100));  // 0.2 to start with, 0.02 earned, 0.3 spent
  CHECK(budget.allows(1, 1));
  budget.spend(2.0);
  CHECK_FALSE(budget.allows(1, 1));
  CHECK(budget.allows(200, 100));
}

TEST_CASE("tier/policy: regret pays for a compile once gains add up, and never below a tenth") {
  Prices prices;
  Regret regret;
  for (int k = 0; k < 1000000; ++k) regret.add(16, 1e-6, 0.95e-6);
  CHECK(regret.seconds() == 0);
  regret.add(16, 100e-6, 50e-6);
  CHECK_FALSE(regret.exceeds(prices, false));
  regret.add(16, 100e-6, 50e-6);
  CHECK(regret.exceeds(prices, false));  // 1.6 ms against 0.3 x 4 ms
  CHECK_FALSE(regret.exceeds(prices, true));
}
