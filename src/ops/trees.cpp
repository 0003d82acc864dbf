#include "ops/trees.h"

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/ml.h"

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
  return std::ranges::binary_search(members, x);
}

size_t checked_position(int64_t value, size_t end, std::string_view what) {
  if (value < 0 || static_cast<uint64_t>(value) >= end)
    fail(Status::kInvalidModel, "{} {} is outside [0, {})", what, value, end);
  return static_cast<size_t>(value);
}

size_t Forest::leaf_of(Branch root, std::span<const double> row) const {
  Branch at = root;
  while (!at.leaf) {
    const TreeNode& node = nodes[at.target];
    if (node.feature >= static_cast<int64_t>(row.size()))
      fail(Status::kRange, "feature {} of {}", node.feature, row.size());
    at = node.test(row[static_cast<size_t>(node.feature)]) ? node.if_true : node.if_false;
  }
  return at.target;
}

void Forest::check_acyclic() const {
  enum class Seen : uint8_t { kNever, kOnPath, kDone };
  std::vector<Seen> seen(nodes.size(), Seen::kNever);
  // Depth first; a node is on the path while its entry lies in `open` a second time.
  std::vector<Branch> open = roots;
  while (!open.empty()) {
    const Branch at = open.back();
    if (at.leaf || seen[at.target] != Seen::kNever) {
      open.pop_back();
      if (!at.leaf) seen[at.target] = Seen::kDone;
      continue;
    }
    seen[at.target] = Seen::kOnPath;
    for (const Branch& child : {nodes[at.target].if_true, nodes[at.target].if_false}) {
      if (child.leaf || seen[child.target] == Seen::kDone) continue;
      if (seen[child.target] == Seen::kOnPath)
        fail(Status::kInvalidModel,
             "attributes 'nodes_truenodeids' and 'nodes_falsenodeids': a tree has a cycle");
      open.push_back(child);
    }
  }
}

std::vector<double> Forest::scores(std::span<const double> row, Aggregate aggregate) const {
  std::vector<double> out(targets, 0.0);
  std::vector<bool> reached(targets, false);
  for (const Branch& root : roots)
    for (const auto& [target, weight] : votes_of(leaf_of(root, row))) {
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

size_t TreeModel::finish(std::span<double> scores) const {
  for (size_t k = 0; k < base.size(); ++k) scores[k] += base[k];
  size_t chosen = 0;
  if (only_class)
    chosen = scores[*only_class] > (probability ? 0.5 : 0) ? 1 : 0;
  else if (labels)
    chosen = top_class(scores);
  if (only_class == 0)  // told as the score of the first class, meant as that of the second
    std::ranges::copy(two_scores(transform, scores[0], !probability), scores.begin());
  else
    transform_scores(transform, scores);
  return chosen;
}

TreeModel tree_model(const Node& node) {
  if (node.op->name == "TreeEnsembleRegressor") return tree_regressor(node.attrs);
  if (node.op->name == "TreeEnsembleClassifier") return tree_classifier(node.attrs);
  return tree_ensemble(node.attrs);
}

bool sizes_at_hand(const InferContext& c) {
  return std::ranges::all_of(c.dims(0), [](const Dim& d) { return d.is_constant(); });
}

void reference_trees(const ReferenceContext& c) {
  check_shapes(c);
  const TreeModel model = tree_model(*c.node);
  std::vector<size_t> chosen;
  std::vector<double> out;
  for_each_row(c, [&](std::span<const double> row) {
    std::vector<double> scores = model.forest.scores(row, model.aggregate);
    chosen.push_back(model.finish(scores));
    out.insert(out.end(), scores.begin(), scores.end());
  });
  if (model.labels) write_labels(c.outputs[0], model.labels, chosen);
  write_dense(c.outputs.back(), out);
}

}  // namespace xc
