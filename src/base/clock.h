#pragma once
// Cheap time: the time-stamp counter where it is invariant, else the steady clock.

#include <chrono>
#include <cstdint>

namespace xc {

inline int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A monotonic count; differences convert with ticks_to_ns(). (Not __rdtsc(): its header is that of
/// all intrinsics, a second of compilation in every file that sees this one.)
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
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
