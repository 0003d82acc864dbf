// TreeEnsemble (ai.onnx.ml): each row of features walks down every tree to a leaf; the leaves'
// weights are combined per target.

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/ml.h"

namespace xc {

namespace {

enum Mode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kNotEqual, kMember, kModes };
enum Aggregate : int64_t { kAverage, kSum, kMin, kMax };

/// The transform of the scores, which this operator gives by number.
std::string_view transform_of(const Attrs& attrs) {
  std::string_view rest = kScoreTransforms;
  for (int64_t k = attrs.get_int("post_transform", 0); k > 0; --k)
    rest.remove_prefix(rest.find('|') + 1);
  return rest.substr(0, rest.find('|'));
}

struct Branch {
  int64_t target = 0;  ///< a node or, `leaf`, a leaf
  bool leaf = false;
};

struct TreeNode {
  int64_t feature = 0, mode = 0;
  double split = 0;
  bool missing_is_true = false;
  Branch if_true, if_false;
  std::unordered_set<double> members;

  bool test(double x) const {
    if (std::isnan(x) && missing_is_true) return true;
    switch (mode) {
      case kLeq:
        return x <= split;
      case kLess:
        return x < split;
      case kGeq:
        return x >= split;
      case kGreater:
        return x > split;
      case kEqual:
        return x == split;
      case kNotEqual:
        return x != split;
      default:
        return members.contains(x);
    }
  }
};

/// The attributes, checked: every index of a node, leaf or target is in range.
struct Ensemble {
  std::vector<TreeNode> nodes;
  std::vector<double> leaf_weights;
  std::vector<int64_t> leaf_targets, roots;
  int64_t targets = 0;

  explicit Ensemble(const Attrs& attrs) {
    const auto features = attrs.get_ints("nodes_featureids");
    nodes.resize(features.size());
    const auto modes = attrs.get_tensor("nodes_modes").to_int64s();
    const auto splits = attrs.get_tensor("nodes_splits").to_doubles();
    const auto missing =
        attrs.get_ints("nodes_missing_value_tracks_true", std::vector<int64_t>(nodes.size(), 0));
    leaf_weights = attrs.get_tensor("leaf_weights").to_doubles();
    leaf_targets = attrs.get_ints("leaf_targetids");
    roots = attrs.get_ints("tree_roots");
    targets = attrs.get_int("n_targets", 1);
    const auto lengths_agree = [&](size_t length, const char* what) {
      if (length != nodes.size())
        fail(Status::kInvalidModel, "{} nodes have {} {}", nodes.size(), length, what);
    };
    lengths_agree(modes.size(), "modes");
    lengths_agree(splits.size(), "splits");
    lengths_agree(missing.size(), "nodes_missing_value_tracks_true");
    for (size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].feature = in_range(features[i], INT64_MAX, "feature");
      nodes[i].mode = in_range(modes[i], kModes, "mode");
      nodes[i].split = splits[i];
      nodes[i].missing_is_true = missing[i] != 0;
    }
    read_branches(attrs, "nodes_trueleafs", "nodes_truenodeids", &TreeNode::if_true);
    read_branches(attrs, "nodes_falseleafs", "nodes_falsenodeids", &TreeNode::if_false);
    read_members(attrs);
    if (leaf_targets.size() != leaf_weights.size())
      fail(Status::kInvalidModel, "{} leaf_weights, {} leaf_targetids", leaf_weights.size(),
           leaf_targets.size());
    for (int64_t t : leaf_targets) in_range(t, targets, "target");
    for (int64_t r : roots) in_range(r, static_cast<int64_t>(nodes.size()), "root");
  }

  /// The leaf a row of features ends at.
  size_t leaf_of(int64_t root, std::span<const double> row) const {
    Branch at{root, false};
    // More steps than nodes: the nodes form a cycle.
    for (size_t steps = 0; steps <= nodes.size(); ++steps) {
      if (at.leaf) return static_cast<size_t>(at.target);
      const TreeNode& node = nodes[static_cast<size_t>(at.target)];
      if (node.feature >= static_cast<int64_t>(row.size()))
        fail(Status::kRange, "feature {} of {}", node.feature, row.size());
      at = node.test(row[static_cast<size_t>(node.feature)]) ? node.if_true : node.if_false;
    }
    fail(Status::kInvalidModel, "a tree has a cycle");
  }

 private:
  static int64_t in_range(int64_t value, int64_t end, const char* what) {
    if (value < 0 || value >= end)
      fail(Status::kInvalidModel, "{} {} is outside [0, {})", what, value, end);
    return value;
  }

