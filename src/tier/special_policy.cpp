#include "tier/special_policy.h"

#include <algorithm>
#include <cmath>

namespace xc::policy {

SizeChoice choose_size(int64_t value, const SizeHistogram& seen) {
  constexpr double kFrequent = 0.2, kMostly = 0.5;
  SizeChoice out;
  out.exact = seen.share(value) >= kFrequent;
  out.multiple = !out.exact && value % SizeHistogram::kVector == 0 && value > 0 &&
                 seen.share_of_multiples() >= kMostly;
  return out;
}

double SpecialGain::short_rows(double now_s) const {
  return kPrior + (learnt_ - kPrior) * std::exp2(-std::max(0.0, now_s - at_s_) / kHalfLifeS);
}

double SpecialGain::expected(double row, double now_s) const {
  return short_rows(now_s) * std::min(1.0, kRow / std::max(1.0, row));
}

void SpecialGain::learn(double ratio, double row, double now_s) {
  const double part = std::min(1.0, kRow / std::max(1.0, row));
  const double gain = std::clamp((1 - ratio) / part, 0.0, 0.5);
  learnt_ = (1 - kWeight) * short_rows(now_s) + kWeight * gain;
  at_s_ = now_s;
}

}  // namespace xc::policy
