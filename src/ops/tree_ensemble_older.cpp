// TreeEnsembleClassifier and TreeEnsembleRegressor (ai.onnx.ml 1 and 3, replaced by TreeEnsemble in
// 5): nodes are named by tree and number, leaves are nodes, and a leaf may vote for several
// targets.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ops/checks.h"
#include "ops/ml.h"
#include "ops/trees.h"

namespace xc {

namespace {

/// The numbers of NAME or, where those are f64, NAME_as_tensor.
std::vector<double> numbers(const Attrs& attrs, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  if (!attrs.has(tensor)) return attrs.get_floats(name);
  if (attrs.has(name))
    fail(Status::kInvalidModel, "attributes '{}' and '{}' are both given", name, tensor);
  const Tensor value = attrs.get_tensor(tensor);
  if (!is_float(value.dtype()) || value.rank() != 1)
    fail(Status::kInvalidModel, "attribute '{}' is {}{}, expected floats of rank 1", tensor,
         xc::name(value.dtype()), to_text(value.dims()));
  return value.to_doubles();
}

/// The mode a node names; a leaf has none.
std::optional<SplitMode> split_mode(const std::string& text) {
  constexpr std::array<std::string_view, 6> names{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                  "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  if (text == "LEAF") return std::nullopt;
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end())
    fail(Status::kInvalidModel, "attribute 'nodes_modes' has '{}', expected LEAF or one of {}",
         text, fmt::join(names, ", "));
  return static_cast<SplitMode>(at - names.begin());
}

/// Reads the attributes nodes_* and PREFIX_{treeids,nodeids,ids,weights}.
class Reader {
 public:
  Reader(const Attrs& attrs, std::string prefix, size_t targets)
      : attrs_(attrs), prefix_(std::move(prefix)) {
    out_.targets = targets;
    trees_ = attrs.get_ints("nodes_treeids");
    ids_ = of_nodes("nodes_nodeids", attrs.get_ints("nodes_nodeids"));
    read_places();
    read_nodes();
    read_roots();
    read_votes();
  }
  Forest take() { return std::move(out_); }

 private:
  using Name = std::pair<int64_t, int64_t>;  ///< tree, node

  template <class T>
  std::vector<T> of_nodes(const char* name, std::vector<T> list) const {
    if (list.size() != trees_.size())
      fail(Status::kInvalidModel, "attribute '{}' has {} entries for {} nodes", name, list.size(),
           trees_.size());
    return list;
  }

  Branch place_of(int64_t tree, int64_t node, std::string_view attr) const {
    const auto at = places_.find({tree, node});
    if (at == places_.end())
      fail(Status::kInvalidModel, "attribute '{}' names node {} of tree {}, which does not exist",
           attr, node, tree);
    return at->second;
  }

  void read_places() {
    modes_ = of_nodes("nodes_modes", attrs_.get_strings("nodes_modes"));
    size_t nodes = 0, leaves = 0;
    for (size_t i = 0; i < trees_.size(); ++i) {
      const bool leaf = !split_mode(modes_[i]);
      if (!places_.emplace(Name{trees_[i], ids_[i]}, Branch{leaf ? leaves++ : nodes++, leaf})
               .second)
        fail(Status::kInvalidModel, "node {} of tree {} is given twice", ids_[i], trees_[i]);
    }
    out_.leaves.resize(leaves);
  }

  void read_nodes() {
    const char* missing_name = "nodes_missing_value_tracks_true";
    const auto features = of_nodes("nodes_featureids", attrs_.get_ints("nodes_featureids"));
    const auto splits = of_nodes("nodes_values", numbers(attrs_, "nodes_values"));
    const auto if_true = of_nodes("nodes_truenodeids", attrs_.get_ints("nodes_truenodeids"));
    const auto if_false = of_nodes("nodes_falsenodeids", attrs_.get_ints("nodes_falsenodeids"));
    auto missing = attrs_.get_ints(missing_name);
    if (missing.empty()) missing.resize(trees_.size(), 0);
    missing = of_nodes(missing_name, missing);
    for (size_t i = 0; i < trees_.size(); ++i) {
      const auto mode = split_mode(modes_[i]);
      if (!mode) continue;
      checked_position(features[i], INT64_MAX, "nodes_featureids");
      out_.nodes.push_back({features[i], *mode, splits[i], missing[i] != 0,
                            place_of(trees_[i], if_true[i], "nodes_truenodeids"),
                            place_of(trees_[i], if_false[i], "nodes_falsenodeids")});
      children_.insert({trees_[i], if_true[i]});
      children_.insert({trees_[i], if_false[i]});
    }
  }

