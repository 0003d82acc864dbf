// What the runs of an entry execute from now on: the one thing that is swapped. What it replaces is
// destroyed when no run can be in it any more (epoch.h).

#include <utility>

#include "runtime/program.h"

namespace xc {

void Program::publish(SignatureEntry& entry, std::shared_ptr<const Published> published) {
  std::shared_ptr<const Published> old;
  {
    std::lock_guard lock(mutex_);
    entry.current.store(published.get(), std::memory_order_release);
    old = std::exchange(entry.owner, std::move(published));
  }
  epochs_.retire(std::move(old));
  epochs_.reclaim();
}

void Program::set_base(SignatureEntry& entry, std::shared_ptr<Version> base) {
  std::shared_ptr<Version> old;
  std::shared_ptr<const Published> now;
  {
    std::lock_guard lock(mutex_);
    old = std::exchange(entry.base, base);
    if (entry.owner->active == old) {
      auto published = std::make_shared<Published>(*entry.owner);
      published->active = base;
      if (published->with_active) published->with_active = published_alone(base->bound);
      now = std::move(published);
    }
  }
  if (now) publish(entry, std::move(now));
  epochs_.retire(std::move(old));
}

std::shared_ptr<const Published> Program::published(const SignatureEntry& entry) const {
  std::lock_guard lock(mutex_);
  return entry.owner;
}

std::shared_ptr<const Version> Program::base_of(const SignatureEntry& entry) const {
  std::lock_guard lock(mutex_);
  return entry.base;
}

void Program::settle(SignatureEntry& entry) {
  rebind(entry, {.background = true});
}

bool Program::settle_some(SignatureEntry& entry, double seconds) {
  const auto stand_ins = [&] {
    const std::shared_ptr<const Version> base = base_of(entry), active = published(entry)->active;
    return active->bound->stand_ins + (base && base != active ? base->bound->stand_ins : 0);
  };
  const uint32_t before = stand_ins();
  rebind(entry, {.background = true, .seconds = seconds});
  // Where nothing got better, the next run need not try.
  if (const uint32_t left = stand_ins(); left > 0 && left < before) return false;
  settle(entry);  // what runs band by band
  return true;
}

void Program::rebind(SignatureEntry& entry, const BindOptions& options) {
  std::shared_ptr<Version> base, active;
  {
    std::lock_guard lock(mutex_);
    base = entry.base;
    active = entry.owner->active;
  }
  const auto again = [&](const Version& version) {
    BindOptions all = options;
    all.like = version.bound.get();
    return std::make_shared<Version>(bind(entry, version.bound->plan, all));
  };
  if (base && base->bound->provisional) set_base(entry, again(*base));
  if (active == base || !active->bound->provisional) return;
  auto settled = std::make_shared<Published>();
  settled->active = again(*active);
  {
    std::lock_guard lock(mutex_);
    if (entry.owner->active != active || entry.owner->challenger) return;
  }
  publish(entry, std::move(settled));
}

void Program::set_preferred_plan(std::shared_ptr<const Plan> plan) {
  std::lock_guard lock(mutex_);
  preferred_plan_ = std::move(plan);
}

std::shared_ptr<const Plan> Program::preferred_plan() const {
  std::lock_guard lock(mutex_);
  return preferred_plan_;
}

}  // namespace xc
