#pragma once
// Memory that is refused to the threads of the library while a test looks on. It replaces operator
// new of the process; where a sanitizer owns that, nothing is refused and kCanRefuse is false.

#include <chrono>

namespace xc::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanRefuse = false;
#else
inline constexpr bool kCanRefuse = true;
#endif

/// From the call on, of what other threads than the one that made this ask for, the request number
/// `first` (the next one is 1) fails, and `count` - 1 behind it.
class RefusedMemory {
 public:
  RefusedMemory();
  ~RefusedMemory();
  RefusedMemory(const RefusedMemory&) = delete;
  RefusedMemory& operator=(const RefusedMemory&) = delete;
  void refuse(long first, long count);
  /// Ends it; how many requests failed.
  long stop();
};

}  // namespace xc::testing
