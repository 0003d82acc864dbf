#include "backends/cpu/compact_forest.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace xc::cpu {
namespace {

/// While nodes are made, leaf k is this far behind their numbers.
constexpr uint32_t kLeaf = uint32_t{1} << 31;

uint32_t checked_number(size_t n) {
  if (n >= kLeaf) fail(Status::kUnsupported, "unsupported: 2^31 nodes or features in trees");
  return static_cast<uint32_t>(n);
}

template <class T>
T before(T x) {
  return std::nextafter(x, -std::numeric_limits<T>::infinity());
}

/// Turns the comparisons of TreeNode into `x <= split`.
template <class T>
class Builder {
 public:
  using Node = CompactNode<T>;

  explicit Builder(const Forest& forest) : forest_(forest), placed_(forest.nodes.size(), kLeaf) {
    for (const Branch& root : forest.roots) {
      roots.push_back(place(root));
      // Depth first, the branch of small numbers behind its node.
      while (!open_.empty()) {
        const auto [number, at] = open_.back();
        open_.pop_back();
        fill(number, forest.nodes[at]);
      }
    }
  }

  std::vector<Node> nodes;
  std::vector<uint32_t> roots;
  int64_t feature_count = 0;
  bool any_nan_first = false;

 private:
  struct Open {
    uint32_t number;
    size_t at;
  };

  uint32_t place(const Branch& branch) {
    if (branch.leaf) return kLeaf + checked_number(branch.target);
    uint32_t& number = placed_[branch.target];
    if (number == kLeaf) {
      number = add_node();
      open_.push_back({number, branch.target});
    }
    return number;
  }
  uint32_t add_node() {
    nodes.emplace_back();
    return checked_number(nodes.size() - 1);
  }

  /// `number` compares with `split`; NaN goes to the first child or to the second.
  void set(uint32_t number, T split, uint32_t low, uint32_t high, bool nan_first) {
    nodes[number] = {split, feature_ | (nan_first ? Node::kNaNFirst : 0), {low, high}};
    any_nan_first = any_nan_first || nan_first;
  }

  void fill(uint32_t number, const TreeNode& node) {
    feature_count = std::max(feature_count, checked_add(node.feature, 1));
    feature_ = checked_number(static_cast<size_t>(node.feature));
    const uint32_t no = place(node.if_false), yes = place(node.if_true);
    const bool nan_true = node.test(std::numeric_limits<double>::quiet_NaN());
    const std::vector<T> ends = interval_ends(node);
    const bool first_is = first_interval(node, ends);
    if (ends.size() == 1) {
      const uint32_t low = first_is ? yes : no, high = first_is ? no : yes;
      return set(number, ends[0], low, high, nan_true == first_is && low != high);
    }
    // One answer for all numbers, or a search for the interval behind a node that takes NaN out.
    const uint32_t numbers =
        ends.empty() ? (first_is ? yes : no) : search(ends, 0, ends.size(), first_is, yes, no);
    set(number, std::numeric_limits<T>::infinity(), numbers, nan_true ? yes : no, false);
  }

  /// The answer changes behind each of these numbers: what it is up to the first, no up to the
  /// second, ...
  static std::vector<T> interval_ends(const TreeNode& node) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    std::vector<T> ends;
    const T split = static_cast<T>(node.split);
    const auto end_at = [&](T x) {
      // Two changes at one place are none.
      if (!ends.empty() && ends.back() == x)
        ends.pop_back();
      else
        ends.push_back(x);
    };
    const auto only = [&](T x) {
      if (x != -kInfinity) end_at(before(x));
      end_at(x);
    };
    if (node.mode == SplitMode::kMember) {
      std::vector<T> members;
      for (const double m : node.members)
        if (!std::isnan(m)) members.push_back(static_cast<T>(m));
      std::ranges::sort(members);
      for (const T m : members) only(m);
    } else if (std::isnan(split)) {
      return ends;
    } else if (node.mode == SplitMode::kEqual || node.mode == SplitMode::kNotEqual) {
      only(split);
    } else if (node.mode == SplitMode::kLeq || node.mode == SplitMode::kGreater) {
      end_at(split);
    } else if (split != -kInfinity) {
      end_at(before(split));
    }
    return ends;
  }

  /// The answer for the numbers up to the first end, or for all.
  static bool first_interval(const TreeNode& node, const std::vector<T>& ends) {
    return node.test(ends.empty() ? 0 : static_cast<double>(ends[0]));
  }

  /// Nodes that find the interval among ends [begin, end); the answer before ends[i] is
  /// `first` for even i.
  uint32_t search(const std::vector<T>& ends, size_t begin, size_t end, bool first, uint32_t yes,
                  uint32_t no) {
    if (begin == end) return (begin % 2 == 0) == first ? yes : no;
    const uint32_t number = add_node();
    const size_t middle = (begin + end) / 2;
    const uint32_t low = search(ends, begin, middle, first, yes, no),
                   high = search(ends, middle + 1, end, first, yes, no);
    set(number, ends[middle], low, high, false);
    return number;
  }

