#include "profile/ledger.h"

#include <algorithm>

namespace xc {

Ledger::Account& Ledger::account(const Shape& shape) {
  if (last_ != accounts_.end() && last_->first == shape) return last_->second;
  last_ = accounts_.find(shape);
  if (last_ != accounts_.end()) return last_->second;
  if (accounts_.size() >= kShapes) {
    const auto least = std::min_element(
        accounts_.begin(), accounts_.end(),
        [](const auto& a, const auto& b) { return a.second.calls < b.second.calls; });
    others_.calls += least->second.calls;
    others_.live_calls += least->second.live_calls;
    others_.saved_s += least->second.saved_s;
    accounts_.erase(least);
  }
  last_ = accounts_.try_emplace(shape).first;
  return last_->second;
}

void Ledger::replaced(const Shape& shape, double calls, double seconds, double predicted_s) {
  Account& a = account(shape);
  a.calls += calls;
  a.now_s = seconds;
  if (a.fused_s == 0) a.before_s = seconds;
  a.predicted_s = predicted_s;
  a.estimated = false;
  calls_ += calls;
}

void Ledger::trialled(const Shape& shape, double before_s, double fused_s) {
  Account& a = account(shape);
  a.before_s = before_s;
  a.fused_s = fused_s;
  a.estimated = false;
}

void Ledger::live(const Shape& shape, double calls, double seconds, double ratio) {
  Account& a = account(shape);
  a.calls += calls;
  a.live_calls += calls;
  a.now_s = seconds;
  calls_ += calls;
  if (a.fused_s == 0) {
    if (ratio == 0) return;
    a.estimated = true;
    a.before_s = seconds * ratio;
  }
  const double saved = calls * (a.before_s - (a.fused_s > 0 ? a.fused_s : seconds));
  a.saved_s += saved;
  saved_s_ += saved;
}

}  // namespace xc
