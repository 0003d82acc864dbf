#include "tier/policy.h"

#include <algorithm>
#include <cmath>

#include "base/cpu_info.h"

namespace xc::policy {

double predict_s(double bytes, double flops) {
  // Single-core figures by the level that holds the region's operands, what good cores reach; a
  // fused kernel that does worse is caught by the trial.
  const double bandwidth = bytes < 0.75e6 ? 200e9 : bytes < 16e6 ? 90e9 : 40e9;
  // Measured on fused softmax, GELU and normalisations, by vector width. Too high a rate costs a
  // compile that the trial turns down; too low a one leaves a gain untried.
  const Isa isa = cpu_info().isa;
  const double rate = isa == Isa::kAvx512 ? 60e9 : isa == Isa::kAvx2 ? 35e9 : 15e9;
  constexpr double kLaunch = 60e-9;
  return std::max(bytes / bandwidth, flops / rate) + kLaunch;
}

namespace {

double quantile(std::vector<float>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

TrialResult judge(std::vector<float> active, std::vector<float> challenger) {
  constexpr size_t kEarly = 8, kEnough = 20, kLast = 64;
  TrialResult result;
  const size_t n = std::min(active.size(), challenger.size());
  if (n < kEarly) return result;
  std::sort(active.begin(), active.end());
  std::sort(challenger.begin(), challenger.end());
  result.active = quantile(active, 0.5);
  result.challenger = quantile(challenger, 0.5);
  const double ratio = result.challenger / std::max(1e-9, result.active);
  // Early: most of the challenger's runs beat most of the active one's, by a wide margin.
  if (ratio <= 1 / 1.2 && quantile(challenger, 0.75) < quantile(active, 0.25)) {
    result.verdict = Verdict::kAccept;
    return result;
  }
  if (n >= kEnough && ratio <= 0.97) {
    // The medians differ by more than three standard errors (of medians, from the quartiles).
    const double spread = (quantile(active, 0.75) - quantile(active, 0.25) +
                           quantile(challenger, 0.75) - quantile(challenger, 0.25)) /
                          2;
    const double error = 0.93 * spread * std::sqrt(2.0 / static_cast<double>(n));
    if (result.active - result.challenger > 3 * error || (n >= kLast && ratio <= 0.95))
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
  Sides out;
  for (const Sides& sides : signatures) {
    const double by = scale(sides);
    if (by == 0) continue;
    for (float t : sides.active) out.active.push_back(static_cast<float>(t / by));
    for (float t : sides.challenger) out.challenger.push_back(static_cast<float>(t / by));
  }
  return out;
}

double back_off_s(int refusals) {
  return std::ldexp(1.0, std::min(refusals, 6));
}

bool Budget::allows(double cpu_s, double age_s) {
  if (last_cpu_ >= 0) tokens_ = std::min(kCap, tokens_ + share_ * std::max(0.0, cpu_s - last_cpu_));
  last_cpu_ = cpu_s;
  return tokens_ > 0 || (age_s < kBurstSeconds && tokens_ > -kCap);
}

}  // namespace xc::policy
