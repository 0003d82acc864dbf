#include "plan/fusion/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace xc::fusion {
namespace {

constexpr uint32_t kRoot = UINT32_MAX;
constexpr size_t kMaxHomes = 6;      // groups of one node's producers that are merged in every way
constexpr size_t kLeastHomes = 2;    // of them, where the search has to hurry
constexpr uint8_t kOwn = UINT8_MAX;  // no given group

/// A group that may still grow, and the open groups it depends on.
struct Open {
  Bits nodes;
  Bits direct;             // by an edge: indices of open groups
  Bits through;            // over a group that has closed
  uint32_t last_user = 0;  // position of the last node that reads one of these; 0: none
  uint8_t given = kOwn;
  bool fixed = false;
};

struct State {
  std::vector<Open> open;
  double paid_s = 0;                           // of closed groups
  double bound_s = 0;                          // of any grouping that comes of it
  double compute_left_s = 0, move_left_s = 0;  // of the nodes that are not in closed groups
  uint32_t trace = kRoot;
};

/// A closed group of a state, and those closed before.
struct Closed {
  uint32_t before;
  Bits nodes;
  uint8_t given;
};

/// The set without index `at`, those above it moved down.
Bits without(const Bits& set, uint32_t at) {
  Bits out;
  set.for_each([&](uint32_t i) {
    if (i != at) out |= Bits::of(i > at ? i - 1 : i);
  });
  return out;
}

class Search {
 public:
  Search(const Part& part, const SearchOptions& options) : part_(part), options_(options) {
    // What a node costs in any grouping: its operations, what it reads first of all and what has
    // to be written. A value that a given group would keep inside is not counted.
    Bits given_nodes;
    for (const Bits& g : part.given) given_nodes |= g;
    Bits fixed;
    for (uint32_t i = 0; i < part.nodes.size(); ++i)
      if (part.nodes[i].kind == SearchNode::Kind::kFixed && !given_nodes.has(i))
        fixed |= Bits::of(i);
    least_compute_s_.assign(part.nodes.size(), 0);
    least_move_s_ = least_compute_s_;
    for (uint32_t i = 0; i < part.nodes.size(); ++i) {
      const SearchNode& n = part.nodes[i];
      if (fixed.has(i) || n.free) continue;  // fixed ones cost the same in every grouping
      least_compute_s_[i] = n.compute_s;
      least_move_s_[i] = n.picked_s;
      for (uint32_t v : n.reads) {
        const SearchValue& value = part.values[v];
        const Bits readers = value.readers - fixed;
        if ((value.makers - fixed).empty() && readers.first() == i)
          least_move_s_[i] += value.move_s;
      }
      for (uint32_t v : n.writes) {
        const SearchValue& value = part.values[v];
        if (value.outside || value.readers.intersects(fixed)) least_move_s_[i] += value.move_s;
      }
    }
    const double factor = part.given.empty() ? 1.0 : std::min(1.0, part.given_factor);
    bound_factor_ = factor * options_.bound_factor;
  }

  Grouping run(size_t max_states, double limit_s) {
    result_ = {};
    result_.price_s = std::numeric_limits<double>::infinity();
    limit_s_ = limit_s;
    work_left_ = options_.max_work;
    trace_.clear();
    std::vector<State> now(1), next;
    for (size_t i = 0; i < part_.nodes.size(); ++i) {
      now[0].compute_left_s += least_compute_s_[i];
      now[0].move_left_s += least_move_s_[i];
    }
    for (uint32_t i = 0; i < part_.nodes.size(); ++i) {
      next.clear();
      by_key_.clear();
      const size_t homes = narrow(now, i);
      for (const State& state : now) expand(state, i, homes, next);
      keep_best(next, max_states);
      result_.states += next.size();
      if (next.empty()) return std::move(result_);  // nothing under the limit
      now.swap(next);
    }
    // All groups are closed: one state.
    const State& best = *std::min_element(
        now.begin(), now.end(), [](const State& a, const State& b) { return a.paid_s < b.paid_s; });
    result_.price_s = best.paid_s;
    for (uint32_t t = best.trace; t != kRoot; t = trace_[t].before)
      result_.groups.push_back(trace_[t].nodes);
    std::reverse(result_.groups.begin(), result_.groups.end());
    return std::move(result_);
  }

  /// Every node alone: always possible.
  Grouping separate() {
    Grouping out;
    out.exact = false;
    out.price_s = 0;
    for (uint32_t i = 0; i < part_.nodes.size(); ++i) {
      const Bits alone = Bits::of(i);
      out.groups.push_back(alone);
      out.price_s += part_.nodes[i].kind == SearchNode::Kind::kFixed ? fixed_price(alone)
                                                                     : price(part_, alone, false);
    }
    return out;
  }

  /// Groups considered so far, in all runs.
  std::unordered_map<Bits, Candidate, BitsHash> take_candidates() { return std::move(memo_); }

