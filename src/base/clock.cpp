#include "base/clock.h"

#include <atomic>

namespace xc {

#if defined(__x86_64__)
namespace {

struct Instant {
  int64_t ns;
  uint64_t count;
};
Instant now() {
  return {steady_ns(), ticks()};
}
const Instant loaded = now();  // when the library was

constexpr int64_t kEnough = 5'000'000, kLeast = 20'000;  // ns of observation

}  // namespace

double ns_per_tick() {
  static std::atomic<double> settled{0};
  if (const double value = settled.load(std::memory_order_relaxed); value > 0) return value;
  Instant then = now();
  while (then.ns - loaded.ns < kLeast) then = now();
  const double value =
      static_cast<double>(then.ns - loaded.ns) / static_cast<double>(then.count - loaded.count);
  if (then.ns - loaded.ns >= kEnough) settled.store(value, std::memory_order_relaxed);
  return value;
}
#else
double ns_per_tick() {
  return 1.0;
}
#endif

}  // namespace xc
