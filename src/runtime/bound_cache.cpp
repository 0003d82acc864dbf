#include "runtime/bound_cache.h"

#include <utility>

#include "runtime/program.h"

namespace xc {

void BoundCache::add(const std::shared_ptr<Program>& program) {
  std::lock_guard lock(mutex_);
  if (gone_.exchange(0, std::memory_order_relaxed) > 0)
    std::erase_if(programs_, [](const auto& known) { return known.expired(); });
  programs_.push_back(program);
}

std::optional<BoundCache::Evicted> BoundCache::to_tell(int64_t shapes, int64_t bytes) {
  std::lock_guard lock(mutex_);
  untold_.shapes += shapes;
  untold_.bytes += bytes;
  if (told_ && untold_.bytes < cap_ / 2) return std::nullopt;
  told_ = true;
  return std::exchange(untold_, {});
}

std::vector<std::shared_ptr<Program>> BoundCache::programs() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Program>> out;
  out.reserve(programs_.size());
  for (const auto& known : programs_)
    if (auto program = known.lock()) out.push_back(std::move(program));
  return out;
}

HeldBytes::~HeldBytes() {
  if (!cache_) return;
  if (in_table_) out_of_table(false);
  if (retired_) cache_->retired_.fetch_sub(bytes_, std::memory_order_relaxed);
  cache_->alive_.fetch_sub(bytes_, std::memory_order_relaxed);
}

void HeldBytes::count(std::shared_ptr<BoundCache> cache, int64_t bytes) {
  cache_ = std::move(cache);
  bytes_ = bytes;
  cache_->alive_.fetch_add(bytes_, std::memory_order_relaxed);
}

void HeldBytes::into_table() {
  in_table_ = true;
  cache_->in_tables_.fetch_add(bytes_, std::memory_order_relaxed);
}

void HeldBytes::set_held(bool held) {
  if (held == held_) return;
  held_ = held;
  cache_->held_.fetch_add(held ? bytes_ : -bytes_, std::memory_order_relaxed);
}

void HeldBytes::out_of_table(bool evicted) {
  set_held(false);
  in_table_ = false;
  cache_->in_tables_.fetch_sub(bytes_, std::memory_order_relaxed);
  retired_ = evicted;
  if (evicted) cache_->retired_.fetch_add(bytes_, std::memory_order_relaxed);
}

}  // namespace xc