 private:
  void keep_best(std::vector<State>& states, size_t most) {
    if (states.size() <= most) return;
    result_.exact = false;
    std::stable_sort(states.begin(), states.end(),
                     [](const State& a, const State& b) { return a.bound_s < b.bound_s; });
    states.resize(most);
  }

  /// Leaves out states, and returns how many groups of node i's producers are merged in every way,
  /// so that to expand them is no more than the node's share of the work that is left.
  size_t narrow(std::vector<State>& states, uint32_t i) {
    size_t open = 1, homes = 0;
    for (const State& state : states) {
      open = std::max(open, state.open.size());
      const auto count = std::count_if(state.open.begin(), state.open.end(),
                                       [&](const Open& group) { return is_home(group, i); });
      homes = std::max(homes, static_cast<size_t>(count));
    }
    const size_t wanted = homes, share = work_left_ / (part_.nodes.size() - i);
    homes = std::min(homes, kMaxHomes);
    while (homes > kLeastHomes && (states.size() * open << homes) > share) --homes;
    if (homes < wanted) result_.exact = false;
    keep_best(states, std::max<size_t>(1, share / (open << homes)));
    work_left_ -= std::min(work_left_, states.size() * open << homes);
    return homes;
  }

  /// Is it a group of producers of node i that this may be fused with?
  bool is_home(const Open& group, uint32_t i) const {
    return !group.fixed && group.given == kOwn && group.nodes.intersects(part_.nodes[i].producers);
  }

  void expand(const State& state, uint32_t i, size_t most_homes, std::vector<State>& out) {
    const SearchNode& node = part_.nodes[i];
    State with = state;
    Open alone;
    alone.nodes = Bits::of(i);
    alone.fixed = node.kind == SearchNode::Kind::kFixed;
    if (!node.users.empty()) alone.last_user = node.users.last();
    for (uint32_t g = 0; g < state.open.size(); ++g)
      if (state.open[g].nodes.intersects(node.producers)) alone.direct |= Bits::of(g);
    const auto last = static_cast<uint32_t>(with.open.size());
    // A given group takes its nodes one by one; that its first was taken decides it.
    for (uint8_t k = 0; k < part_.given.size(); ++k) {
      if (!part_.given[k].has(i)) continue;
      if (part_.given[k].first() == i) {
        with.open.push_back(alone);
        with.open.back().given = k;
        close(with, i, out);
        with.open.pop_back();
      }
      for (uint32_t g = 0; g < last; ++g)
        if (state.open[g].given == k) {
          with.open.push_back(alone);
          State merged = with;
          if (merge(merged, Bits::of(g) | Bits::of(last))) close(std::move(merged), i, out);
          return;
        }
    }
    with.open.push_back(alone);
    close(with, i, out);
    if (alone.fixed) return;
    // Fused with every set of its producers' groups.
    std::vector<uint32_t> homes;
    alone.direct.for_each([&](uint32_t g) {
      if (is_home(state.open[g], i)) homes.push_back(g);
    });
    const size_t sets = size_t{1} << std::min(homes.size(), most_homes);
    for (size_t chosen = 1; chosen < sets; ++chosen) {
      Bits members = Bits::of(last), nodes = alone.nodes;
      for (size_t k = 0; k < homes.size(); ++k)
        if ((chosen >> k) & 1) {
          members |= Bits::of(homes[k]);
          nodes |= state.open[homes[k]].nodes;
        }
      if (!candidate(nodes).reason.empty()) continue;
      State merged = with;
      if (merge(merged, members)) close(std::move(merged), i, out);
    }
  }

  /// Makes one group of some; false when a path leaves it and comes back.
  bool merge(State& state, const Bits& members) const {
    // Backwards from what the members read, over open groups that are no members.
    Bits stack, seen;
    bool cycle = false;
    members.for_each([&](uint32_t m) {
      cycle = cycle || state.open[m].through.intersects(members);
      stack |= (state.open[m].direct | state.open[m].through) - members;
    });
    while (!stack.empty() && !cycle) {
      const uint32_t g = stack.first();
      stack -= Bits::of(g);
      seen |= Bits::of(g);
      const Bits from = state.open[g].direct | state.open[g].through;
      cycle = from.intersects(members);
      stack |= from - seen;
    }
    if (cycle && !options_.allow_cycles) return false;
    const uint32_t home = members.first();
    Open& into = state.open[home];
    members.for_each([&](uint32_t m) {
      into.nodes |= state.open[m].nodes;
      into.direct |= state.open[m].direct;
      into.through |= state.open[m].through;
      into.last_user = std::max(into.last_user, state.open[m].last_user);
    });
    for (Open& other : state.open) {
      if (other.direct.intersects(members)) other.direct |= Bits::of(home);
      if (other.through.intersects(members)) other.through |= Bits::of(home);
    }
    into.direct -= members;
    into.through -= members;
    for (uint32_t m = static_cast<uint32_t>(state.open.size()); m-- > 0;)
      if (m != home && members.has(m)) remove(state, m);
    return true;
  }