  /// The root of a tree is its one node that is nobody's child.
  void read_roots() {
    std::map<int64_t, size_t> count;
    for (const auto& [name, place] : places_) {
      size_t& roots = count[name.first];
      if (children_.contains(name)) continue;
      ++roots;
      out_.roots.push_back(place);
    }
    for (const auto& [tree, roots] : count)
      if (roots != 1)
        fail(Status::kInvalidModel, "tree {} has {} roots (nodes that are nobody's child)", tree,
             roots);
    out_.check_acyclic();
    check_reached();
  }

  /// Nodes that no walk from a root meets are children of each other in a circle.
  void check_reached() const {
    std::vector<bool> nodes(out_.nodes.size(), false), leaves(out_.leaves.size(), false);
    size_t reached = 0;
    for (std::vector<Branch> open = out_.roots; !open.empty();) {
      const Branch at = open.back();
      open.pop_back();
      auto seen = (at.leaf ? leaves : nodes)[at.target];
      if (seen) continue;
      seen = true;
      ++reached;
      if (at.leaf) continue;
      open.push_back(out_.nodes[at.target].if_true);
      open.push_back(out_.nodes[at.target].if_false);
    }
    if (reached != places_.size())
      fail(Status::kInvalidModel,
           "attributes 'nodes_truenodeids' and 'nodes_falsenodeids': {} of "
           "{} nodes are reached from the roots, the others are in a cycle",
           reached, places_.size());
  }

  void read_votes() {
    const auto attr = [&](const char* what) { return prefix_ + what; };
    const auto trees = attrs_.get_ints(attr("_treeids")), nodes = attrs_.get_ints(attr("_nodeids")),
               ids = attrs_.get_ints(attr("_ids"));
    const auto weights = numbers(attrs_, attr("_weights"));
    if (nodes.size() != trees.size() || ids.size() != trees.size() ||
        weights.size() != trees.size())
      fail(Status::kInvalidModel,
           "{0}_treeids, _nodeids, _ids and _weights have {1}, {2}, {3} and "
           "{4} entries, which must be as many",
           prefix_, trees.size(), nodes.size(), ids.size(), weights.size());
    for (size_t i = 0; i < trees.size(); ++i) {
      const Branch place = place_of(trees[i], nodes[i], attr("_nodeids"));
      if (!place.leaf)
        fail(Status::kInvalidModel, "node {} of tree {} votes and is no leaf", nodes[i], trees[i]);
      out_.leaves[place.target].push_back(
          {checked_position(ids[i], out_.targets, attr("_ids")), weights[i]});
    }
  }

