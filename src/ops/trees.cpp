#include "ops/trees.h"

#include <algorithm>
#include <cmath>

namespace xc {

bool TreeNode::test(double x) const {
  if (std::isnan(x) && missing_is_true) return true;
  switch (mode) {
    case SplitMode::kLeq:
      return x <= split;
    case SplitMode::kLess:
      return x < split;
    case SplitMode::kGeq:
      return x >= split;
    case SplitMode::kGreater:
      return x > split;
    case SplitMode::kEqual:
      return x == split;
    case SplitMode::kNotEqual:
      return x != split;
    case SplitMode::kMember:
      break;
  }
  return members.contains(x);
}

size_t checked_position(int64_t value, size_t end, std::string_view what) {
  if (value < 0 || static_cast<uint64_t>(value) >= end)
    fail(Status::kInvalidModel, "{} {} is outside [0, {})", what, value, end);
  return static_cast<size_t>(value);
}

int64_t Forest::feature_count() const {
  int64_t out = 0;
  for (const TreeNode& node : nodes) out = std::max(out, node.feature + 1);
  return out;
}

size_t Forest::leaf_of(Branch root, std::span<const double> row) const {
  Branch at = root;
  // More steps than nodes: the nodes form a cycle.
  for (size_t steps = 0; steps <= nodes.size(); ++steps) {
    if (at.leaf) return at.target;
    const TreeNode& node = nodes[at.target];
    if (node.feature >= static_cast<int64_t>(row.size()))
      fail(Status::kRange, "feature {} of {}", node.feature, row.size());
    at = node.test(row[static_cast<size_t>(node.feature)]) ? node.if_true : node.if_false;
  }
  fail(Status::kInvalidModel, "a tree has a cycle");
}

std::vector<double> Forest::scores(std::span<const double> row, Aggregate aggregate) const {
  std::vector<double> out(targets, 0.0);
  std::vector<bool> reached(targets, false);
  for (const Branch& root : roots)
    for (const auto& [target, weight] : leaves[leaf_of(root, row)]) {
      double& score = out[target];
      if (aggregate == Aggregate::kMin)
        score = reached[target] ? std::min(score, weight) : weight;
      else if (aggregate == Aggregate::kMax)
        score = reached[target] ? std::max(score, weight) : weight;
      else
        score += weight;
      reached[target] = true;
    }
  if (aggregate == Aggregate::kAverage)
    for (double& score : out) score /= static_cast<double>(roots.size());
  return out;
}

}  // namespace xc
