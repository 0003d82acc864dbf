#pragma once
// Cheap time: the time-stamp counter where it is invariant, else the steady clock.

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace xc {

inline int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A monotonic count; differences convert with ticks_to_ns().
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(steady_ns());
#endif
}

/// Nanoseconds per tick, measured against the steady clock since the library was loaded; it waits
/// for nobody (a process younger than 5 ms gets an estimate good to half a percent). Thread-safe.
double ns_per_tick();
inline double ticks_to_ns(uint64_t count) {
  return static_cast<double>(count) * ns_per_tick();
}

}  // namespace xc