  const Attrs& attrs_;
  std::string prefix_;
  std::vector<int64_t> trees_, ids_;
  std::vector<std::string> modes_;
  std::map<Name, Branch> places_;
  std::set<Name> children_;
  Forest out_;
};

void check_features(InferContext& c, const Forest& forest) {
  check_rows(c);
  const Dim& features = c.dims(0).back();
  if (features.is_constant() && features.value() < forest.feature_count())
    c.error("attribute 'nodes_featureids' reads feature {} of {}", forest.feature_count() - 1,
            features.value());
}

// ---- TreeEnsembleRegressor ----------------------------------------------------------------------

/// Empty, or one a target.
std::vector<double> base_values(const Attrs& attrs, size_t targets) {
  auto out = numbers(attrs, "base_values");
  if (!out.empty() && out.size() != targets)
    fail(Status::kInvalidModel, "attribute 'base_values' has {} entries, expected {}", out.size(),
         targets);
  return out;
}

Aggregate aggregate_of(const Attrs& attrs) {
  const std::string text = attrs.get_string("aggregate_function", "SUM");
  return text == "AVERAGE" ? Aggregate::kAverage
         : text == "MIN"   ? Aggregate::kMin
         : text == "MAX"   ? Aggregate::kMax
                           : Aggregate::kSum;
}

void infer_regressor(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  const TreeModel model = tree_regressor(c.attrs());
  check_features(c, model.forest);
  c.set(0, DType::kF32, {row_count(c), static_cast<int64_t>(model.forest.targets)});
}

// ---- TreeEnsembleClassifier ---------------------------------------------------------------------

void infer_classifier(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  const TreeModel model = tree_classifier(c.attrs());
  check_features(c, model.forest);
  c.set(0, model.labels.dtype(), {row_count(c)});
  c.set(1, DType::kF32, {row_count(c), model.labels.count()});
}

std::vector<AttrSpec> with_nodes(std::vector<AttrSpec> attrs) {
  attrs.insert(attrs.end(), {{"base_values", AttrKind::kFloats},
                             {"base_values_as_tensor", AttrKind::kTensor},
                             {"nodes_falsenodeids", AttrKind::kInts},
                             {"nodes_featureids", AttrKind::kInts},
                             {"nodes_hitrates", AttrKind::kFloats},
                             {"nodes_hitrates_as_tensor", AttrKind::kTensor},
                             {"nodes_missing_value_tracks_true", AttrKind::kInts},
                             {"nodes_modes", AttrKind::kStrings},
                             {"nodes_nodeids", AttrKind::kInts},
                             {"nodes_treeids", AttrKind::kInts},
                             {"nodes_truenodeids", AttrKind::kInts},
                             {"nodes_values", AttrKind::kFloats},
                             {"nodes_values_as_tensor", AttrKind::kTensor},
                             score_transform_attr()});
  return attrs;
}

}  // namespace

TreeModel tree_regressor(const Attrs& attrs) {
  TreeModel out{
      .forest = Reader(attrs, "target", static_cast<size_t>(attrs.get_int("n_targets", 1))).take(),
      .aggregate = aggregate_of(attrs),
      .transform = attrs.get_string("post_transform", "NONE")};
  out.base = base_values(attrs, out.forest.targets);
  return out;
}

TreeModel tree_classifier(const Attrs& attrs) {
  const Tensor labels = class_labels(attrs, "classlabels_int64s");
  TreeModel out{.forest = Reader(attrs, "class", static_cast<size_t>(labels.count())).take(),
                .base = numbers(attrs, "base_values"),
                .transform = attrs.get_string("post_transform", "NONE"),
                .labels = labels};
  std::set<size_t> voted;
  for (const auto& leaf : out.forest.leaves)
    for (const Vote& vote : leaf) {
      voted.insert(vote.target);
      out.probability = out.probability && vote.weight >= 0;
    }
  if (labels.count() == 2 && voted.size() == 1) out.only_class = *voted.begin();
  // One base value for two classes belongs to the one score there is.
  if (out.base.size() == 1 && out.only_class) out.base.resize(2, out.base[0]);
  if (!out.base.empty() && out.base.size() != out.forest.targets)
    fail(Status::kInvalidModel, "attribute 'base_values' has {} entries for {} classes",
         out.base.size(), out.forest.targets);
  return out;
}

void register_tree_ensemble_older(OpList& ops) {
  AttrSpec aggregate{"aggregate_function", AttrKind::kString};
  aggregate.choices = "SUM|AVERAGE|MIN|MAX";
  OpDef op = ml_op("TreeEnsembleRegressor",
                   with_nodes({aggregate,
                               {"n_targets", AttrKind::kInt, false, 1, INT32_MAX},
                               {"target_ids", AttrKind::kInts},
                               {"target_nodeids", AttrKind::kInts},
                               {"target_treeids", AttrKind::kInts},
                               {"target_weights", AttrKind::kFloats},
                               {"target_weights_as_tensor", AttrKind::kTensor}}),
                   infer_regressor, reference_trees);
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
  op = classifier_op("TreeEnsembleClassifier",
                     with_nodes({{"class_ids", AttrKind::kInts},
                                 {"class_nodeids", AttrKind::kInts},
                                 {"class_treeids", AttrKind::kInts},
                                 {"class_weights", AttrKind::kFloats},
                                 {"class_weights_as_tensor", AttrKind::kTensor},
                                 {"classlabels_int64s", AttrKind::kInts},
                                 {"classlabels_strings", AttrKind::kStrings}}),
                     infer_classifier, reference_trees);
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
