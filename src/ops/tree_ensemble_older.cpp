// TreeEnsembleClassifier and TreeEnsembleRegressor (ai.onnx.ml 1 and 3, replaced by TreeEnsemble in
// 5): nodes are named by tree and number, leaves are nodes, and a leaf may vote for several
// targets.

#include <algorithm>
#include <array>
#include <numeric>

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

constexpr std::string_view kLeafMode = "LEAF";

/// The mode a node names; a leaf has none.
std::optional<SplitMode> split_mode(const std::string& text) {
  constexpr std::array<std::string_view, 6> names{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                  "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  if (text == kLeafMode) return std::nullopt;
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end())
    fail(Status::kInvalidModel, "attribute 'nodes_modes' has '{}', expected LEAF or one of {}",
         text, fmt::join(names, ", "));
  return static_cast<SplitMode>(at - names.begin());
}

/// The list in its place; files have a million texts.
std::span<const std::string> modes_of(const Attrs& attrs) {
  const Attr* modes = attrs.find("nodes_modes");
  if (!modes) return {};
  return std::get<std::vector<std::string>>(*modes);
}

/// Finds nodes by tree and number: they are kept in that order, in which files list them already.
class NodeNames {
 public:
  static constexpr size_t kNowhere = SIZE_MAX;

  /// As many of either, none twice.
  NodeNames(std::span<const int64_t> trees, std::span<const int64_t> ids)
      : trees_(trees), ids_(ids), order_(trees.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto name = [&](size_t i) { return std::pair(trees[i], ids[i]); };
    if (!std::ranges::is_sorted(order_, {}, name)) std::ranges::sort(order_, {}, name);
    for (size_t k = 0; k < order_.size(); ++k) {
      if (k > 0 && name(order_[k]) == name(order_[k - 1]))
        fail(Status::kInvalidModel, "node {} of tree {} is given twice", ids[order_[k]],
             trees[order_[k]]);
      if (k == 0 || trees[order_[k]] != trees[order_[k - 1]]) begins_.push_back(k);
    }
    begins_.push_back(order_.size());
  }

  size_t tree_count() const { return begins_.size() - 1; }
  /// Positions in the file of the nodes of a tree, by number; trees are by number too.
  std::span<const size_t> tree(size_t k) const {
    return std::span(order_).subspan(begins_[k], begins_[k + 1] - begins_[k]);
  }
  /// Position in the file.
  size_t find(int64_t tree, int64_t id) {
    if (begins_.size() == 1) return kNowhere;
    // Whoever asks for one node of a tree asks for the others next.
    if (trees_[order_[begins_[last_]]] != tree) {
      const auto starts = std::span(begins_).first(tree_count());
      const auto at = std::ranges::lower_bound(starts, tree, {},
                                               [&](size_t begin) { return trees_[order_[begin]]; });
      if (at == starts.end() || trees_[order_[*at]] != tree) return kNowhere;
      last_ = static_cast<size_t>(at - starts.begin());
    }
    const auto nodes = this->tree(last_);
    // Numbers without gaps are places.
    const uint64_t guess = static_cast<uint64_t>(id) - static_cast<uint64_t>(ids_[nodes[0]]);
    if (guess < nodes.size() && ids_[nodes[guess]] == id) return nodes[guess];
    const auto at = std::ranges::lower_bound(nodes, id, {}, [&](size_t i) { return ids_[i]; });
    return at != nodes.end() && ids_[*at] == id ? *at : kNowhere;
  }

 private:
  std::span<const int64_t> trees_, ids_;
  std::vector<size_t> order_;   ///< positions in the file, by name
  std::vector<size_t> begins_;  ///< of each tree in order_, and the end
  size_t last_ = 0;             ///< the tree found last
};

/// Reads the attributes nodes_* and PREFIX_{treeids,nodeids,ids,weights}.
class Reader {
 public:
  Reader(const Attrs& attrs, std::string prefix, size_t targets)
      : attrs_(attrs),
        prefix_(std::move(prefix)),
        trees_(attrs.get_ints("nodes_treeids")),
        ids_(of_nodes("nodes_nodeids", attrs.get_ints("nodes_nodeids"))),
        names_(trees_, ids_) {
    out_.targets = targets;
    read_places();
    read_nodes();
    read_roots();
    read_votes();
  }
  Forest take() { return std::move(out_); }

 private:
  void check_of_nodes(const char* name, size_t entries) const {
    if (entries != trees_.size())
      fail(Status::kInvalidModel, "attribute '{}' has {} entries for {} nodes", name, entries,
           trees_.size());
  }
  template <class T>
  std::vector<T> of_nodes(const char* name, std::vector<T> list) const {
    check_of_nodes(name, list.size());
    return list;
  }

  size_t position_of(int64_t tree, int64_t node, std::string_view attr) {
    const size_t at = names_.find(tree, node);
    if (at == NodeNames::kNowhere)
      fail(Status::kInvalidModel, "attribute '{}' names node {} of tree {}, which does not exist",
           attr, node, tree);
    return at;
  }

  void read_places() {
    const std::span<const std::string> modes = modes_of(attrs_);
    check_of_nodes("nodes_modes", modes.size());
    size_t nodes = 0;
    places_.reserve(modes.size());
    modes_.reserve(modes.size());
    for (const std::string& mode : modes) {
      modes_.push_back(split_mode(mode));
      const bool leaf = !modes_.back();
      places_.push_back({leaf ? leaves_++ : nodes++, leaf});
    }
    out_.nodes.reserve(nodes);
  }

