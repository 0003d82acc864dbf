#pragma once
// Where the tasks of a step run: inline, on xc's own pool, or on a host's runner (a subclass).
//
// Invariants: run() returns when every task is done; the caller takes tasks itself, so it makes
// progress however busy the workers are, and nested or concurrent runs cannot deadlock. Within one
// run(), a worker number in [0, workers()) is used by one thread at a time: scratch memory may be
// indexed by it.

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace xc {

class TaskRunner {
 public:
  using Body = FunctionRef<void(int64_t task, int worker)>;
  virtual ~TaskRunner() = default;
  virtual int workers() const = 0;
  /// Runs body(task, worker) for every task in [0, tasks), in any order and concurrently; blocks
  /// until all are done. The first exception of a body is thrown to the caller; tasks not yet
  /// started are then skipped. Any thread may call, also from inside a body.
  virtual void run(int64_t tasks, Body body) = 0;
  /// Around calls of run() that follow each other: threads that have nothing to do in between may
  /// wait for the next one without sleeping. Any number of series at once.
  virtual void begin_series() {}
  virtual void end_series() {}
};

/// One of them.
class TaskSeries {
 public:
  explicit TaskSeries(TaskRunner& runner) : runner_(runner) { runner_.begin_series(); }
  ~TaskSeries() { runner_.end_series(); }
  TaskSeries(const TaskSeries&) = delete;
  TaskSeries& operator=(const TaskSeries&) = delete;

 private:
  TaskRunner& runner_;
};

/// Everything on the calling thread.
class InlineRunner final : public TaskRunner {
 public:
  int workers() const override { return 1; }
  void run(int64_t tasks, Body body) override {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
  }
};

/// n workers: the caller and n - 1 threads of its own, with every signal blocked, scheduled like
/// the thread that makes the pool: runs wait for them, so their priority is the host's to choose.
/// An idle thread spins for at most kSpinMicroseconds, within a series (between the steps of a run)
/// for at most kSeriesMicroseconds, then sleeps in the kernel. run() allocates nothing.
class ThreadPool final : public TaskRunner {
 public:
  static constexpr int kSpinMicroseconds = 50, kSeriesMicroseconds = 1000;
  static constexpr int kMaxWorkers = 1024;

  /// Fails with kInvalidArgument outside [1, kMaxWorkers], with kOutOfMemory when the system
  /// refuses a thread.
  explicit ThreadPool(int workers);
  /// Joins. No run() may be in progress.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const override { return static_cast<int>(threads_.size()) + 1; }
  void run(int64_t tasks, Body body) override;
  void begin_series() override { series_.fetch_add(1, std::memory_order_relaxed); }
  void end_series() override { series_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  struct Job;
  /// One caller's job at a time. A worker announces itself in `attached` before it reads `job`, and
  /// the caller clears `job` before it waits for `attached` to reach 0: so a job is never touched
  /// after run() has returned.
  struct alignas(64) Slot {
    std::atomic<bool> taken{false};
    std::atomic<Job*> job{nullptr};
    std::atomic<uint32_t> attached{0};
  };
  static constexpr int kSlots = 32;  ///< more concurrent callers than that run inline

  void worker_loop(int worker);
  /// Helps with every job there is; true when there was a task left to run.
  bool help(int worker);
  void stop() noexcept;

  Slot slots_[kSlots];
  alignas(64) std::atomic<uint32_t> epoch_{0};     ///< bumped for every job, and to stop
  alignas(64) std::atomic<uint32_t> sleepers_{0};  ///< threads in, or on the way into, the kernel
  alignas(64) std::atomic<int> series_{0};         ///< that have begun and not ended
  std::atomic<bool> stopping_{false};
  const int home_;  ///< process the threads are in; a child made by fork() has none of them
  std::vector<std::thread> threads_;
};

}  // namespace xc