  static void remove(State& state, uint32_t at) {
    state.open.erase(state.open.begin() + at);
    for (Open& other : state.open) {
      other.direct = without(other.direct, at);
      other.through = without(other.through, at);
    }
  }

  /// Closes what cannot grow any more after node i, prices it, and keeps the state unless a
  /// cheaper one has the same open groups or none that comes of it can be the best.
  void close(State state, uint32_t i, std::vector<State>& out) {
    for (uint32_t g = static_cast<uint32_t>(state.open.size()); g-- > 0;) {
      const Open group = state.open[g];
      const bool grows = group.last_user > i ||
                         (group.given != kOwn && !group.nodes.contains(part_.given[group.given]));
      if (grows) continue;
      state.paid_s += group.given != kOwn ? given_price(group.given)
                      : group.fixed       ? fixed_price(group.nodes)
                                          : candidate(group.nodes).price_s;
      group.nodes.for_each([&](uint32_t n) {
        state.compute_left_s -= least_compute_s_[n];
        state.move_left_s -= least_move_s_[n];
      });
      const Bits from = group.direct | group.through;
      for (Open& other : state.open)
        if (other.direct.has(g) || other.through.has(g)) other.through |= from;
      remove(state, g);
      trace_.push_back({state.trace, group.nodes, group.given});
      state.trace = static_cast<uint32_t>(trace_.size() - 1);
    }
    const bool steps_left = std::max(state.compute_left_s, state.move_left_s) > 1e-12;
    state.bound_s =
        state.paid_s + bound_factor_ * (std::max(state.compute_left_s, state.move_left_s) +
                                        (steps_left ? part_.step_s : 0));
    if (state.bound_s > limit_s_ * (1 + 1e-9)) return;
    // Groups in order of their first nodes make equal states look equal.
    std::vector<uint32_t> order(state.open.size());
    for (uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return state.open[a].nodes.first() < state.open[b].nodes.first();
    });
    std::string key;
    key.reserve(order.size() * 33);
    const auto add = [&](const Bits& b) {
      key.append(reinterpret_cast<const char*>(b.words.data()), sizeof b.words);
    };
    for (uint32_t g : order) {
      const Open& group = state.open[g];
      key.push_back(static_cast<char>(group.given));
      add(group.nodes);
      Bits through;
      group.through.for_each([&](uint32_t t) { through |= Bits::of(state.open[t].nodes.first()); });
      add(through);
    }
    const auto [it, fresh] = by_key_.try_emplace(std::move(key), out.size());
    if (fresh)
      out.push_back(std::move(state));
    else if (state.paid_s < out[it->second].paid_s)
      out[it->second] = std::move(state);
  }

  const Candidate& candidate(const Bits& nodes) {
    const auto [it, fresh] = memo_.try_emplace(nodes);
    if (fresh) {
      it->second.reason = why_illegal(part_, nodes);
      if (it->second.reason.empty()) it->second.price_s = price(part_, nodes, false);
    }
    return it->second;
  }
  double given_price(uint8_t k) {
    if (given_price_.empty())
      for (const Bits& g : part_.given) given_price_.push_back(price(part_, g, true));
    return given_price_[k];
  }
  /// Fixed nodes outside of given groups cost the same whatever is fused.
  double fixed_price(const Bits& nodes) {
    for (const Bits& g : part_.given)
      if (g.intersects(nodes)) return price(part_, nodes, false);
    return 0;
  }

  const Part& part_;
  const SearchOptions& options_;
  std::vector<double> least_compute_s_, least_move_s_;
  double bound_factor_ = 1, limit_s_ = 0;
  size_t work_left_ = 0;
  std::vector<Closed> trace_;
  std::vector<double> given_price_;
  std::unordered_map<std::string, size_t> by_key_;
  std::unordered_map<Bits, Candidate, BitsHash> memo_;
  Grouping result_;
};

}  // namespace

Grouping search(const Part& part, const SearchOptions& options) {
  Search search(part, options);
  Grouping best = search.run(std::min(options.first_states, options.max_states),
                             std::numeric_limits<double>::infinity());
  if (!best.exact && options.max_states > options.first_states) {
    Grouping bounded = search.run(options.max_states, best.price_s);
    bounded.states += best.states;
    if (bounded.price_s <= best.price_s) {
      best = std::move(bounded);
    } else {  // the first was the best
      best.states = bounded.states;
      best.exact = bounded.exact;
    }
  }
  // A beam may end with groups that cannot be.
  if (!std::isfinite(best.price_s)) best = search.separate();
  best.candidates = search.take_candidates();
  return best;
}

}  // namespace xc::fusion
