#include "base/exit_gate.h"

#include <stdlib.h>
#include <unistd.h>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>

#include "base/error.h"

namespace xc {
namespace {

/// Never destroyed, so that it outlives every thread.
std::shared_mutex& gate() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

std::atomic<pid_t> guarded{0};  ///< process whose threads may be inside
std::atomic<bool> closed{false};

void close_gate(int, void*) {
  if (getpid() == guarded && !closed.exchange(true)) gate().lock();
}

}  // namespace

InsideLibrary::InsideLibrary() : lock_(gate(), std::try_to_lock) {
  // A second look: the exiting thread waits for those inside, which may hold up others for a
  // moment.
  while (!lock_ && !closed.load()) (void)lock_.try_lock();
  if (!lock_) throw Error(Status::kCancelled, "the process is exiting");
}

void keep_out_at_exit() {
  static std::atomic<uint32_t> calls{0};
  const uint32_t call = calls.fetch_add(1, std::memory_order_relaxed);
  if (call >= 64 && !std::has_single_bit(call)) return;
  guarded = getpid();
  on_exit(close_gate, nullptr);  // not std::atexit(): immortal.cpp
}

}  // namespace xc
