#pragma once
// When the steps of sampled runs began and ended, kept for a time line.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "plan/plan.h"

namespace xc {

/// Times are counts of base/clock.h's ticks().
struct TracedStep {
  uint32_t step;  ///< of the plan
  uint64_t begin, end;
};

struct TracedRun {
  std::shared_ptr<const Plan> plan;
  std::vector<int64_t> symbols;  ///< of the plan, those that the run found out too
  bool challenger = false;       ///< the side of a trial
  uint64_t begin = 0, end = 0;
  std::thread::id thread;
  std::vector<TracedStep> steps;
};

/// The last runs, as many as have `max_steps` steps together. Thread-safe.
class RunTrace {
 public:
  explicit RunTrace(size_t max_steps) : max_steps_(max_steps) {}
  /// Takes a run that just ended on the calling thread.
  void add(TracedRun run);
  struct Snapshot {
    std::vector<TracedRun> runs;  ///< in the order they ended
    int64_t dropped = 0;          ///< older runs
  };
  Snapshot snapshot() const;

 private:
  const size_t max_steps_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<TracedRun> runs_;
  size_t steps_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace xc
