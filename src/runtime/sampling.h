#pragma once
// Which runs are timed, and which side of a trial a run takes.

#include <cstdint>

namespace xc {

constexpr int kSampleBits = 4;
/// One run in so many is timed.
constexpr uint64_t kSamplePeriod = uint64_t{1} << kSampleBits;

/// Whether the run with this number is a timed one. They are spread so evenly that no period in the
/// sizes of a stream keeps some of them from being seen: multiples of the golden ratio (Knuth, The
/// Art of Computer Programming 3, section 6.4).
inline bool is_sampled(uint64_t run) {
  return static_cast<uint32_t>(static_cast<uint32_t>(run) * 2654435769u) >> (32 - kSampleBits) == 0;
}

/// The side of a trial a run takes on a signature: the one with fewer samples, or either. By the
/// signature, for in a stream of alternating sizes the run's number decides the size.
inline int trial_side(uint64_t active_samples, uint64_t challenger_samples, uint64_t run) {
  if (active_samples != challenger_samples) return challenger_samples < active_samples ? 1 : 0;
  return static_cast<int>((static_cast<uint32_t>(run) * 2246822519u) >> 31);
}

}  // namespace xc
