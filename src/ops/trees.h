#pragma once
// Decision trees of ai.onnx.ml: what the three tree ensemble operators share.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace xc {

/// How a node compares the row's feature with its split value; TreeEnsemble numbers them so.
enum class SplitMode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kNotEqual, kMember };
inline constexpr int64_t kSplitModes = 7;

/// How the leaves that a row reaches become its scores; TreeEnsemble numbers them so.
enum class Aggregate : int64_t { kAverage, kSum, kMin, kMax };

struct Branch {
  size_t target = 0;  ///< a node or, `leaf`, a leaf
  bool leaf = false;
};

struct TreeNode {
  int64_t feature = 0;
  SplitMode mode = SplitMode::kLeq;
  double split = 0;
  bool missing_is_true = false;  ///< where NaN goes
  Branch if_true, if_false;
  std::vector<double> members = {};  ///< of kMember, in order, each once

  bool test(double x) const;
};

/// What a leaf adds to one target.
struct Vote {
  size_t target = 0;
  double weight = 0;
};

/// Trees whose indices are checked, and that they have no cycle: only the features a row must have
/// are left to the walk. A node may be the child of several.
struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<size_t> vote_begin;  ///< of each leaf in `votes`, and the end
  std::vector<Vote> votes;         ///< leaf by leaf
  std::vector<Branch> roots;       ///< one a tree
  size_t targets = 0;

  size_t leaf_count() const { return vote_begin.empty() ? 0 : vote_begin.size() - 1; }
  std::span<const Vote> votes_of(size_t leaf) const {
    return std::span(votes).subspan(vote_begin[leaf], vote_begin[leaf + 1] - vote_begin[leaf]);
  }
  /// Fails with kInvalidModel where a walk from a root could come back to a node. Of whoever fills
  /// the lists.
  void check_acyclic() const;
  /// Scores of one row of features, 0 for targets that no leaf votes for. Fails with kRange where
  /// the row is too short.
  std::vector<double> scores(std::span<const double> row, Aggregate aggregate) const;

 private:
  size_t leaf_of(Branch root, std::span<const double> row) const;
};

/// The attributes of a tree ensemble, read and checked: reading takes far longer than a row does.
struct TreeModel {
  Forest forest;
  Aggregate aggregate = Aggregate::kSum;
  std::vector<double> base = {};  ///< empty, or what is added to each target's score
  std::string transform = "NONE";
  // Of classifiers, whose targets are classes.
  Tensor labels = {};
  /// Of two classes all leaves vote for this one: its score decides, above 1/2 where no weight is
  /// negative (it is a probability), else above 0.
  std::optional<size_t> only_class = {};
  bool probability = true;

  /// What the forest's scores of a row become, in place; returns the class they name (0 where there
  /// are none).
  size_t finish(std::span<double> scores) const;
};
/// Of a node of one of the three operators. Fails with kInvalidModel.
TreeModel tree_model(const Node& node);
TreeModel tree_ensemble(const Attrs& attrs);
TreeModel tree_regressor(const Attrs& attrs);
TreeModel tree_classifier(const Attrs& attrs);

/// Is inference asked with the sizes of a run? The forest was read, by the kernel at the latest,
/// and is not read again for every shape: that takes far longer than many a run.
bool sizes_at_hand(const InferContext& c);

/// OpDef::reference of all three.
void reference_trees(const ReferenceContext& c);

/// `value` in [0, end); fails with kInvalidModel.
size_t checked_position(int64_t value, size_t end, std::string_view what);

}  // namespace xc
