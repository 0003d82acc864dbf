#pragma once
// A forest as walks want it: one small node per comparison, all of them `x <= split`, and leaves
// that lead to themselves, so that several walks advance side by side without a branch.

#include <limits>

#include "ops/trees.h"

namespace xc::cpu {

/// T is float where that loses nothing of any split, else double.
template <class T>
struct CompactNode {
  /// Set in `feature`: NaN takes child 0. Else it takes child 1, as the comparison says.
  static constexpr uint32_t kNaNFirst = uint32_t{1} << 31;
  T split = 0;
  uint32_t feature = 0;
  uint32_t child[2] = {0, 0};  ///< where x <= split; elsewhere
};

template <class T>
class CompactForest {
 public:
  /// Fails with kUnsupported where indices do not fit in 31 bits.
  explicit CompactForest(const Forest& forest);

  size_t tree_count() const { return roots_.size(); }
  /// Features that a row must have.
  int64_t feature_count() const { return feature_count_; }
  /// Whether some comparison sends NaN where `x <= split` would not.
  bool heeds_nan() const { return any_nan_first_; }
  /// Row rows[k] walks down a tree to leaves[k]. `nan`: whether heeds_nan() matters to the rows.
  void walk_rows(size_t tree, std::span<const T* const> rows, bool nan, uint32_t* leaves) const;
  /// One row walks down every tree, down tree k to leaves[k].
  void walk_trees(const T* row, bool nan, uint32_t* leaves) const;
  std::span<const Vote> votes(uint32_t leaf) const {
    return std::span(votes_).subspan(vote_begin_[leaf], vote_begin_[leaf + 1] - vote_begin_[leaf]);
  }
  int64_t bytes() const;

 private:
  template <class Start>
  void walk(size_t count, Start start, bool nan, uint32_t* leaves) const;
  /// Aligned to lines of the cache: half a line off, its inner loop takes a sixth longer (Zen 5).
  template <bool kNaN, class Start>
  [[gnu::aligned(64)]] void walk_abreast(size_t count, Start start, uint32_t* leaves) const;

  std::vector<CompactNode<T>> nodes_;  ///< comparisons, then leaves
  uint32_t first_leaf_ = 0;
  std::vector<uint32_t> roots_;
  std::vector<size_t> vote_begin_;  ///< of each leaf, and the end
  std::vector<Vote> votes_;
  int64_t feature_count_ = 0;
  bool any_nan_first_ = false;
};

/// Does T hold every number that the forest compares with?
template <class T>
bool holds_splits(const Forest& forest);

}  // namespace xc::cpu
