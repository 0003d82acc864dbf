#pragma once
// When a kernel for some of a region's sizes is worth trying: pure functions of what was counted,
// like policy.h. Formulas and constants: README.md of this folder.

#include <cstdint>
#include <vector>

#include "profile/size_histogram.h"

namespace xc::policy {

/// Kernels for special sizes that one region may have.
constexpr size_t kMaxSpecials = 8;
/// Runs of a region in use between two looks at its sizes.
constexpr double kSpecialAfter = 256;
/// A special kernel must save this much in its trial.
constexpr double kSpecialWorth = 0.95;

/// What to take for granted of a size that is `value` now.
struct SizeChoice {
  bool exact = false;     ///< its value
  bool multiple = false;  ///< that whole vectors (SizeHistogram::kVector) fill it
};
/// Its value where a fifth of the runs have it; that vectors fill it where they do in half of them.
SizeChoice choose_size(int64_t value, const SizeHistogram& seen);

/// The share of a region's time that a special kernel is expected to save: learnt from trials,
/// forgotten with a half-life, so that a program in which it never pays stops trying, for a while.
class SpecialGain {
 public:
  /// For a region whose innermost loop runs over `row` elements: what known sizes save is paid per
  /// row, not per element.
  double expected(double row, double now_s) const;
  /// A trial ended at `ratio` of the time of the general kernel, which had `row` elements a row.
  void learn(double ratio, double row, double now_s);

  static constexpr double kPrior = 0.2, kWeight = 0.25, kHalfLifeS = 120, kRow = 256;

 private:
  double short_rows(double now_s) const;  ///< the expectation where rows are short
  double learnt_ = kPrior, at_s_ = 0;
};

}  // namespace xc::policy
