#include "runtime/epoch.h"

#include <algorithm>
#include <new>

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
    if (retired_.size() == retired_.capacity()) retired_.reserve(2 * retired_.size());
  } catch (const std::bad_alloc&) {
    // A run may be in it, and whoever published what replaces it cannot go back.
    new (never_destroyed_) std::shared_ptr<const void>(std::move(object));
    return;
  }
  retired_.push_back({epoch_.fetch_add(1, std::memory_order_seq_cst), std::move(object)});
}

/// An object that no run can see; null when there is none.
std::shared_ptr<const void> Epochs::take_dead() noexcept {
  std::lock_guard lock(mutex_);
  if (retired_.empty()) return nullptr;
  uint64_t oldest = UINT64_MAX;
  for (const RunContext* context : contexts_) {
    const uint64_t epoch = context->epoch.load(std::memory_order_seq_cst);
    if (epoch != 0) oldest = std::min(oldest, epoch);
  }
  // A run that entered at epoch e may see what was retired at e or later.
  const auto dead = std::find_if(retired_.begin(), retired_.end(),
                                 [&](const Retired& r) { return r.epoch < oldest; });
  if (dead == retired_.end()) return nullptr;
  std::shared_ptr<const void> object = std::move(dead->object);
  retired_.erase(dead);
  return object;
}

void Epochs::reclaim() noexcept {
  // Destroyed outside the lock.
  while (take_dead()) continue;
}

size_t Epochs::retired() const {
  std::lock_guard lock(mutex_);
  return retired_.size();
}

}  // namespace xc
