#include "tier/region_policy.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace xc::policy {

int size_class(double bytes) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max(1.0, bytes))));
  return (bits - 1) / 2;
}

bool Watch::add(uint64_t samples, double seconds) {
  // Several, of other threads, are told as one.
  const auto each = static_cast<float>(seconds / static_cast<double>(samples));
  for (uint64_t k = 0; k < samples && samples_ < std::ssize(times_); ++k)
    times_[static_cast<size_t>(samples_++)] = each;
  return samples_ == std::ssize(times_);
}

bool Watch::look(double replaced_s, int kept) {
  const double now = median_s();
  samples_ = 0;
  if (!has_reference()) reference_s_ = replaced_s;
  alarms_ = now > kDrift * reference_s_ ? alarms_ + 1 : 0;
  if (alarms_ < kAlarms << std::min(kept, kMostKept)) return false;
  alarms_ = 0;
  return true;
}

void RegionPolicy::ran_base(int size, double calls, double base_s, double predicted_s,
                            double now_s) {
  AtSize& at = sizes_[size];
  if (at.choice == Choice::kBase && now_s < at.again_s) return;
  at.runs += calls;
  base_s_ += calls * base_s;
  at.base_s = at.choice == Choice::kOpen ? base_s : at.base_s;
  at.regret.add(calls, base_s, predicted_s);
}

void RegionPolicy::ran_fused(int size, double calls) {
  sizes_[size].runs += calls;
}

double RegionPolicy::regret_s() const {
  double seconds = 0;
  for (const auto& [size, at] : sizes_) seconds += at.regret.seconds();
  return seconds;
}

const RegionPolicy::AtSize* RegionPolicy::nearest(int size, int within) const {
  const AtSize* best = nullptr;
  int distance = within + 1;
  for (const auto& [other, at] : sizes_) {
    if (at.choice == Choice::kOpen) continue;
    const int d = std::abs(other - size);
    // Of two equally near the larger decides: what a kernel saves grows with the size.
    if (d < distance || (best && d == distance)) {
      best = &at;
      distance = d;
    }
  }
  return best;
}

bool RegionPolicy::fused(int size) const {
  if (always_) return true;
  const AtSize* at = nearest(size, kLikeness);
  return at && at->choice == Choice::kFused;
}

bool RegionPolicy::refused(int size) const {
  const auto at = sizes_.find(size);
  return at != sizes_.end() && at->second.choice == Choice::kBase;
}

Trial RegionPolicy::wants(int size, const Prices& prices, double now_s) const {
  if (always_) return Trial::kNone;
  const auto it = sizes_.find(size);
  if (it == sizes_.end()) return Trial::kNone;
  const AtSize& at = it->second;
  if (now_s < at.again_s) return Trial::kNone;
  switch (at.choice) {
    case Choice::kFused:
      return at.doubted || (at.slim && at.runs >= kConfirmAfter) ? Trial::kConfirm : Trial::kNone;
    case Choice::kBase:
      return at.regret.exceeds(prices, false) ? Trial::kTry : Trial::kNone;
    case Choice::kOpen:
      break;
  }
  if (at.doubted) return Trial::kConfirm;
  if (fused(size)) return at.runs >= kConfirmAfter ? Trial::kConfirm : Trial::kNone;
  // Now and then a prediction is wrong: a look costs little of so many runs.
  if (at.runs >= kConfirmAfter) return Trial::kTry;
  // The first trial is held where there is most to win: the others go by its verdict.
  bool first = true;
  double most = 0;
  for (const auto& [other, known] : sizes_) {
    first = first && known.choice == Choice::kOpen;
    most = std::max(most, known.regret.seconds());
  }
  if (first) return at.regret.seconds() >= 0.5 * most ? Trial::kTry : Trial::kNone;
  return at.regret.seconds() >= kTrialRuns * at.base_s ? Trial::kTry : Trial::kNone;
}

void RegionPolicy::decide(int size, bool fused, double base_s, double fused_s, double now_s,
                          double lost_s) {
  AtSize& at = sizes_[size];
  at.rolled_back = !fused && at.choice == Choice::kFused;
  at.kept = fused && at.choice == Choice::kFused ? at.kept + (at.doubted ? 1 : 0) : 0;
  // A chance in many tries: what was slow by little may have won. One confirmed has won twice.
  at.slim = fused && at.choice != Choice::kFused && fused_s > kSlim * base_s;
  at.choice = fused ? Choice::kFused : Choice::kBase;
  at.base_s = base_s;
  at.fused_s = fused_s;
  at.runs = 0;
  at.doubted = false;
  at.waits = 0;
  at.regret.reset();
  if (!fused) at.again_s = now_s + std::max(back_off_s(at.refusals++), kRarely * lost_s);
  latest_ = size;
}

void RegionPolicy::postpone(int size) {
  AtSize& at = sizes_[size];
  at.runs = 0;
  at.doubted = false;
  at.regret.reset();
}

void RegionPolicy::gave_up(int size) {
  postpone(size);
  ++sizes_[size].waits;
}

int RegionPolicy::patience(int size) const {
  const auto at = sizes_.find(size);
  return 1 << (at == sizes_.end() ? 0 : std::min(at->second.waits, kMostWaits));
}

void RegionPolicy::failed(int size, double now_s) {
  postpone(size);
  AtSize& at = sizes_[size];
  at.again_s = now_s + back_off_s(at.refusals++);
}

void RegionPolicy::evicted() {
  base_s_ = 0;
  for (auto& [size, at] : sizes_) {
    at.runs = 0;
    at.doubted = false;
    at.regret.reset();
  }
}

void RegionPolicy::recall(int size, const AtSize& known) {
  sizes_[size] = known;
  latest_ = size;
}

bool RegionPolicy::fused_anywhere() const {
  return always_ || std::any_of(sizes_.begin(), sizes_.end(), [](const auto& entry) {
           return entry.second.choice == Choice::kFused;
         });
}

bool RegionPolicy::refused_anywhere() const {
  return std::any_of(sizes_.begin(), sizes_.end(),
                     [](const auto& entry) { return entry.second.choice == Choice::kBase; });
}

const RegionPolicy::AtSize* RegionPolicy::measured(int size) const {
  return nearest(size, 64);
}

std::string_view name(RegionPolicy::Choice choice) {
  switch (choice) {
    case RegionPolicy::Choice::kOpen:
      return "open";
    case RegionPolicy::Choice::kFused:
      return "fused";
    case RegionPolicy::Choice::kBase:
      return "base";
  }
  return "unknown";
}

}  // namespace xc::policy
