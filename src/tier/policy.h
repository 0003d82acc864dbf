#pragma once
// When to compile and what to keep: pure functions of measurements, without clocks and threads, so
// that tests and a simulator run the very code. Formulas: README.md of this folder.

#include <cstdint>
#include <vector>

#include "backends/host_speed.h"

namespace xc::policy {

/// Prices in seconds of compile-thread CPU, learnt online.
struct Prices {
  double compile_s = 0.004;   ///< EWMA of lower + compile + verify per region
  double sigma = 0.3;         ///< what a second of background CPU is worth to the runs
  double first_factor = 2.0;  ///< caution for the first compile in a process
  double busy = 1.0;   ///< EWMA of elapsed over CPU time of background jobs, at most kBusiest
  int64_t queued = 0;  ///< background jobs waiting now
  void learn(double seconds) { compile_s = 0.8 * compile_s + 0.2 * seconds; }
  /// A background job, which never waits for anything but the processor, took `wall_s` for `cpu_s`
  /// of it: a host that has no time to spare makes it wait.
  void worked(double wall_s, double cpu_s);
  /// Regret at which a compile pays: later where processors are busy and jobs wait.
  double threshold_s(bool first) const;
  static constexpr double kBusiest = 3;
};

/// An amount per second, of the recent past: after a half-life half of it counts.
class Rate {
 public:
  explicit Rate(double half_life_s = kHalfLifeS) : half_life_s_(half_life_s) {}
  void add(double amount, double now_s);
  double per_s(double now_s) const;
  static constexpr double kHalfLifeS = 30;

 private:
  double half_life_s_, sum_ = 0, at_s_ = 0;
};

/// Whether a compile that was queued at one rate of loss per second is pointless at the present
/// one.
inline bool stale(double queued_per_s, double now_per_s) {
  return now_per_s < 0.1 * queued_per_s;
}
/// Whether code that saves `saved_per_s` makes room for code expected to save `wanted_per_s`: by
/// what a byte saves, and clearly, or the two would throw each other out.
inline bool makes_room(double saved_per_s, int64_t bytes, double wanted_per_s, int64_t wanted) {
  return saved_per_s / static_cast<double>(bytes) * 1.5 <
         wanted_per_s / static_cast<double>(wanted);
}

/// Accumulated regret of running the slower version (ski rental: 2-competitive at factor 1).
class Regret {
 public:
  /// A sample: `calls` calls took now_s each where predicted_s was possible.
  void add(double calls, double now_s, double predicted_s) {
    if (predicted_s < kMinimumGain * now_s) seconds_ += calls * (now_s - predicted_s);
  }
  bool exceeds(const Prices& prices, bool first) const {
    return seconds_ >= prices.threshold_s(first);
  }
  double seconds() const { return seconds_; }
  void reset() { seconds_ = 0; }
  /// Gains below 10 % are not worth a compile.
  static constexpr double kMinimumGain = 0.9;

 private:
  double seconds_ = 0;
};

/// Predicted seconds of a fused region on one core: bytes at the bandwidth of the level they live
/// in, or its operations at the host's rates, whichever takes longer, and one launch.
double predict_s(const HostSpeed& host, double bytes, double product_flops, double flops);

enum class Verdict : uint8_t { kUndecided, kAccept, kReject };

/// The sequential test of a trial: times of the focus steps on alternating runs.
/// Decides at once at 1.1x either way when 5 samples a side do not overlap (or 3 that lie far
/// apart), early at 1.2x with 8 that hardly do; accepts at <= `worth` with a clear margin; rejects
/// when 64 samples a side do not show it.
struct TrialResult {
  Verdict verdict = Verdict::kUndecided;
  double active = 0;      ///< median
  double challenger = 0;  ///< median
};
constexpr double kWorth = 0.97;  ///< of the time of what runs now: what a challenger has to reach
TrialResult judge(std::vector<float> active, std::vector<float> challenger, double worth = kWorth);

/// Times of both sides on one signature.
struct Sides {
  std::vector<float> active{}, challenger{};
  double predicted = 1;  ///< relative to the other signatures: what its size makes of a time
};
/// The median of times, which must not be empty.
double median(std::vector<float> times);
/// The geometric mean of the medians of both sides; 0 when one has no sample.
double scale(const Sides& sides);
/// The samples of several signatures as one: each signature's divided by its scale, so that fast
/// and slow sizes weigh alike and a ratio of medians stays one. A signature that was seen on one
/// side only (streams in which no size repeats) is scaled by what is predicted for its size.
Sides pool(const std::vector<Sides>& signatures);

/// Seconds until a region may be tried again, refused as often before: 2^refusals, at most 4096.
double back_off_s(int refusals);

/// Runs of a region in use between two looks of the sentinel: at most one in a thousand, and so few
/// that comparing costs at most a thousandth of the time the region runs. `check_s`: CPU seconds
/// the last look took; `run_s`: of the region per run, 0 = not known.
constexpr double kSentinelRuns = 1024;
double sentinel_runs(double check_s, double run_s);

/// Token bucket of compile CPU: refills with a share of process CPU time.
class Budget {
 public:
  explicit Budget(double percent) : share_(percent / 100.0) {}
  /// `cpu_s`: process CPU seconds so far; `age_s`: age of the youngest model.
  bool allows(double cpu_s, double age_s);
  void spend(double seconds) { tokens_ -= seconds; }
  double tokens() const { return tokens_; }

 private:
  static constexpr double kStart = 0.2, kCap = 2.0, kBurstSeconds = 5.0;
  double share_;
  double tokens_ = kStart;
  double last_cpu_ = -1;
};

}  // namespace xc::policy
