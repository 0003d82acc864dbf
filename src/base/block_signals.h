#pragma once

#include <pthread.h>
#include <signal.h>

namespace xc {

/// No signal is handled on the calling thread while it lives. Threads started meanwhile have them
/// blocked for good: a host's signals go to its own threads.
class BlockSignals {
 public:
  enum class Which {
    kAll,
    kSentOnly  ///< faults of the thread itself reach the host's handlers as ever
  };
  explicit BlockSignals(Which which = Which::kAll) noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    if (which == Which::kSentOnly)
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
        sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace xc
