// TreeEnsemble (ai.onnx.ml): each row of features walks down every tree to a leaf; the leaves'
// weights are combined per target.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/ml.h"
#include "ops/trees.h"

namespace xc {

namespace {

/// The transform of the scores, which this operator gives by number.
std::string_view transform_of(const Attrs& attrs) {
  std::string_view rest = kScoreTransforms;
  for (int64_t k = attrs.get_int("post_transform", 0); k > 0; --k)
    rest.remove_prefix(rest.find('|') + 1);
  return rest.substr(0, rest.find('|'));
}

using BranchOf = Branch TreeNode::*;

/// One list after another, each ended by a NaN, in the order of the nodes that test membership.
void read_members(const Attrs& attrs, Forest& forest) {
  std::vector<double> values;
  if (attrs.has("membership_values")) values = attrs.get_tensor("membership_values").to_doubles();
  size_t next = 0;
  for (TreeNode& node : forest.nodes) {
    if (node.mode != SplitMode::kMember) continue;
    while (next < values.size() && !std::isnan(values[next]))
      node.members.push_back(values[next++]);
    std::ranges::sort(node.members);
    const auto twice = std::ranges::unique(node.members);
    node.members.erase(twice.begin(), twice.end());
    if (next++ >= values.size())
      fail(Status::kInvalidModel, "membership_values has fewer lists than nodes test membership");
  }
}

Forest forest_of(const Attrs& attrs) {
  Forest out;
  const auto features = attrs.get_ints("nodes_featureids");
  const size_t count = features.size();
  const auto of_nodes = [&](auto list, const char* what) {
    if (list.size() != count)
      fail(Status::kInvalidModel, "attribute '{}' has {} entries for {} nodes", what, list.size(),
           count);
    return list;
  };
  const auto modes = of_nodes(attrs.get_tensor("nodes_modes").to_int64s(), "nodes_modes");
  const auto splits = of_nodes(attrs.get_tensor("nodes_splits").to_doubles(), "nodes_splits");
  const char* missing_name = "nodes_missing_value_tracks_true";
  const auto missing =
      of_nodes(attrs.get_ints(missing_name, std::vector<int64_t>(count, 0)), missing_name);
  const auto weights = attrs.get_tensor("leaf_weights").to_doubles();
  const auto targets = attrs.get_ints("leaf_targetids");
  out.targets = static_cast<size_t>(attrs.get_int("n_targets", 1));
  if (targets.size() != weights.size())
    fail(Status::kInvalidModel, "{} leaf_weights, {} leaf_targetids", weights.size(),
         targets.size());
  for (size_t i = 0; i < count; ++i) {
    checked_position(modes[i], kSplitModes, "nodes_modes");
    checked_position(features[i], INT64_MAX, "nodes_featureids");
    out.nodes.push_back(
        {features[i], static_cast<SplitMode>(modes[i]), splits[i], missing[i] != 0, {}, {}});
  }
  const auto branches = [&](const char* leafs, const char* ids, BranchOf branch) {
    const auto leaf = of_nodes(attrs.get_ints(leafs), leafs);
    const auto target = of_nodes(attrs.get_ints(ids), ids);
    for (size_t i = 0; i < count; ++i)
      out.nodes[i].*branch = {
          checked_position(target[i], leaf[i] != 0 ? weights.size() : count, ids), leaf[i] != 0};
  };
  branches("nodes_trueleafs", "nodes_truenodeids", &TreeNode::if_true);
  branches("nodes_falseleafs", "nodes_falsenodeids", &TreeNode::if_false);
  read_members(attrs, out);
  for (size_t i = 0; i < weights.size(); ++i) {
    out.vote_begin.push_back(i);
    out.votes.push_back({checked_position(targets[i], out.targets, "leaf_targetids"), weights[i]});
  }
  out.vote_begin.push_back(weights.size());
  for (const int64_t root : attrs.get_ints("tree_roots"))
    out.roots.push_back({checked_position(root, count, "tree_roots"), false});
  out.check_acyclic();
  return out;
}

void infer(InferContext& c) {
  const DType t = check_dtype(c, 0, type_set({DType::kF32, DType::kF64, DType::kF16}));
  require_rank(c, 0, 2);
  if (!sizes_at_hand(c)) forest_of(c.attrs());
  c.set(0, t, {c.dims(0)[0], c.attrs().get_int("n_targets", 1)});
}

}  // namespace

TreeModel tree_ensemble(const Attrs& attrs) {
  return {.forest = forest_of(attrs),
          .aggregate = static_cast<Aggregate>(
              attrs.get_int("aggregate_function", static_cast<int64_t>(Aggregate::kSum))),
          .transform = std::string(transform_of(attrs))};
}

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
  op.reference = reference_trees;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
