#pragma once
// The host's floating-point environment stays the host's: audio code flushes denormals, interval
// arithmetic rounds up, debug builds trap. Results of xc do not depend on it.

#include <cfenv>
#include <optional>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace xc {

/// While it lives the thread has the default environment: round to nearest, denormals kept, every
/// exception masked. Then the one it had, with its flags. At every entry from the host, and at the
/// start of threads (they inherit their creator's).
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() noexcept {
#if defined(__x86_64__)
    unsigned short x87 = 0;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    sse_ = _mm_getcsr();
    if (x87 != kDefaultX87) [[unlikely]]
      enter_all();
    else if ((sse_ & ~kSseFlags) != kDefaultSse)
      _mm_setcsr(kDefaultSse);
#else
    enter_all();
#endif
  }
  ~DefaultFloatEnvironment() {
#if defined(__x86_64__)
    if (!all_) [[likely]] {
      if (_mm_getcsr() != sse_) _mm_setcsr(sse_);
      return;
    }
#endif
    std::fesetenv(&*all_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  void enter_all() noexcept {
    std::fegetenv(&all_.emplace());
    std::fesetenv(FE_DFL_ENV);
  }

#if defined(__x86_64__)
  // Two registers are cheap to look at, and nothing in xc computes with the x87's stack: its flags
  // matter only where its control word was changed.
  static constexpr unsigned kDefaultSse = 0x1f80, kSseFlags = 0x3f;
  static constexpr unsigned short kDefaultX87 = 0x37f;
  unsigned sse_;
#endif
  std::optional<std::fenv_t> all_;
};

}  // namespace xc
