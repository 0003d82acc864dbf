#include "base/clock.h"

namespace xc {

double ns_per_tick() {
#if defined(__x86_64__)
  static const double value = [] {
    const int64_t t0 = steady_ns();
    const uint64_t c0 = ticks();
    while (steady_ns() - t0 < 2'000'000) {
    }
    const uint64_t c1 = ticks();
    const int64_t t1 = steady_ns();
    return static_cast<double>(t1 - t0) / static_cast<double>(c1 - c0);
  }();
  return value;
#else
  return 1.0;
#endif
}

}  // namespace xc
