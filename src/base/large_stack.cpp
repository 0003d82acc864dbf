#include "base/large_stack.h"

#include <pthread.h>
#include <cstdint>
#include <exception>

#include "base/block_signals.h"
#include "base/float_environment.h"
#include "base/no_cancellation.h"

namespace xc {
namespace {

constexpr size_t kStackBytes = size_t{8} << 20;
constexpr uintptr_t kEnough = 256 << 10;

struct Extent {
  bool known = false;
  uintptr_t low = 0, high = 0;
};

Extent stack_of_thread() {
  Extent out{true, 0, 0};
#if defined(__GLIBC__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return out;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0)
    out = {true, reinterpret_cast<uintptr_t>(low), reinterpret_cast<uintptr_t>(low) + size};
  pthread_attr_destroy(&attributes);
#endif
  return out;
}

struct Work {
  const std::function<void()>& body;
  std::exception_ptr error;
};

void* run(void* argument) {
  const DefaultFloatEnvironment environment;
  auto& work = *static_cast<Work*>(argument);
  try {
    work.body();
  } catch (...) {
    work.error = std::current_exception();
  }
  return nullptr;
}

}  // namespace

bool has_large_stack() {
  static thread_local Extent extent;  // asking costs microseconds
  if (!extent.known) extent = stack_of_thread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here > extent.low && here < extent.high && here - extent.low >= kEnough;
}

bool start_on_large_stack(pthread_t& thread, void* (*entry)(void*), void* argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  const BlockSignals guard;  // for the thread
  const bool started = pthread_create(&thread, &attributes, entry, argument) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

void run_elsewhere(const std::function<void()>& body) {
  const NoCancellation whole;  // the other thread uses what lies on this one's stack
  Work work{body, nullptr};
  pthread_t thread{};
  if (!start_on_large_stack(thread, run, &work)) return body();
  pthread_join(thread, nullptr);
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace xc
