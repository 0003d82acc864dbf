#pragma once

#include <pthread.h>

namespace xc {

/// The calling thread is not cancelled (pthread_cancel) while it lives, but at its next chance
/// behind: a cancellation unwinds the stack as an exception that nothing may stop, and finds nobody
/// to give a lock back. 20 ns; needed around whatever may open files, wait or call the host.
class NoCancellation {
 public:
  NoCancellation() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace xc
