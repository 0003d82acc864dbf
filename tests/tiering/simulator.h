#pragma once
// The adaptive policy under a simulated clock: regions are formulas for their times, runs and the
// compile thread advance virtual time, and what decides is src/tier's policy code itself. Runs in
// sequence; no threads, no clocks, so that every decision repeats.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "runtime/program.h"
#include "runtime/sampling.h"
#include "tier/policy.h"
#include "tier/publishing.h"
#include "tier/region_policy.h"
#include "tier/special_policy.h"

namespace xc::testing {

/// A region as the policy sees it: seconds of a run at size n, before and after, and what is
/// predicted. `fused` may depend on the run's number (a kernel that becomes slow).
struct SimulatedRegion {
  std::function<double(int64_t n)> base;
  std::function<double(int64_t n, int64_t run)> fused;
  std::function<double(int64_t n)> predicted;
  /// At size n by a kernel made for that size; none = such kernels do not exist.
  std::function<double(int64_t n)> special = {};
  double row = 1;  ///< elements of its innermost loop, times n
  double bytes_per_row = 4096;
  double compile_s = 0.005;  ///< CPU of the compile thread, verification included
};

struct SimulatedRun {
  double total_s = 0;    ///< of the runs, as the caller sees them
  double look_s = 0;     ///< of that, timing runs and telling of it
  double off_s = 0;      ///< the same without the tier
  double best_s = 0;     ///< with the faster of the two in every run, for free
  double compile_s = 0;  ///< spent by the compile thread
  double clairvoyant_s =
      0;  ///< least price of knowing the future: per region compile at once, or never
  double ahead_at = -1;  ///< first run from which on the caller is ahead of `off`; -1 = never
  int64_t trials = 0, swaps = 0, rolled_back = 0;
  int64_t compiles = 0, specials = 0;  ///< compiled; of those for special sizes
  /// What it cost not to know the future, compiling included, against what knowing it costs.
  /// Looking is apart: it costs a share of all runs, however long they go on.
  double regret() const { return (total_s - look_s - best_s + compile_s) / clairvoyant_s; }
};

class Simulation {
 public:
  explicit Simulation(std::vector<SimulatedRegion> regions, unsigned seed = 1)
      : random_(seed),
        regions_(std::move(regions)),
        states_(regions_.size()),
        noise_(regions_.size(), 1.0) {}

  static constexpr double kLookS = 1.5e-6;  ///< what timing a run and telling of it costs
  static constexpr double kBindS = 3e-6;    ///< binding a signature, with or without the tier

  /// One run per element of `sizes`.
  SimulatedRun run(const std::vector<int64_t>& sizes) {
    SimulatedRun out;
    std::vector<double> base_total(regions_.size()), best_total(regions_.size());
    for (size_t k = 0; k < sizes.size(); ++k) {
      const auto number = static_cast<int64_t>(k);
      const double bind_s = signatures_.count(sizes[k]) ? 0 : kBindS;
      out.total_s += bind_s + one_run(sizes[k], number, out);
      out.off_s += bind_s;
      out.best_s += bind_s;
      for (size_t r = 0; r < regions_.size(); ++r) {
        const double base = regions_[r].base(sizes[k]) * noise_[r];
        double best = std::min(base, regions_[r].fused(sizes[k], number) * noise_[r]);
        if (regions_[r].special) best = std::min(best, regions_[r].special(sizes[k]) * noise_[r]);
        out.off_s += base;
        out.best_s += best;
        base_total[r] += base;
        best_total[r] += best;
      }
      if (out.total_s > out.off_s)
        out.ahead_at = -1;
      else if (out.ahead_at < 0)
        out.ahead_at = static_cast<double>(k);
    }
    for (size_t r = 0; r < regions_.size(); ++r)
      out.clairvoyant_s += std::min(base_total[r] - best_total[r], regions_[r].compile_s);
    out.compile_s = spent_s_;
    return out;
  }