  const Forest& forest_;
  std::vector<uint32_t> placed_;  ///< of each node of the forest; kLeaf = not yet
  std::vector<Open> open_;
  uint32_t feature_ = 0;
};

}  // namespace

template <class T>
CompactForest<T>::CompactForest(const Forest& forest) {
  Builder<T> built(forest);
  nodes_ = std::move(built.nodes);
  roots_ = std::move(built.roots);
  feature_count_ = built.feature_count;
  any_nan_first_ = built.any_nan_first;
  first_leaf_ = checked_number(nodes_.size());
  checked_number(nodes_.size() + forest.leaf_count());
  const auto settle = [&](uint32_t& at) {
    if (at >= kLeaf) at = at - kLeaf + first_leaf_;
  };
  for (CompactNode<T>& node : nodes_)
    for (uint32_t& child : node.child) settle(child);
  for (uint32_t& root : roots_) settle(root);
  for (size_t k = 0; k < forest.leaf_count(); ++k) {
    const auto self = static_cast<uint32_t>(first_leaf_ + k);
    nodes_.push_back({0, 0, {self, self}});
  }
  vote_begin_ = forest.vote_begin;
  votes_ = forest.votes;
}

/// `start(k)`: the row and the root of walk k. Walks go side by side, where they hide each other's
/// latency; one that has reached its leaf stays there until the next look, which gives its lane to
/// another: trees need not be of one depth.
template <class T>
template <bool kNaN, class Start>
void CompactForest<T>::walk_abreast(size_t count, Start start, uint32_t* leaves) const {
  constexpr size_t kLanes = 16;
  constexpr int kSteps = 4;  // from look to look
  const CompactNode<T>* nodes = nodes_.data();
  struct Lane {
    const T* row;
    uint32_t at;
  };
  Lane lanes[kLanes];
  size_t walks[kLanes];
  size_t next = 0, active = 0;
  const auto begin = [&](size_t lane) {
    std::tie(lanes[lane].row, lanes[lane].at) = start(next);
    walks[lane] = next++;
  };
  while (active < kLanes && next < count) begin(active++);
  const auto step = [&](Lane& lane) {
    const CompactNode<T>& node = nodes[lane.at];
    const T x = lane.row[node.feature & ~node.kNaNFirst];
    bool second = !(x <= node.split);
    if constexpr (kNaN) second = second && !(x != x && (node.feature & node.kNaNFirst) != 0);
    lane.at = node.child[second];
  };
  while (active > 0) {
    for (int s = 0; s < kSteps; ++s) {
      if (active == kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) step(lanes[lane]);
      else
        for (size_t lane = 0; lane < active; ++lane) step(lanes[lane]);
    }
    for (size_t lane = 0; lane < active;) {
      if (lanes[lane].at < first_leaf_) {
        ++lane;
        continue;
      }
      leaves[walks[lane]] = lanes[lane].at - first_leaf_;
      if (next < count) {
        begin(lane++);
      } else {
        --active;
        lanes[lane] = lanes[active];
        walks[lane] = walks[active];
      }
    }
  }
}

template <class T>
template <class Start>
void CompactForest<T>::walk(size_t count, Start start, bool nan, uint32_t* leaves) const {
  if (first_leaf_ == 0) {  // nothing is compared: rows may have no features
    for (size_t k = 0; k < count; ++k) leaves[k] = start(k).second;
    return;
  }
  nan ? walk_abreast<true>(count, start, leaves) : walk_abreast<false>(count, start, leaves);
}

template <class T>
void CompactForest<T>::walk_rows(size_t tree, std::span<const T* const> rows, bool nan,
                                 uint32_t* leaves) const {
  walk(rows.size(), [&](size_t k) { return std::pair(rows[k], roots_[tree]); }, nan, leaves);
}

template <class T>
void CompactForest<T>::walk_trees(const T* row, bool nan, uint32_t* leaves) const {
  walk(roots_.size(), [&](size_t k) { return std::pair(row, roots_[k]); }, nan, leaves);
}

template <class T>
int64_t CompactForest<T>::bytes() const {
  return static_cast<int64_t>(nodes_.size() * sizeof(nodes_[0]) + roots_.size() * sizeof(uint32_t) +
                              vote_begin_.size() * sizeof(size_t) + votes_.size() * sizeof(Vote));
}

template <class T>
bool holds_splits(const Forest& forest) {
  const auto held = [](double x) { return std::isnan(x) || static_cast<T>(x) == x; };
  return std::ranges::all_of(forest.nodes, [&](const TreeNode& node) {
    return (node.mode == SplitMode::kMember || held(node.split)) &&
           std::ranges::all_of(node.members, held);
  });
}

template class CompactForest<float>;
template class CompactForest<double>;
template bool holds_splits<float>(const Forest&);

}  // namespace xc::cpu
