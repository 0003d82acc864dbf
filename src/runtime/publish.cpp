// What the runs of an entry execute from now on: the one thing that is swapped. What it replaces is
// destroyed when no run can be in it any more (epoch.h).

#include <utility>

#include "runtime/program.h"

namespace xc {

namespace {

/// What runs executed until now. Under Program::mutex_.
std::shared_ptr<const Published> exchange_published(SignatureEntry& entry,
                                                    std::shared_ptr<const Published> published) {
  entry.current.store(published.get(), std::memory_order_release);
  return std::exchange(entry.owner, std::move(published));
}

}  // namespace

void Program::publish(SignatureEntry& entry, std::shared_ptr<const Published> published) {
  std::shared_ptr<const Published> old;
  {
    std::lock_guard lock(mutex_);
    old = exchange_published(entry, std::move(published));
  }
  epochs_.retire(std::move(old));
  epochs_.reclaim();
}

void Program::set_base(SignatureEntry& entry, std::shared_ptr<Version> base) {
  std::shared_ptr<Version> old_base;
  std::shared_ptr<const Published> old;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Published> now;
    // One side of a trial stays what it is compared as; what follows it is the new one.
    if (entry.owner->active == entry.base && entry.owner->timed) {
      now = std::make_shared<Published>(*entry.owner);
      if (now->with_active) now->with_active = published_alone(base->bound);
    } else if (entry.owner->active == entry.base) {
      now = std::make_shared<Published>(*entry.owner);
      now->active = base;
      if (now->with_active) now->with_active = published_alone(base->bound);
    }
    old_base = std::exchange(entry.base, std::move(base));
    if (now) old = exchange_published(entry, std::move(now));
  }
  epochs_.retire(std::move(old));
  epochs_.retire(std::move(old_base));
  epochs_.reclaim();
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
  const auto can_be_better = [](const Version& version) {
    return version.bound->provisional || version.bound->outdated();
  };
  const auto again = [&](const Version& version) {
    BindOptions all = options;
    all.like = version.bound.get();
    return std::make_shared<Version>(bind(entry, version.bound->plan, all));
  };
  if (base && can_be_better(*base)) set_base(entry, again(*base));
  if (active == base || !can_be_better(*active)) return;
  auto settled = std::make_shared<Published>();
  settled->active = again(*active);
  std::shared_ptr<const Published> old;
  {
    std::lock_guard lock(mutex_);
    if (entry.owner->active != active || entry.owner->challenger || entry.owner->timed) return;
    old = exchange_published(entry, std::move(settled));
  }
  epochs_.retire(std::move(old));
  epochs_.reclaim();
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
