#pragma once
// Which values a size takes, and how often: the counters of the space-saving algorithm (Metwally,
// Agrawal, El Abbadi: Efficient computation of frequent and top-k elements in data streams, 2005)
// with decay, so that what was frequent long ago is forgotten. One thread at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xc {

class SizeHistogram {
 public:
  static constexpr size_t kCounters = 16;
  /// Runs after which all counts are halved, and again after half as many.
  static constexpr double kHorizon = 8192;
  /// Vector code has no rest where it divides a size.
  static constexpr int64_t kVector = 16;

  /// `runs` runs had this value.
  void add(int64_t value, double runs);

  /// A lower bound of the share of recent runs with this value: what a counter took over from the
  /// value it replaced does not count.
  double share(int64_t value) const;
  /// The share of recent runs whose value is a multiple of kVector.
  double share_of_multiples() const { return total_ > 0 ? multiples_ / total_ : 0; }
  /// Runs that still count.
  double total() const { return total_; }

  struct Frequent {
    int64_t value = 0;
    double share = 0;
  };
  /// The values known to be frequent, most frequent first.
  std::vector<Frequent> frequent() const;

 private:
  struct Counter {
    int64_t value = 0;
    double runs = 0;   ///< at most this many too high:
    double error = 0;  ///< what the value that had the counter before left
  };
  std::array<Counter, kCounters> counters_{};
  size_t used_ = 0;
  double total_ = 0, multiples_ = 0;
};

}  // namespace xc
