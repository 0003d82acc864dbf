#include "tier/policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace xc::policy {

double predict_s(const HostSpeed& host, double bytes, double product_flops, double flops) {
  // A fused kernel that does worse than good ones is caught by the trial.
  constexpr double kLaunch = 60e-9;
  return std::max(bytes / host.bandwidth(bytes),
                  product_flops / host.product_rate + flops / host.cell_rate) +
         kLaunch;
}

namespace {

double quantile(std::vector<float>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

TrialResult judge(std::vector<float> active, std::vector<float> challenger, double worth) {
  constexpr size_t kLeast = 3, kFirst = 5, kEarly = 8, kEnough = 20, kLast = 64;
  TrialResult result;
  const size_t n = std::min(active.size(), challenger.size());
  if (n < kLeast) return result;
  std::sort(active.begin(), active.end());
  std::sort(challenger.begin(), challenger.end());
  result.active = quantile(active, 0.5);
  result.challenger = quantile(challenger, 0.5);
  const double ratio = result.challenger / std::max(1e-9, result.active);
  // At once: every run of one side beats every run of the other, 1 in 252 by chance with 5 a side
  // (rank sum test); with fewer the gap must also be wide beside what either side varies by. So it
  // may be without the slowest run of each side, for interruptions only ever add time.
  for (const size_t dropped : {size_t{0}, size_t{1}}) {
    if (n < kLeast + dropped) break;
    const float slowest_active = active[active.size() - 1 - dropped],
                slowest_challenger = challenger[challenger.size() - 1 - dropped];
    const double varies =
        std::max(slowest_active - active.front(), slowest_challenger - challenger.front());
    const bool clear =
        (n >= kFirst && dropped == 0) || std::fabs(result.active - result.challenger) > 2 * varies;
    if (clear && ratio <= 1 / 1.1 && slowest_challenger < active.front()) {
      result.verdict = Verdict::kAccept;
      return result;
    }
    if (clear && ratio >= 1.1 && challenger.front() > slowest_active) {
      result.verdict = Verdict::kReject;
      return result;
    }
  }
  if (n < kEarly) return result;
  // Early: most runs of one side beat most of the other's, by a wide margin.
  if (ratio <= 1 / 1.2 && quantile(challenger, 0.75) < quantile(active, 0.25)) {
    result.verdict = Verdict::kAccept;
    return result;
  }
  if (ratio >= 1.2 && quantile(challenger, 0.25) > quantile(active, 0.75)) {
    result.verdict = Verdict::kReject;
    return result;
  }
  if (n >= kEnough && ratio <= worth) {
    // The medians differ by more than three standard errors (of medians, from the quartiles).
    const double spread = (quantile(active, 0.75) - quantile(active, 0.25) +
                           quantile(challenger, 0.75) - quantile(challenger, 0.25)) /
                          2;
    const double error = 0.93 * spread * std::sqrt(2.0 / static_cast<double>(n));
    if (result.active - result.challenger > 3 * error || (n >= kLast && ratio <= worth - 0.02))
      result.verdict = Verdict::kAccept;
  }
  if (result.verdict == Verdict::kUndecided && (n >= kLast || (n >= kEnough && ratio >= 1.10)))
    result.verdict = Verdict::kReject;
  return result;
}

double median(std::vector<float> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle);
}

double scale(const Sides& sides) {
  if (sides.active.empty() || sides.challenger.empty()) return 0;
  return std::sqrt(std::max(1.0, median(sides.active)) * std::max(1.0, median(sides.challenger)));
}

Sides pool(const std::vector<Sides>& signatures) {
  // What a predicted second is in measured ones, from signatures seen on both sides.
  std::vector<double> rates;
  for (const Sides& sides : signatures)
    if (const double by = scale(sides); by > 0) rates.push_back(by / sides.predicted);
  const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  const double rate = rates.empty() ? 1.0 : *middle;
  Sides out;
  for (const Sides& sides : signatures) {
    double by = scale(sides);
    if (by == 0) by = rate * sides.predicted;
    for (float t : sides.active) out.active.push_back(static_cast<float>(t / by));
    for (float t : sides.challenger) out.challenger.push_back(static_cast<float>(t / by));
  }
  return out;
}

double back_off_s(int refusals) {
  return std::ldexp(1.0, std::min(refusals, 12));
}

void Prices::worked(double wall_s, double cpu_s) {
  constexpr double kTooShort = 1e-3;  // waking up is a large part of it
  if (cpu_s < kTooShort) return;
  busy = std::clamp(0.7 * busy + 0.3 * wall_s / cpu_s, 1.0, kBusiest);
}

double Prices::threshold_s(bool first) const {
  constexpr double kLongest = 4;
  const double waiting = std::min(kLongest, 1 + static_cast<double>(queued) / 3);
  return sigma * compile_s * busy * waiting * (first ? first_factor : 1.0);
}

void Rate::add(double amount, double now_s) {
  sum_ = sum_ * std::exp2(-std::max(0.0, now_s - at_s_) / half_life_s_) + amount;
  at_s_ = now_s;
}

double Rate::per_s(double now_s) const {
  return sum_ * std::exp2(-std::max(0.0, now_s - at_s_) / half_life_s_) * std::log(2.0) /
         half_life_s_;
}

double sentinel_runs(double check_s, double run_s) {
  constexpr double kShare = 1e-3, kShortest = 1e-7;
  return std::max(kSentinelRuns, check_s / (kShare * std::max(run_s, kShortest)));
}

bool Budget::allows(double cpu_s, double age_s) {
  if (last_cpu_ >= 0) tokens_ = std::min(kCap, tokens_ + share_ * std::max(0.0, cpu_s - last_cpu_));
  last_cpu_ = cpu_s;
  return tokens_ > 0 || (age_s < kBurstSeconds && tokens_ > -kCap);
}

}  // namespace xc::policy