 private:
  struct State {
    policy::RegionPolicy policy;
    bool queued = false, compiled = false;
    SizeHistogram sizes;
    double used_runs = 0;
    double ready_s = 0;  ///< when the compile thread is done with it
    policy::Watch watch;
    int64_t watched = -1;                                ///< n
    double watched_s = 0;                                ///< when that came last
    std::map<int64_t, std::pair<double, double>> means;  ///< by n: seconds and samples, unfused
  };
  /// A kernel for some sizes of a region.
  struct Special {
    size_t region;
    int64_t value;  ///< -1 = any multiple of SizeHistogram::kVector
    State state;
    bool applies(int64_t n) const {
      return value >= 0 ? n == value : n % SizeHistogram::kVector == 0;
    }
  };
  struct Signature {
    std::vector<bool> fused;
    std::vector<size_t> special;  ///< per region, SIZE_MAX = none
    bool on_trial = false;
    int64_t last_run = 0;
    uint64_t attention = 0;
    int sample_bits = kNeverRan;
  };
  struct Trial {
    size_t region = SIZE_MAX;
    size_t special = SIZE_MAX;  ///< of the region, against what it runs
    int size = 0, reach = 0;
    bool confirm = false;
    std::map<int64_t, policy::Sides> sides{};  ///< by n, as signatures
    uint64_t samples = 0;
    double seen_s = 0;
  };

  /// A few per cent of noise, now and then an interruption.
  double noise() {
    return std::exp(std::normal_distribution<double>(0, 0.03)(random_)) *
           (random_() % 200 == 0 ? 3 : 1);
  }
  int size_of(size_t r, int64_t n) const {
    return policy::size_class(regions_[r].bytes_per_row * static_cast<double>(n));
  }

  double one_run(int64_t n, int64_t number, SimulatedRun& out) {
    // A signature is bound when it first comes, and anew after the first run that finds it behind.
    const auto [at, fresh] = signatures_.try_emplace(n);
    Signature& signature = at->second;
    if (fresh) bind(signature, n);
    const bool called = signature.attention != attention_;
    const bool on_trial = signature.on_trial && !called && trial_.region != SIZE_MAX;
    const bool of_special = on_trial && trial_.special != SIZE_MAX;
    bool challenger = false;
    if (on_trial) {
      const policy::Sides& sides = trial_.sides[n];
      challenger = trial_side(sides.active.size(), sides.challenger.size(),
                              static_cast<uint64_t>(number)) == 1;
    }
    double seconds = 0;
    std::vector<double> times(regions_.size());
    std::vector<bool> fused(regions_.size());
    for (size_t r = 0; r < regions_.size(); ++r) {
      fused[r] = signature.fused[r];
      bool special = signature.special[r] != SIZE_MAX;
      if (on_trial && r == trial_.region) {
        if (of_special)
          special = challenger != trial_.confirm;
        else
          fused[r] = challenger != trial_.confirm;
      }
      noise_[r] = noise();
      times[r] = noise_[r] * (special    ? regions_[r].special(n)
                              : fused[r] ? regions_[r].fused(n, number)
                                         : regions_[r].base(n));
      seconds += times[r];
    }
    // As Program::take_turn() and Program::observe().
    const bool alone = on_trial || called || number < 5;
    const int known = signature.sample_bits;
    const int bits = known < 0 ? std::min(kUnknownBits, latest_bits_) : known;
    const bool timed = alone || is_sampled(static_cast<uint64_t>(number), bits);
    const double look_s = timed ? kLookS : 0;
    out.look_s += look_s;
    now_s_ += seconds + look_s;
    if (known < 0) ++signature.sample_bits;
    if (timed && number > 0) {
      sampled(n, alone ? 1 : std::ldexp(1.0, bits), times, fused, on_trial, challenger, out);
      ++samples_;
    }
    if ((timed && number > 0) || known == kRanOnce)
      latest_bits_ = signature.sample_bits = sample_bits(samples_, seconds * 1e9, kLookS * 1e9);
    if (timed) bind(signature, n);
    signature.last_run = number;
    return seconds + look_s;
  }

