#include "profile/size_histogram.h"

#include <algorithm>

namespace xc {

void SizeHistogram::add(int64_t value, double runs) {
  total_ += runs;
  if (value % kVector == 0) multiples_ += runs;
  const auto end = counters_.begin() + static_cast<ptrdiff_t>(used_);
  auto at =
      std::find_if(counters_.begin(), end, [&](const Counter& c) { return c.value == value; });
  if (at == end && used_ < kCounters) {
    *at = {value, 0, 0};
    ++used_;
  } else if (at == end) {
    at = std::min_element(counters_.begin(), end,
                          [](const Counter& a, const Counter& b) { return a.runs < b.runs; });
    *at = {value, at->runs, at->runs};
  }
  at->runs += runs;
  if (total_ < kHorizon) return;
  total_ /= 2;
  multiples_ /= 2;
  for (Counter& c : counters_) {
    c.runs /= 2;
    c.error /= 2;
  }
}

double SizeHistogram::share(int64_t value) const {
  for (size_t k = 0; k < used_; ++k)
    if (counters_[k].value == value) return (counters_[k].runs - counters_[k].error) / total_;
  return 0;
}

std::vector<SizeHistogram::Frequent> SizeHistogram::frequent() const {
  std::vector<Frequent> out;
  for (size_t k = 0; k < used_; ++k)
    if (const double s = share(counters_[k].value); s > 0) out.push_back({counters_[k].value, s});
  std::stable_sort(out.begin(), out.end(),
                   [](const Frequent& a, const Frequent& b) { return a.share > b.share; });
  return out;
}

}  // namespace xc
