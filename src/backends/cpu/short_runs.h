#pragma once
// Moving runs of a few bytes: a call to memcpy for each would take longer than the moving.

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace xc::cpu {

constexpr size_t kShortRun = 64;  ///< bytes of one, at most

/// Calls f with the largest power of two, as a constant, that is no longer than a short run of
/// `bytes` bytes; the run is then its first and its last so many bytes. False where it is not
/// short, or shorter than a word.
template <class F>
bool with_short_run(size_t bytes, F&& f) {
  if (bytes < 4 || bytes > kShortRun) return false;
  if (bytes < 8)
    f(std::integral_constant<size_t, 4>());
  else if (bytes < 16)
    f(std::integral_constant<size_t, 8>());
  else if (bytes < 32)
    f(std::integral_constant<size_t, 16>());
  else
    f(std::integral_constant<size_t, 32>());
  return true;
}

/// One such run, neither read nor written beyond its end.
template <size_t Unit>
[[gnu::always_inline]] inline void copy_run(std::byte* to, const std::byte* from, size_t bytes) {
  std::byte head[Unit], tail[Unit];
  std::memcpy(head, from, Unit);
  std::memcpy(tail, from + (bytes - Unit), Unit);
  std::memcpy(to, head, Unit);
  std::memcpy(to + (bytes - Unit), tail, Unit);
}

constexpr size_t kLongRun = 512;  ///< bytes from which on a call costs little

/// `runs` runs of `bytes` bytes, so many bytes apart. Never inlined: among the variables of a large
/// caller its own end up in memory, and a run takes twice as long.
[[gnu::noinline]] inline void copy_runs(std::byte* to, const std::byte* from, int64_t runs,
                                        size_t bytes, int64_t to_step, int64_t from_step) {
  if (with_short_run(bytes, [&](auto unit) {
        for (int64_t r = 0; r < runs; ++r, to += to_step, from += from_step)
          copy_run<unit>(to, from, bytes);
      }))
    return;
  if (bytes > kShortRun && bytes < kLongRun) {
    for (int64_t r = 0; r < runs; ++r, to += to_step, from += from_step) {
      for (size_t at = 0; at + 64 < bytes; at += 64) std::memcpy(to + at, from + at, 64);
      std::memcpy(to + (bytes - 64), from + (bytes - 64), 64);
    }
    return;
  }
  for (int64_t r = 0; r < runs; ++r, to += to_step, from += from_step) std::memcpy(to, from, bytes);
}

}  // namespace xc::cpu