  void bind(Signature& signature, int64_t n) {
    signature.attention = attention_;
    signature.fused.resize(regions_.size());
    for (size_t r = 0; r < regions_.size(); ++r)
      signature.fused[r] = states_[r].compiled && states_[r].policy.fused(size_of(r, n));
    signature.special.assign(regions_.size(), SIZE_MAX);
    for (size_t k = 0; k < specials_.size(); ++k) {
      const Special& s = specials_[k];
      if (signature.fused[s.region] && s.applies(n) && s.state.compiled &&
          s.state.policy.fused(size_of(s.region, n)))
        signature.special[s.region] = k;
    }
    signature.on_trial = trial_.region != SIZE_MAX &&
                         std::abs(size_of(trial_.region, n) - trial_.size) <= trial_.reach &&
                         (trial_.special == SIZE_MAX || specials_[trial_.special].applies(n));
  }

  void sampled(int64_t n, double runs, const std::vector<double>& times,
               const std::vector<bool>& fused, bool on_trial, bool challenger, SimulatedRun& out) {
    if (on_trial) {
      policy::Sides& sides = trial_.sides[n];
      auto& side = challenger ? sides.challenger : sides.active;
      if (side.size() >= BoundTimes::kRing) side.erase(side.begin());
      side.push_back(static_cast<float>(times[trial_.region] * 1e9));
      sides.predicted = regions_[trial_.region].predicted(n);
      trial_.seen_s = now_s_;
      for (size_t r = 0; r < regions_.size(); ++r)
        if (fused[r] && r != trial_.region) watch(states_[r], n, times[r], size_of(r, n));
      if (++trial_.samples >= 6 && trial_.samples % 2 == 0) judge(out);
      return;
    }
    if (trial_.region != SIZE_MAX &&
        now_s_ - trial_.seen_s > 0.25 * on_trial_().policy.patience(trial_.size)) {
      on_trial_().policy.gave_up(trial_.size);
      trial_ = {};
      ++attention_;
    }
    for (size_t r = 0; r < regions_.size(); ++r) {
      State& state = states_[r];
      const int size = size_of(r, n);
      if (fused[r]) {
        state.policy.ran_fused(size, runs);
        watch(state, n, times[r], size);
      } else {
        auto& [seconds, samples] = state.means[n];
        seconds += times[r];
        samples += 1;
        state.policy.ran_base(size, runs, seconds / samples, regions_[r].predicted(n), now_s_);
      }
      compile_when_worth(state, regions_[r].compile_s, out, false);
      try_when_worth(state, r, SIZE_MAX, size, out);
      if (fused[r] && regions_[r].special) specialise(r, n, runs, times[r], size, out);
    }
  }

  /// As watch() of tier/observer.cpp.
  void watch(State& state, int64_t n, double seconds, int size) {
    if (state.watched >= 0 && state.watched != n && now_s_ - state.watched_s < 1) return;
    if (state.watched != n) state.watch = {};
    state.watched = n;
    state.watched_s = now_s_;
    const auto* measured = state.policy.measured(size);
    if (!state.watch.add(1, seconds) || !measured) return;
    if (state.watch.look(state.watch.median_s() * measured->base_s / measured->fused_s,
                         measured->kept))
      state.policy.doubt(size);
  }

  void compile_when_worth(State& state, double compile_s, SimulatedRun& out, bool special) {
    if (!state.queued && state.policy.worth_compiling(prices_, !any_compiled_) &&
        budget_.allows(now_s_, now_s_)) {
      state.queued = any_compiled_ = true;
      state.ready_s = std::max(now_s_, thread_free_s_) + compile_s;
      thread_free_s_ = state.ready_s;
      spent_s_ += compile_s;
      budget_.spend(compile_s);
      prices_.learn(compile_s);
      ++out.compiles;
      out.specials += special;
    }
    if (state.queued && !state.compiled && now_s_ >= state.ready_s) state.compiled = true;
  }

  void try_when_worth(State& state, size_t r, size_t special, int size, SimulatedRun& out) {
    if (!state.compiled || trial_.region != SIZE_MAX) return;
    const policy::Trial wanted = state.policy.wants(size, prices_, now_s_);
    if (wanted == policy::Trial::kNone) return;
    trial_ = {.region = r,
              .special = special,
              .size = size,
              .reach = state.policy.reach(),
              .confirm = wanted == policy::Trial::kConfirm,
              .seen_s = now_s_};
    ++out.trials;
    ++attention_;
  }

