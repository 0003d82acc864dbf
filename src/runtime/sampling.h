#pragma once
// Which runs are timed, and which side of a trial a run takes.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace xc {

/// One run in 2^bits is timed; to begin with, one in 2^kSampleBits.
constexpr int kEveryRun = 0, kSampleBits = 4, kRarestBits = 12;

/// In place of bits: a signature is new, or ran once, cold. It is looked at like others then, but
/// no more rarely than one run in 2^kUnknownBits, and its second run is timed in any case, to know
/// how long its runs take: much may come of the few long ones of a stream.
constexpr int kNeverRan = -2, kRanOnce = -1, kUnknownBits = 6;

/// Whether the run with this number is a timed one. They are spread so evenly that no period in the
/// sizes of a stream keeps some of them from being seen: multiples of the golden ratio (Knuth, The
/// Art of Computer Programming 3, section 6.4). Those of more bits are among those of fewer.
inline bool is_sampled(uint64_t run, int bits) {
  return uint64_t{static_cast<uint32_t>(run) * 2654435769u} >> (32 - bits) == 0;
}

/// How rarely runs that take `run` each are timed where timing one and telling of it costs `look`
/// (in one unit): so that it costs them a 256th, and long ones always. In the first 256 samples of
/// a program, when most is decided and which together cost less than a compile, a 64th; and in the
/// very first whatever it costs.
inline int sample_bits(uint64_t samples, double run, double look) {
  constexpr uint64_t kYoung = 256;
  constexpr int kFirst = 8;  // samples before it may become rarer, then by half each
  const double share = samples < kYoung ? 1.0 / 64 : 1.0 / 256;
  const auto period = static_cast<uint64_t>(std::min(look / (share * std::max(run, 1.0)), 1e9));
  const int known = static_cast<int>(std::min<uint64_t>(samples, kFirst + kRarestBits));
  const int wanted = static_cast<int>(std::bit_width(period));
  return std::min({wanted, kSampleBits + std::max(0, known - kFirst), kRarestBits});
}

/// Seconds of a run in which its shape may bind anew what it has in a hurry, where nobody does so
/// in the background: a quarter of what runs of that shape take, from the third run on, where
/// something can be made in that; else, once `run` shows that runs go on, or where it has `begun`,
/// what one convolution of the library takes to make. 0 = not now. `run_seconds` is 0 where it is
/// not known.
inline double settling_seconds(uint64_t run, double run_seconds, bool begun) {
  constexpr double kShare = 0.25, kLeast = 1e-3;
  const double share = kShare * run_seconds;
  if (run > 1 && share >= kLeast) return share;
  return begun || run >= (1 << kSampleBits) ? kLeast : 0;
}

/// The side of a trial a run takes on a signature: the one with fewer samples, or either. By the
/// signature, for in a stream of alternating sizes the run's number decides the size.
inline int trial_side(uint64_t active_samples, uint64_t challenger_samples, uint64_t run) {
  if (active_samples != challenger_samples) return challenger_samples < active_samples ? 1 : 0;
  return static_cast<int>((static_cast<uint32_t>(run) * 2246822519u) >> 31);
}

}  // namespace xc
