#include "base/thread_pool.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/block_signals.h"
#include "base/error.h"
#include "base/float_environment.h"
#include "base/pause.h"
#include "base/processor.h"

namespace xc {

/// Each worker begins with its share of the tasks, in order, and helps with those of others behind
/// it: what neighbouring tasks of successive steps share is then in that worker's cache.
struct ThreadPool::Job {
  Job(int64_t count, int workers, Body work)
      : tasks(count), shares(std::min({count, int64_t{workers}, kMostShares})), body(work) {
    for (int64_t s = 0; s < shares; ++s)
      next[s].task.store(end_of(s - 1), std::memory_order_relaxed);
  }
  static constexpr int64_t kMostShares = 16;
  const int64_t tasks, shares;
  const Body body;
  struct alignas(64) Next {
    std::atomic<int64_t> task{0};
  };
  Next next[kMostShares];
  const int processor = current_processor();  ///< of the caller
  std::atomic<bool> failed{false};
  std::exception_ptr error;  ///< written by whoever set `failed` first

  int64_t end_of(int64_t share) const { return tasks * (share + 1) / shares; }

  bool has_work() const {
    for (int64_t s = 0; s < shares; ++s)
      if (next[s].task.load(std::memory_order_relaxed) < end_of(s)) return true;
    return false;
  }

  /// Takes tasks until none is left; true when it ran one.
  bool work(int worker) {
    bool ran = false;
    for (int64_t s = 0; s < shares; ++s) ran |= work_on((worker + s) % shares, worker);
    return ran;
  }

 private:
  bool work_on(int64_t share, int worker) {
    bool ran = false;
    for (;;) {
      const int64_t task = next[share].task.fetch_add(1, std::memory_order_relaxed);
      if (task >= end_of(share)) return ran;
      ran = true;
      try {
        body(task, worker);
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
        for (int64_t s = 0; s < shares; ++s)
          next[s].task.store(end_of(s), std::memory_order_relaxed);
      }
    }
  }
};

ThreadPool::ThreadPool(int workers) : home_(getpid()) {
  if (workers < 1 || workers > kMaxWorkers)
    fail(Status::kInvalidArgument, "thread count {} is outside [1, {}]", workers, kMaxWorkers);
  const BlockSignals guard;  // for the threads
  threads_.reserve(static_cast<size_t>(workers) - 1);
  try {
    for (int worker = 1; worker < workers; ++worker) {
      threads_.emplace_back([this, worker] { worker_loop(worker); });
#ifdef __linux__
      pthread_setname_np(threads_.back().native_handle(), "xc-worker");
#endif
    }
  } catch (const std::system_error& error) {
    const int started = static_cast<int>(threads_.size());
    stop();
    fail(Status::kOutOfMemory, "the system refused worker thread {} of {}: {}", started + 1,
         workers - 1, error.what());
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() noexcept {
  if (getpid() != home_) {
    // In a child made by fork() there is nobody to join: the handles are let go of as they are.
    for (std::thread& thread : threads_) (void)new std::thread(std::move(thread));
    threads_.clear();
    return;
  }
  stopping_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::run(int64_t tasks, Body body) {
  if (tasks <= 0) return;
  Slot* slot = nullptr;
  if (tasks > 1 && !threads_.empty()) {
    for (Slot& candidate : slots_) {
      if (!candidate.taken.load(std::memory_order_relaxed) && !candidate.taken.exchange(true)) {
        slot = &candidate;
        break;
      }
    }
  }
  if (!slot) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  Job job(tasks, workers(), body);
  slot->job.store(&job);
  epoch_.fetch_add(1);
  if (const int64_t sleeping = sleepers_.load(); sleeping > 0) {
    if (tasks - 1 >= sleeping) {
      epoch_.notify_all();
    } else {
      for (int64_t i = 0; i < tasks - 1; ++i) epoch_.notify_one();
    }
  }
  job.work(0);
  slot->job.store(nullptr);
  for (int spins = 0; spins < 2000 && slot->attached.load() != 0; ++spins) pause_cpu();
  for (uint32_t attached; (attached = slot->attached.load()) != 0;) {
    if (getpid() != home_) {
      slot->attached.store(0);  // a worker that fork() left behind
      break;
    }
    slot->attached.wait(attached);
  }
  slot->taken.store(false);
  if (job.failed.load()) std::rethrow_exception(job.error);
}

bool ThreadPool::help(int worker) {
  bool ran = false;
  for (Slot& slot : slots_) {
    if (!slot.job.load(std::memory_order_relaxed)) continue;
    slot.attached.fetch_add(1);
    if (Job* job = slot.job.load(); job && job->has_work()) {
      // The system puts a thread that it wakes behind the one that wakes it if no processor is
      // idle, and takes 100 ms and more to move it, be it that all another one does is the work of
      // a thread of low priority, such as the tier's.
      if (job->processor == current_processor()) leave_processor(job->processor);
      ran |= job->work(worker);
    }
    if (slot.attached.fetch_sub(1) == 1) slot.attached.notify_all();
  }
  return ran;
}

void ThreadPool::worker_loop(int worker) {
  const DefaultFloatEnvironment environment;
  using Clock = std::chrono::steady_clock;
  for (;;) {
    // Read before looking for an end and for work: what is published after this changes the epoch.
    const uint32_t epoch = epoch_.load();
    if (stopping_.load()) return;
    if (help(worker)) continue;
    const auto begin = Clock::now();
    const auto most = [&] {
      return std::chrono::microseconds(
          series_.load(std::memory_order_relaxed) > 0 ? kSeriesMicroseconds : kSpinMicroseconds);
    };
    do {
      for (int i = 0; i < 32 && epoch_.load(std::memory_order_relaxed) == epoch; ++i) pause_cpu();
    } while (epoch_.load(std::memory_order_relaxed) == epoch && Clock::now() - begin < most());
    if (epoch_.load() != epoch) continue;
    sleepers_.fetch_add(1);
    epoch_.wait(epoch);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace xc