  void read_branches(const Attrs& attrs, const char* leafs, const char* ids,
                     Branch TreeNode::* branch) {
    const auto leaf = attrs.get_ints(leafs), target = attrs.get_ints(ids);
    if (leaf.size() != nodes.size() || target.size() != nodes.size())
      fail(Status::kInvalidModel, "{} nodes have {} {} and {} {}", nodes.size(), leaf.size(), leafs,
           target.size(), ids);
    for (size_t i = 0; i < nodes.size(); ++i) {
      const size_t count = leaf[i] != 0 ? leaf_weights.size() : nodes.size();
      (nodes[i].*branch) = {in_range(target[i], static_cast<int64_t>(count), ids), leaf[i] != 0};
    }
  }

  /// One list after another, each ended by a NaN, in the order of the nodes that test membership.
  void read_members(const Attrs& attrs) {
    std::vector<double> values;
    if (attrs.has("membership_values")) values = attrs.get_tensor("membership_values").to_doubles();
    size_t next = 0;
    for (TreeNode& node : nodes) {
      if (node.mode != kMember) continue;
      while (next < values.size() && !std::isnan(values[next])) node.members.insert(values[next++]);
      if (next++ >= values.size())
        fail(Status::kInvalidModel, "membership_values has fewer lists than nodes test membership");
    }
  }
};

void infer(InferContext& c) {
  const DType t = check_dtype(c, 0, type_set({DType::kF32, DType::kF64, DType::kF16}));
  require_rank(c, 0, 2);
  const Ensemble ensemble(c.attrs());
  refuse_probit(transform_of(c.attrs()));
  c.set(0, t, {c.dims(0)[0], ensemble.targets});
}

void reference(const ReferenceContext& c) {
  check_shapes(c);
  const Ensemble ensemble(c.attrs());
  const int64_t aggregate = c.attrs().get_int("aggregate_function", kSum);
  const auto x = double_values(c.inputs[0]);
  const auto features = static_cast<size_t>(c.inputs[0].dims[1]);
  const auto targets = static_cast<size_t>(ensemble.targets);
  std::vector<double> out;
  for (size_t n = 0; n < static_cast<size_t>(c.inputs[0].dims[0]); ++n) {
    const std::span row = std::span(x).subspan(n * features, features);
    std::vector<double> scores(targets, 0.0);
    std::vector<bool> reached(targets, false);
    for (const int64_t root : ensemble.roots) {
      const size_t leaf = ensemble.leaf_of(root, row);
      const auto target = static_cast<size_t>(ensemble.leaf_targets[leaf]);
      const double weight = ensemble.leaf_weights[leaf];
      double& score = scores[target];
      if (aggregate == kMin)
        score = reached[target] ? std::min(score, weight) : weight;
      else if (aggregate == kMax)
        score = reached[target] ? std::max(score, weight) : weight;
      else
        score +=
            aggregate == kAverage ? weight / static_cast<double>(ensemble.roots.size()) : weight;
      reached[target] = true;
    }
    transform_scores(transform_of(c.attrs()), scores);
    out.insert(out.end(), scores.begin(), scores.end());
  }
  write_dense(c.outputs[0], out);
}

}  // namespace

void register_tree_ensemble(OpList& ops) {
  OpDef op;
  op.name = "TreeEnsemble";
  op.domain = "ai.onnx.ml";
  op.attrs = {{"aggregate_function", AttrKind::kInt, false, 0, 3},
              {"leaf_targetids", AttrKind::kInts, true},
              {"leaf_weights", AttrKind::kTensor, true},
              {"membership_values", AttrKind::kTensor},
              {"n_targets", AttrKind::kInt, false, 0, INT32_MAX},
              {"nodes_falseleafs", AttrKind::kInts, true},
              {"nodes_falsenodeids", AttrKind::kInts, true},
              {"nodes_featureids", AttrKind::kInts, true},
              {"nodes_hitrates", AttrKind::kTensor},
              {"nodes_missing_value_tracks_true", AttrKind::kInts},
              {"nodes_modes", AttrKind::kTensor, true},
              {"nodes_splits", AttrKind::kTensor, true},
              {"nodes_trueleafs", AttrKind::kInts, true},
              {"nodes_truenodeids", AttrKind::kInts, true},
              {"post_transform", AttrKind::kInt, false, 0, 4},
              {"tree_roots", AttrKind::kInts, true}};
  op.infer = infer;
  op.reference = reference;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
