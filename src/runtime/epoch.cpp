#include "runtime/epoch.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "runtime/run_context.h"

namespace xc {

Epochs::Epochs() {
  retired_.reserve(kRoom);
}

void Epochs::add(RunContext* context) {
  std::lock_guard lock(mutex_);
  contexts_.push_back(context);
}

void Epochs::retire(std::shared_ptr<const void> object) noexcept {
  if (!object) return;
  std::lock_guard lock(mutex_);
  try {
    if (retired_.size() == retired_.capacity()) {
      if (first_ >= retired_.size() / 2) {
        retired_.erase(retired_.begin(), retired_.begin() + static_cast<ptrdiff_t>(first_));
        first_ = 0;
      }
      if (retired_.size() == retired_.capacity()) retired_.reserve(2 * retired_.size());
    }
  } catch (const std::bad_alloc&) {
    // A run may be in it, and whoever published what replaces it cannot go back.
    new (never_destroyed_) std::shared_ptr<const void>(std::move(object));
    return;
  }
  retired_.push_back({epoch_.fetch_add(1, std::memory_order_seq_cst), std::move(object)});
}

/// A run that entered at epoch e may see what was retired at e or later; one that comes later than
/// this call, what is retired from now on.
uint64_t Epochs::oldest_run() const noexcept {
  uint64_t oldest = epoch_.load(std::memory_order_seq_cst);
  for (const RunContext* context : contexts_) {
    const uint64_t epoch = context->epoch.load(std::memory_order_seq_cst);
    if (epoch != 0) oldest = std::min(oldest, epoch);
  }
  return oldest;
}

bool Epochs::reclaim(size_t most) noexcept {
  std::array<std::shared_ptr<const void>, kRoom> dead;
  uint64_t oldest = 0;
  bool all = false;
  while (!all && most > 0) {
    size_t count = 0;
    {
      std::lock_guard lock(mutex_);
      if (oldest == 0 && first_ < retired_.size()) oldest = oldest_run();
      while (count < dead.size() && most > 0 && first_ < retired_.size() &&
             retired_[first_].epoch < oldest) {
        dead[count++] = std::move(retired_[first_++].object);
        --most;
      }
      const bool none = first_ == retired_.size();
      all = none || retired_[first_].epoch >= oldest;
      if (all) waits_for_.store(none ? 0 : oldest, std::memory_order_relaxed);
      if (none) {
        retired_.clear();
        first_ = 0;
      }
    }
    // Destroyed outside the lock.
    for (size_t k = 0; k < count; ++k) dead[k].reset();
  }
  return all;
}

size_t Epochs::retired() const {
  std::lock_guard lock(mutex_);
  return retired_.size() - first_;
}

}  // namespace xc
