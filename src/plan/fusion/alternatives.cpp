#include "plan/fusion/alternatives.h"

#include <algorithm>
#include <cmath>

#include "ops/op.h"

namespace xc::fusion {
namespace {

constexpr size_t kShown = 6;  // declined and illegal groups of a part

std::string nodes_text(const Graph& graph, uint32_t begin, const Bits& group) {
  std::string ops;
  int shown = 0;
  const Node* first = nullptr;
  group.for_each([&](uint32_t i) {
    const Node& node = graph.node(graph.order()[begin + i]);
    if (!first) first = &node;
    if (++shown <= 8) ops += (ops.empty() ? "" : "+") + std::string(node.op->name);
  });
  if (shown > 8) ops += fmt::format("+{} more", shown - 8);
  return ops;
}

double separate_s(const Part& part, const Bits& group) {
  double seconds = 0;
  group.for_each([&](uint32_t i) { seconds += price(part, Bits::of(i), false); });
  return seconds;
}

/// Counts an alternative that is there already as another place.
void add(FusionReport& out, FusionReport::Alternative alternative) {
  for (auto& known : out.alternatives)
    if (known.nodes == alternative.nodes && known.chosen == alternative.chosen &&
        known.reason == alternative.reason && known.fused_us == alternative.fused_us) {
      ++known.places;
      return;
    }
  out.alternatives.push_back(std::move(alternative));
}

}  // namespace

std::string text_of(const Part& part) {
  std::string out;
  const auto add = [&](const auto& x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  for (const SearchNode& n : part.nodes) {
    for (const int32_t x : {static_cast<int32_t>(n.kind), int32_t{n.keepdims}, n.row_axes, n.result,
                            n.space, n.rows, n.count, int32_t{n.free}, int32_t{n.whole}})
      add(x);
    add(n.along);
    add(n.parts);
    add(n.producers.words);
    add(n.users.words);
    add(n.code);
    add(n.code_parts.size());
    for (const auto& [meaning, code] : n.code_parts) {
      add(meaning);
      add(code);
    }
    add(n.compute_s);
    add(n.picked_s);
    for (const auto* values : {&n.reads, &n.writes}) {
      add(values->size());
      for (uint32_t v : *values) add(v);
    }
  }
  for (const SearchValue& v : part.values) {
    add(v.move_s);
    add(int32_t{v.outside});
    add(int32_t{v.literal});
    add(v.repeated);
    add(v.count);
    add(v.lies);
  }
  for (const Bits& given : part.given) add(given.words);
  return out;
}

namespace {

/// A group of one part that was not chosen, and what it would save against the steps it replaces.
struct Declined {
  Bits nodes;
  double saved_s;
};

bool is_chosen(const Grouping& best, const Bits& group) {
  return std::any_of(best.groups.begin(), best.groups.end(),
                     [&](const Bits& g) { return g.contains(group); });
}

/// Those that save most.
std::vector<Declined> declined_groups(const Part& part, const Grouping& best) {
  std::vector<Declined> out;
  for (const auto& [nodes, candidate] : best.candidates)
    if (candidate.reason.empty() && nodes.count() > 1 && !is_chosen(best, nodes) &&
        std::isfinite(candidate.price_s))
      out.push_back({nodes, separate_s(part, nodes) - candidate.price_s});
  for (const Bits& g : part.given)
    if (!is_chosen(best, g)) out.push_back({g, separate_s(part, g) - price(part, g, true)});
  std::sort(out.begin(), out.end(), [](const Declined& a, const Declined& b) {
    return std::pair(-a.saved_s, a.nodes) < std::pair(-b.saved_s, b.nodes);
  });
  if (out.size() > kShown) out.resize(kShown);
  return out;
}

/// Neighbours that no template joins.
void report_apart(const Graph& graph, uint32_t begin, const Part& part, const Grouping& best,
                  FusionReport& out) {
  size_t shown = 0;
  for (uint32_t i = 0; i < part.nodes.size() && shown < kShown; ++i)
    part.nodes[i].users.for_each([&](uint32_t u) {
      const Bits pair = Bits::of(i) | Bits::of(u);
      const auto known = best.candidates.find(pair);
      if (known == best.candidates.end() || shown >= kShown || is_chosen(best, pair)) return;
      std::string_view reason = known->second.reason;
      if (reason.empty() && stores_broadcast(part, pair))
        reason = "an index map that is broadcast and read elsewhere";
      if (reason.empty()) return;
      ++shown;
      add(out, {.nodes = nodes_text(graph, begin, pair), .reason = std::string(reason)});
    });
}

}  // namespace

void report(const Graph& graph, uint32_t begin, const Part& part, const Grouping& best,
            FusionReport& out) {
  const bool idle = best.candidates.size() + part.given.size() <= 1 &&
                    std::all_of(best.groups.begin(), best.groups.end(),
                                [](const Bits& g) { return g.count() == 1; });
  if (idle) return;  // nothing to choose
  ++out.parts;
  out.proven += best.exact;
  out.states += static_cast<int64_t>(best.states);
  out.candidates += static_cast<int64_t>(best.candidates.size() + part.given.size());
  const auto is_given = [&](const Bits& g) {
    return std::find(part.given.begin(), part.given.end(), g) != part.given.end();
  };
  const auto alternative = [&](const Bits& g, std::string reason) {
    return FusionReport::Alternative{.nodes = nodes_text(graph, begin, g),
                                     .fused_us = price(part, g, is_given(g)) * 1e6,
                                     .separate_us = separate_s(part, g) * 1e6,
                                     .chosen = reason.empty(),
                                     .reason = std::move(reason)};
  };
  for (const Bits& g : best.groups)
    if (g.count() > 1) add(out, alternative(g, ""));
  for (const Declined& d : declined_groups(part, best)) {
    std::string instead;
    for (const Bits& g : best.groups)
      if (g.count() > 1 && g.intersects(d.nodes))
        instead += (instead.empty() ? "" : ", ") + nodes_text(graph, begin, g);
    add(out,
        alternative(d.nodes, d.saved_s <= 0    ? "saves nothing"
                             : instead.empty() ? "a cycle, or dearer than its steps"
                                               : "takes nodes from what saves more: " + instead));
  }
  report_apart(graph, begin, part, best, out);
}

void report_kept_out(const Graph& graph, std::span<const NodeId> nodes, std::string_view reason,
                     FusionReport& out) {
  for (NodeId id : nodes)
    add(out, {.nodes = std::string(graph.node(id).op->name), .reason = std::string(reason)});
}

void sort_alternatives(FusionReport& report) {
  const auto rank = [](const FusionReport::Alternative& a) {
    return std::pair(a.chosen         ? 0
                     : a.fused_us > 0 ? 1
                                      : 2,
                     -a.places * (a.separate_us - a.fused_us));
  };
  std::stable_sort(report.alternatives.begin(), report.alternatives.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

}  // namespace xc::fusion
