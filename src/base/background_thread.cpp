#include "base/background_thread.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ctime>
#include <memory>

#include "base/float_environment.h"
#include "base/large_stack.h"

namespace xc {
namespace {

constexpr int kNice = 10;

void* entry(void* argument) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
#if defined(__linux__)
  // On Linux the nice value belongs to the thread. Refusal only means normal priority.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
#endif
  const DefaultFloatEnvironment environment;
  (*body)();
  return nullptr;
}

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

bool BackgroundThread::start(std::function<void()> body) {
  auto argument = std::make_unique<std::function<void()>>(std::move(body));
  home_ = getpid();
  started_ = start_on_large_stack(thread_, entry, argument.get());
  if (started_) (void)argument.release();
  return started_;
}

bool BackgroundThread::lost() const {
  return started_ && getpid() != home_;
}

void BackgroundThread::join() {
  if (!started_) return;
  if (!lost()) pthread_join(thread_, nullptr);
  started_ = false;
}

double thread_cpu_seconds() {
  return seconds(CLOCK_THREAD_CPUTIME_ID);
}
double process_cpu_seconds() {
  return seconds(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace xc