  void read_nodes() {
    const char* missing_name = "nodes_missing_value_tracks_true";
    const auto features = of_nodes("nodes_featureids", attrs_.get_ints("nodes_featureids"));
    const auto splits = of_nodes("nodes_values", numbers(attrs_, "nodes_values"));
    const auto if_true = of_nodes("nodes_truenodeids", attrs_.get_ints("nodes_truenodeids"));
    const auto if_false = of_nodes("nodes_falsenodeids", attrs_.get_ints("nodes_falsenodeids"));
    auto missing = attrs_.get_ints(missing_name);
    if (missing.empty()) missing.resize(trees_.size(), 0);
    missing = of_nodes(missing_name, std::move(missing));
    is_child_.resize(trees_.size(), 0);
    const auto child = [&](size_t i, const std::vector<int64_t>& ids, const char* attr) {
      const size_t at = position_of(trees_[i], ids[i], attr);
      is_child_[at] = 1;
      onward_ = onward_ && at > i;
      return places_[at];
    };
    for (size_t i = 0; i < trees_.size(); ++i) {
      if (!modes_[i]) continue;
      checked_position(features[i], INT64_MAX, "nodes_featureids");
      out_.nodes.push_back({features[i], *modes_[i], splits[i], missing[i] != 0,
                            child(i, if_true, "nodes_truenodeids"),
                            child(i, if_false, "nodes_falsenodeids")});
    }
  }

  /// The root of a tree is its one node that is nobody's child.
  void read_roots() {
    for (size_t k = 0; k < names_.tree_count(); ++k) {
      size_t roots = 0;
      for (const size_t i : names_.tree(k)) {
        if (is_child_[i]) continue;
        ++roots;
        out_.roots.push_back(places_[i]);
      }
      if (roots != 1)
        fail(Status::kInvalidModel, "tree {} has {} roots (nodes that are nobody's child)",
             trees_[names_.tree(k)[0]], roots);
    }
    // Where parents stand before their children no walk comes back, and one from a root meets all.
    if (onward_) return;
    out_.check_acyclic();
    check_reached();
  }

  /// Nodes that no walk from a root meets are children of each other in a circle.
  void check_reached() const {
    std::vector<bool> nodes(out_.nodes.size(), false), leaves(leaves_, false);
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
    const std::string nodes_name = attr("_nodeids"), ids_name = attr("_ids");
    std::vector<size_t> leaf_of(trees.size());
    auto& begin = out_.vote_begin;
    begin.resize(leaves_ + 1, 0);
    for (size_t i = 0; i < trees.size(); ++i) {
      const Branch place = places_[position_of(trees[i], nodes[i], nodes_name)];
      if (!place.leaf)
        fail(Status::kInvalidModel, "node {} of tree {} votes and is no leaf", nodes[i], trees[i]);
      leaf_of[i] = place.target;
      ++begin[place.target + 1];
    }
    // Those of a leaf in the order of the file.
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    out_.votes.resize(trees.size());
    std::vector<size_t> next(begin.begin(), begin.end() - 1);
    for (size_t i = 0; i < trees.size(); ++i)
      out_.votes[next[leaf_of[i]]++] = {checked_position(ids[i], out_.targets, ids_name),
                                        weights[i]};
  }

  const Attrs& attrs_;
  std::string prefix_;
  std::vector<int64_t> trees_, ids_;
  NodeNames names_;
  std::vector<std::optional<SplitMode>> modes_;
  std::vector<Branch> places_;  ///< of the file's nodes
  std::vector<uint8_t> is_child_;
  bool onward_ = true;  ///< every child stands behind its parents
  size_t leaves_ = 0;
  Forest out_;
};

/// Are there as many features as the nodes compare?
void check_features(InferContext& c) {
  const Dim& features = c.dims(0).back();
  if (!features.is_constant()) return;
  const std::span<const std::string> modes = modes_of(c.attrs());
  const Attr* ids = c.attrs().find("nodes_featureids");
  if (!ids) return;
  const auto& list = std::get<std::vector<int64_t>>(*ids);
  int64_t last = -1;
  for (size_t i = 0; i < std::min(list.size(), modes.size()); ++i)
    if (list[i] > last && modes[i] != kLeafMode) last = list[i];
  if (last >= features.value())
    c.error("attribute 'nodes_featureids' reads feature {} of {}", last, features.value());
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
  check_rows(c);
  if (!sizes_at_hand(c)) tree_regressor(c.attrs());
  check_features(c);
  c.set(0, DType::kF32, {row_count(c), c.attrs().get_int("n_targets", 1)});
}

// ---- TreeEnsembleClassifier ---------------------------------------------------------------------

void infer_classifier(InferContext& c) {
  check_dtype(c, 0, kMlNumbers);
  check_rows(c);
  if (!sizes_at_hand(c)) tree_classifier(c.attrs());
  check_features(c);
  const Tensor labels = class_labels(c.attrs(), "classlabels_int64s");
  c.set(0, labels.dtype(), {row_count(c)});
  c.set(1, DType::kF32, {row_count(c), labels.count()});
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
  std::vector<bool> voted(out.forest.targets, false);
  for (const Vote& vote : out.forest.votes) {
    voted[vote.target] = true;
    out.probability = out.probability && vote.weight >= 0;
  }
  if (voted.size() == 2 && voted[0] != voted[1]) out.only_class = voted[0] ? 0 : 1;
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
