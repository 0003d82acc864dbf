#include "base/exit_gate.h"

#include <unistd.h>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>

#include "base/at_exit.h"
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

/// At most so long: a child made by fork() may count one inside that it does not have.
constexpr int kMostLooks = 10'000, kBetweenLooks = 200;  // microseconds

void close_gate() {
  if (getpid() != guarded || closed.exchange(true)) return;
  for (int look = 0; look < kMostLooks && !gate().try_lock(); ++look) usleep(kBetweenLooks);
}

}  // namespace

InsideLibrary::InsideLibrary() : lock_(gate(), std::try_to_lock) {
  if (!lock_ || closed.load()) throw Error(Status::kCancelled, "the process is exiting");
}

void keep_out_at_exit() {
  static std::atomic<uint32_t> calls{0};
  const uint32_t call = calls.fetch_add(1, std::memory_order_relaxed);
  if (call >= 64 && !std::has_single_bit(call)) return;
  guarded = getpid();
  at_exit(close_gate);
}

}  // namespace xc
