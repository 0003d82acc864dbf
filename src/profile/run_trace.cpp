#include "profile/run_trace.h"

namespace xc {

void RunTrace::add(TracedRun run) {
  run.thread = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  steps_ += run.steps.size();
  runs_.push_back(std::move(run));
  while (steps_ > max_steps_ && runs_.size() > 1) {
    steps_ -= runs_.front().steps.size();
    runs_.pop_front();
    ++dropped_;
  }
}

RunTrace::Snapshot RunTrace::snapshot() const {
  std::lock_guard lock(mutex_);
  return {{runs_.begin(), runs_.end()}, dropped_};
}

}  // namespace xc
