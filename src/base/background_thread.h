#pragma once
// A low-priority thread of the library: 8 MB stack, every signal blocked, nice +10. Whichever
// thread of the host happens to start it, be it a real-time one on a core of its own, nothing of
// that thread's scheduling is its.

#include <pthread.h>
#include <sched.h>
#include <atomic>
#include <functional>
#include <optional>

#include "base/process_mark.h"

namespace xc {

class BackgroundThread {
 public:
  /// The thread will run where the thread that makes this may run, under this name (at most 15
  /// characters).
  explicit BackgroundThread(const char* name);
  ~BackgroundThread() { join(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// False when the system refuses a thread.
  bool start(std::function<void()> body);
  bool running() const { return started_; }
  /// Whether it was started in another process, of which this one is a child made by fork(): it
  /// does not run here, and whatever it held when the child was made stays held.
  bool lost() const;
  /// Returns at once for a thread that is lost.
  void join();

 private:
  struct Start;
  static void* entry(void* argument);

  const char* name_;
#if defined(__linux__)
  cpu_set_t processors_;  ///< none where the system does not tell
#endif
  pthread_t thread_{};
  std::atomic<bool> started_{false};
  std::optional<ProcessMark> home_;  ///< where it was started; written before `started_`
};

/// CPU seconds of the calling thread / of the process.
double thread_cpu_seconds();
double process_cpu_seconds();

}  // namespace xc
