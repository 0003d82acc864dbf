#pragma once
// Copies between a kernel's operand and its blocks in scratch: one plan for each size that blocks
// have.

#include <vector>

#include "backends/cpu/copy.h"

namespace xc::cpu {

/// Of f32 elements, one copy per block.
class BlockCopies {
 public:
  bool empty() const { return of_block_.empty(); }
  const CopyPlan& of(int64_t block) const {
    return plans_[of_block_[static_cast<size_t>(block)]].plan;
  }
  /// The next block's. Blocks alike in all three share a plan.
  void add(const Dims& dims, const Dims& from, const Dims& to) {
    size_t k = 0;
    while (k < plans_.size() &&
           (plans_[k].dims != dims || plans_[k].from != from || plans_[k].to != to))
      ++k;
    if (k == plans_.size()) plans_.push_back({dims, from, to, CopyPlan(dims, from, to, 4)});
    of_block_.push_back(static_cast<uint32_t>(k));
  }
  int64_t bytes() const {
    return static_cast<int64_t>(plans_.size() * sizeof(Sized) +
                                of_block_.size() * sizeof(uint32_t));
  }

 private:
  struct Sized {
    Dims dims, from, to;
    CopyPlan plan;
  };
  std::vector<Sized> plans_;
  std::vector<uint32_t> of_block_;
};

}  // namespace xc::cpu
