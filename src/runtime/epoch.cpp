#include "runtime/epoch.h"

#include <algorithm>

#include "runtime/run_context.h"

namespace xc {

void Epochs::add(RunContext* context) {
  std::lock_guard lock(mutex_);
  contexts_.push_back(context);
}

void Epochs::remove(RunContext* context) {
  std::lock_guard lock(mutex_);
  std::erase(contexts_, context);
}

void Epochs::retire(std::shared_ptr<const void> object) {
  if (!object) return;
  std::lock_guard lock(mutex_);
  retired_.push_back({epoch_.fetch_add(1, std::memory_order_seq_cst), std::move(object)});
}

void Epochs::reclaim() {
  std::vector<Retired> dead;  // destroyed outside the lock
  {
    std::lock_guard lock(mutex_);
    if (retired_.empty()) return;
    uint64_t oldest = UINT64_MAX;
    for (const RunContext* context : contexts_) {
      const uint64_t epoch = context->epoch.load(std::memory_order_seq_cst);
      if (epoch != 0) oldest = std::min(oldest, epoch);
    }
    // A run that entered at epoch e may see what was retired at e or later.
    const auto keep = std::stable_partition(retired_.begin(), retired_.end(),
                                            [&](const Retired& r) { return r.epoch >= oldest; });
    std::move(keep, retired_.end(), std::back_inserter(dead));
    retired_.erase(keep, retired_.end());
  }
}

size_t Epochs::retired() const {
  std::lock_guard lock(mutex_);
  return retired_.size();
}

}  // namespace xc
