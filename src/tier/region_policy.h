#pragma once
// What is known of one region, by the size of the runs it was measured on, and what to do next:
// compile it, try it at this size, doubt it. Pure like policy.h: the caller measures, compiles and
// runs trials; a simulator runs the very code. State machine and constants: README.md of this
// folder.

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "tier/policy.h"

namespace xc::policy {

/// Class of sizes: runs in which a region moves bytes within a factor of four of each other, those
/// of weights not counted. One verdict holds for a class; a kernel that wins on long sequences may
/// lose on short ones.
int size_class(double bytes);

/// What still has to be measured at a size.
enum class Trial : uint8_t {
  kNone,
  kTry,     ///< fused against what runs now
  kConfirm  ///< it runs fused by likeness to other sizes, or became slow: is it worth keeping?
};

/// Whether a kernel in use has become slow: its times on one signature, kWindow samples at a time.
/// By their median, as trials judge: interruptions of a few runs are no drift.
class Watch {
 public:
  static constexpr uint64_t kWindow = 32;
  static constexpr double kDrift = 1.15;  ///< of the time of what it replaced: doubted
  /// Windows in a row; twice as many after each doubt that ended in keeping the kernel, up to
  /// 2^kMostKept times: where all has become slow at once, a trial tells nothing new.
  static constexpr int kAlarms = 2, kMostKept = 4;

  /// Whether a window is full with these samples, which took so long together.
  bool add(uint64_t samples, double seconds);
  double median_s() const { return median({times_.begin(), times_.begin() + samples_}); }
  /// Ends a window. `replaced_s`: what it replaced takes; asked for in the first window alone, or
  /// the watch would go by what has become slow. `kept`: AtSize::kept. True when the kernel is to
  /// be doubted.
  bool look(double replaced_s, int kept);
  /// Whether it knows what it replaced.
  bool has_reference() const { return reference_s_ > 0; }

 private:
  std::array<float, kWindow> times_{};  ///< seconds, of the first samples_
  int64_t samples_ = 0;
  double reference_s_ = 0;
  int alarms_ = 0;
};

class RegionPolicy {
 public:
  enum class Choice : uint8_t { kOpen, kFused, kBase };
  struct AtSize {
    Choice choice = Choice::kOpen;
    Regret regret{};
    double runs = 0;    ///< since the last verdict
    double base_s = 0;  ///< per run, of the last trial
    double fused_s = 0;
    int refusals = 0;
    double again_s = 0;        ///< after a refusal: when it may be tried again
    int waits = 0;             ///< trials in a row that were given up for want of runs
    bool slim = false;         ///< the trial that brought it into use found little between the two
    bool doubted = false;      ///< became slow
    int kept = 0;              ///< doubts in a row that ended in keeping it
    bool rolled_back = false;  ///< refused after it had been in use
  };

  /// `calls` runs took base_s each without the kernel where predicted_s is possible. `now_s`:
  /// clock.
  void ran_base(int size, double calls, double base_s, double predicted_s, double now_s);
  void ran_fused(int size, double calls);

  /// Regret over all sizes: what compiling would have saved so far, in seconds.
  double regret_s() const;
  /// When waiting has cost the price; or, whatever is predicted, when so much time went into it
  /// that a look costs next to nothing: predictions stand on a host that was measured in a few
  /// milliseconds, maybe bad ones.
  bool worth_compiling(const Prices& prices, bool first) const {
    return regret_s() >= prices.threshold_s(first) ||
           base_s_ >= kLookAfter * prices.compile_s * prices.busy;
  }
  /// Of a compiled and verified kernel.
  Trial wants(int size, const Prices& prices, double now_s) const;
  /// Classes next to the one on trial whose runs take part: the first verdict goes for them too.
  int reach() const { return latest() ? 0 : 1; }
  /// Whether runs of this size use the kernel: as decided there, else as at the nearest size
  /// decided within kLikeness, else not.
  bool fused(int size) const;

  /// Whether it lost its trial at this very size.
  bool refused(int size) const;

  /// The verdict of a trial, with the times per run it saw, which lost its runs `lost_s` in all.
  void decide(int size, bool fused, double base_s, double fused_s, double now_s, double lost_s);
  /// A verdict of an earlier process.
  void recall(int size, const AtSize& known);
  /// Fused at every size from now on, without trials (mode sync).
  void always() { always_ = true; }
  bool is_always() const { return always_; }
  /// The trial cannot be held or decided now: it has to earn another.
  void postpone(int size);
  /// So for want of runs of this size: they may be far between, and the next trial waits for them
  /// twice as long.
  void gave_up(int size);
  /// How many times as long as the first one.
  int patience(int size) const;
  /// Runs of the trial failed: not before some time, twice as long after each of them.
  void failed(int size, double now_s);
  /// Its code is gone: verdicts stay, what waiting costs is counted anew.
  void evicted();
  void doubt(int size) { sizes_[size].doubted = true; }
  /// Whether it became slow at this very size, and nothing was decided since.
  bool doubted(int size) const {
    const auto at = sizes_.find(size);
    return at != sizes_.end() && at->second.doubted;
  }
  bool fused_anywhere() const;
  bool refused_anywhere() const;
  /// Time per run without and with the kernel at a size, from the nearest trial; null without any.
  const AtSize* measured(int size) const;
  /// The verdict reached last; null without any.
  const AtSize* latest() const { return latest_ == kNever ? nullptr : &sizes_.at(latest_); }
  const std::map<int, AtSize>& sizes() const { return sizes_; }

  /// Classes (factors of four) over which a verdict is taken over until there is an own one.
  static constexpr int kLikeness = 2;
  /// Runs after which a verdict taken over, or none, is checked: a trial of 8 runs a side then
  /// costs at most 3 % of them.
  static constexpr double kConfirmAfter = 256;
  /// Times the price of compiling that a region takes before it is tried against its prediction.
  static constexpr double kLookAfter = 300;
  /// What a lost trial cost is paid for by so many times that long without one.
  static constexpr double kRarely = 100;
  /// Of the time of what it replaced: a kernel that wins by less is looked at once more.
  static constexpr double kSlim = 0.9;
  /// A trial is waited for 2^kMostWaits times as long as the first one at most.
  static constexpr int kMostWaits = 6;
  /// Trying a kernel at a size costs a handful of slower runs: regret in runs that pays for it.
  static constexpr double kTrialRuns = 8;

 private:
  static constexpr int kNever = INT32_MIN;
  const AtSize* nearest(int size, int within) const;

  std::map<int, AtSize> sizes_;
  double base_s_ = 0;  ///< all runs without the kernel, since it was there last
  int latest_ = kNever;
  bool always_ = false;
};

std::string_view name(RegionPolicy::Choice choice);

}  // namespace xc::policy
