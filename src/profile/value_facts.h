#pragma once
// What the values that regions read look like: the share of zeros among a few elements, and whether
// a value of one element is the same in every run. People read them in explain; the tier tries
// kernels that skip zeros where there are many (tier/zeros.cpp). Nothing is taken for granted of
// values, for that would have to be asked in every run.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// Any number of threads.
class ValueFacts {
 public:
  static constexpr int64_t kElements = 32;  ///< of one value in one look, at most
  static constexpr uint64_t kEvery = 16;    ///< timed runs between two looks
  static constexpr uint64_t kRest = 500;    ///< times what a look took, until the next
  static constexpr double kRecent = 512;    ///< elements, after which those before count half

  struct Fact {
    int64_t looks = 0;
    int64_t elements = 0;        ///< looked at
    int64_t zeros = 0;           ///< of those
    double recent_elements = 0;  ///< the same, older ones counting less
    double recent_zeros = 0;
    bool scalar = false;   ///< one element, in every look
    bool constant = true;  ///< a scalar that was the same in every look
    double value = 0;      ///< of a scalar, in the last look
  };

  /// Of a graph with so many values.
  explicit ValueFacts(size_t values) : known_(values) {}

  /// From here on runs look at it, where it holds numbers.
  void watch(ValueId id, DType dtype);
  /// Whether a timed run is to look at what it reads: the number of the look, or 0.
  uint64_t due();
  /// In a run that is to look. What was looked at already in this look is skipped, and all where
  /// another run is looking just now: runs wait for nobody.
  void look(uint64_t number, ValueId id, const TensorView& value);
  /// A look took so long, in ticks of base/clock.h.
  void rest(uint64_t spent);
  Fact of(ValueId id) const;

 private:
  struct Known {
    Fact fact;
    bool watched = false;
    uint64_t number = 0;  ///< of the last look
    uint64_t bits = 0;    ///< of a scalar then
  };
  std::atomic<bool> any_{false};
  std::atomic<uint64_t> timed_{0}, next_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Known> known_;
};

}  // namespace xc
