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

#if defined(__linux__)
/// For the calling thread; on Linux all of this belongs to a thread. What the system refuses stays
/// as it was inherited.
void schedule_in_background(const cpu_set_t& processors) {
  // Real-time policies know no nice value, and RLIMIT_RTTIME ends the process of such a thread.
  const int policy = sched_getscheduler(0);
  if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE) {
    const sched_param none{};
    (void)pthread_setschedparam(pthread_self(), SCHED_OTHER, &none);
  }
  cpu_set_t inherited;
  if (CPU_COUNT(&processors) > 0 && sched_getaffinity(0, sizeof inherited, &inherited) == 0 &&
      !CPU_EQUAL(&inherited, &processors))
    (void)sched_setaffinity(0, sizeof processors, &processors);
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
}
#endif

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

struct BackgroundThread::Start {
  std::function<void()> body;
  const char* name;
#if defined(__linux__)
  cpu_set_t processors;
#endif
};

BackgroundThread::BackgroundThread(const char* name) : name_(name) {
#if defined(__linux__)
  if (sched_getaffinity(0, sizeof processors_, &processors_) != 0) CPU_ZERO(&processors_);
#endif
}

void* BackgroundThread::entry(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
#if defined(__linux__)
  pthread_setname_np(pthread_self(), start->name);
  schedule_in_background(start->processors);
#endif
  const DefaultFloatEnvironment environment;
  start->body();
  return nullptr;
}

bool BackgroundThread::start(std::function<void()> body) {
#if defined(__linux__)
  auto argument = std::make_unique<Start>(std::move(body), name_, processors_);
#else
  auto argument = std::make_unique<Start>(std::move(body), name_);
#endif
  home_.emplace();
  started_ = start_on_large_stack(thread_, entry, argument.get());
  if (started_) (void)argument.release();
  return started_;
}

bool BackgroundThread::lost() const {
  return started_ && home_->left();
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
