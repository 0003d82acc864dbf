#pragma once
// A low-priority thread of the library: 8 MB stack, every signal blocked, nice +10.

#include <pthread.h>
#include <functional>

namespace xc {

class BackgroundThread {
 public:
  BackgroundThread() = default;
  ~BackgroundThread() { join(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// False when the system refuses a thread.
  bool start(std::function<void()> body);
  bool running() const { return started_; }
  void join();

 private:
  pthread_t thread_{};
  bool started_ = false;
};

/// CPU seconds of the calling thread / of the process.
double thread_cpu_seconds();
double process_cpu_seconds();

}  // namespace xc