  /// As tier::Specials::consider() and what observes its candidates; one size symbol, n.
  void specialise(size_t r, int64_t n, double runs, double taken_s, int size, SimulatedRun& out) {
    states_[r].sizes.add(n, runs);
    states_[r].used_runs += runs;
    const double row = regions_[r].row * static_cast<double>(n);
    const double gain = gain_.expected(row, now_s_);
    const policy::SizeChoice choice = policy::choose_size(n, states_[r].sizes);
    if ((choice.exact || choice.multiple) && states_[r].used_runs >= policy::kSpecialAfter &&
        gain >= 1 - policy::Regret::kMinimumGain) {
      const int64_t value = choice.exact ? n : -1;
      if (std::none_of(specials_.begin(), specials_.end(),
                       [&](const Special& s) { return s.region == r && s.value == value; }))
        specials_.push_back({r, value, {}});
    }
    for (size_t k = 0; k < specials_.size(); ++k) {
      Special& s = specials_[k];
      if (s.region != r || !s.applies(n)) continue;
      if (signatures_[n].special[r] == k)
        s.state.policy.ran_fused(size, runs);
      else
        s.state.policy.ran_base(size, runs, taken_s, taken_s * (1 - gain), now_s_);
      compile_when_worth(s.state, regions_[r].compile_s, out, true);
      try_when_worth(s.state, r, k, size, out);
    }
  }

  State& on_trial_() {
    return trial_.special == SIZE_MAX ? states_[trial_.region] : specials_[trial_.special].state;
  }

  /// What the runs of the trial took for want of the side that was in use.
  double lost_s() const {
    double lost = 0;
    for (const auto& [n, sides] : trial_.sides)
      if (!sides.active.empty() && !sides.challenger.empty())
        lost += (policy::median(sides.challenger) - policy::median(sides.active)) * 1e-9 *
                static_cast<double>(sides.challenger.size());
    return std::max(0.0, lost);
  }

  void judge(SimulatedRun& out) {
    std::vector<policy::Sides> all;
    for (const auto& [n, sides] : trial_.sides) all.push_back(sides);
    const policy::Sides pooled = policy::pool(all);
    const bool special = trial_.special != SIZE_MAX && !trial_.confirm;
    const policy::TrialResult result = policy::judge(
        pooled.active, pooled.challenger, special ? policy::kSpecialWorth : policy::kWorth);
    if (result.verdict == policy::Verdict::kUndecided) return;
    const bool fused = (result.verdict == policy::Verdict::kAccept) != trial_.confirm;
    if (special)
      gain_.learn(result.challenger / result.active,
                  regions_[trial_.region].row * static_cast<double>(trial_.sides.begin()->first),
                  now_s_);
    const bool confirm = trial_.confirm;
    on_trial_().policy.decide(trial_.size, fused, confirm ? result.challenger : result.active,
                              confirm ? result.active : result.challenger, now_s_, lost_s());
    on_trial_().watch = {};
    if (fused && !confirm) ++out.swaps;
    if (!fused && confirm) ++out.rolled_back;
    trial_ = {};
    ++attention_;
    // The signatures used last are published at once.
    std::vector<std::pair<int64_t, int64_t>> latest;
    for (const auto& [n, signature] : signatures_) latest.push_back({-signature.last_run, n});
    std::sort(latest.begin(), latest.end());
    for (size_t k = 0; k < std::min(latest.size(), tier::Publishing::kMaxRebound); ++k)
      bind(signatures_[latest[k].second], latest[k].second);
  }

  std::mt19937 random_;
  std::vector<SimulatedRegion> regions_;
  std::vector<State> states_;
  std::vector<Special> specials_;
  policy::SpecialGain gain_;
  std::vector<double> noise_;  ///< of the run at hand, by region
  policy::Prices prices_;
  policy::Budget budget_{2};
  Trial trial_;
  std::map<int64_t, Signature> signatures_;
  uint64_t attention_ = 0, samples_ = 0;
  int latest_bits_ = kSampleBits;
  bool any_compiled_ = false;
  double now_s_ = 0, thread_free_s_ = 0, spent_s_ = 0;
};

}  // namespace xc::testing
