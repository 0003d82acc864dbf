// The search for groupings against enumeration of all of them, on random small parts; and what it
// chooses in graphs with a choice.
#include "plan/fusion/search.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

#include "backends/backend.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "plan/fusion/region.h"

using namespace xc;
using fusion::Bits;
using fusion::Part;
using fusion::SearchNode;

namespace {

/// A random part: a DAG of elementwise functions, index maps, reductions and steps that do not
/// fuse, over two spaces, with costs of any kind.
Part random_part(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t below) { return static_cast<uint32_t>(random() % below); };
  const auto cost = [&] { return 1e-7 * std::pow(2.0, pick(6)); };
  Part part;
  part.step_s = 1e-7 * pick(4);
  part.given_factor = 0.9;
  part.max_nodes = 3 + static_cast<int>(pick(5));
  const uint32_t count = 3 + pick(5);
  const uint32_t inputs = 1 + pick(3);
  for (uint32_t k = 0; k < inputs; ++k) {
    fusion::SearchValue value;
    value.move_s = cost();
    part.values.push_back(value);
  }
  for (uint32_t i = 0; i < count; ++i) {
    SearchNode n;
    const uint32_t kind = pick(10);
    n.result = static_cast<int32_t>(pick(3) == 0);
    if (kind == 0) {
      n.kind = SearchNode::Kind::kFixed;
    } else if (kind <= 2) {
      n.kind = pick(2) ? SearchNode::Kind::kReduction : SearchNode::Kind::kComposite;
      n.row_axes = static_cast<int32_t>(pick(4) != 0);
      n.keepdims = pick(4) != 0;
      n.space = 0;
      n.rows = 1;
      n.result = n.kind == SearchNode::Kind::kReduction ? 1 : 0;
      if (n.kind == SearchNode::Kind::kComposite) n.row_axes = 1;
    } else if (kind == 3) {
      n.kind = SearchNode::Kind::kMap;
      n.whole = pick(2) != 0;
      n.picked_s = pick(2) ? cost() : 0;
    } else {
      n.kind = SearchNode::Kind::kScalar;
    }
    n.compute_s = pick(2) ? cost() : 0;
    n.free = pick(12) == 0;
    for (uint32_t k = 0, reads = 1 + pick(2); k < reads; ++k) {
      const uint32_t v = pick(part.values.size());
      if (part.values[v].readers.has(i)) continue;
      part.values[v].readers |= Bits::of(i);
      n.reads.push_back(v);
      if (v >= inputs) {
        n.producers |= Bits::of(v - inputs);
        part.nodes[v - inputs].users |= Bits::of(i);
        // A function of a whole value is whole.
        if (n.kind == SearchNode::Kind::kScalar && part.nodes[v - inputs].result == 0) n.result = 0;
      }
    }
    n.writes.push_back(static_cast<uint32_t>(part.values.size()));
    fusion::SearchValue result;
    result.move_s = cost();
    result.makers = Bits::of(i);
    result.outside = pick(4) == 0;
    part.values.push_back(result);
    part.nodes.push_back(std::move(n));
  }
  // Something with products: a node and one of its users, with a path between them or not.
  if (pick(3) == 0) {
    const uint32_t i = pick(count);
    if (!part.nodes[i].users.empty()) {
      Bits group = Bits::of(i) | Bits::of(part.nodes[i].users.first());
      part.given.push_back(group);
    }
  }
  return part;
}

/// Can the groups be executed one after another? By repeated removal of what depends on nothing.
bool ordered(const Part& part, const std::vector<Bits>& groups) {
  std::vector<bool> done(groups.size(), false);
  Bits ready;
  for (size_t left = groups.size(); left > 0;) {
    bool any = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (done[g]) continue;
      Bits needed;
      groups[g].for_each([&](uint32_t n) { needed |= part.nodes[n].producers; });
      if (!(ready | groups[g]).contains(needed)) continue;
      ready |= groups[g];
      done[g] = any = true;
      --left;
    }
    if (!any) return false;
  }
  return true;
}

bool connected(const Part& part, const Bits& group) {
  Bits reached = Bits::of(group.first());
  for (Bits before; before != reached;) {
    before = reached;
    before.for_each(
        [&](uint32_t n) { reached |= (part.nodes[n].producers | part.nodes[n].users) & group; });
  }
  return reached == group;
}

/// The price of a grouping that the rules allow; infinity when they do not.
double price_of(const Part& part, const std::vector<Bits>& groups) {
  double total = 0;
  for (const Bits& g : groups) {
    const bool given = std::find(part.given.begin(), part.given.end(), g) != part.given.end();
    double best = given ? price(part, g, true) : INFINITY;
    if (g.count() == 1) {
      const bool fixed = part.nodes[g.first()].kind == SearchNode::Kind::kFixed;
      const bool counted = !fixed || std::any_of(part.given.begin(), part.given.end(),
                                                 [&](const Bits& o) { return o.intersects(g); });
      best = std::min(best, counted ? price(part, g, false) : 0.0);
    } else if (connected(part, g) && why_illegal(part, g).empty()) {
      best = std::min(best, price(part, g, false));
    }
    total += best;
  }
  return std::isfinite(total) && ordered(part, groups) ? total : INFINITY;
}

/// The least price of all partitions of the nodes.
double enumerate(const Part& part) {
  double best = INFINITY;
  std::vector<Bits> groups;
  const std::function<void(uint32_t)> place = [&](uint32_t i) {
    if (i == part.nodes.size()) {
      best = std::min(best, price_of(part, groups));
      return;
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      groups[g] |= Bits::of(i);
      place(i + 1);
      groups[g] -= Bits::of(i);
    }
    groups.push_back(Bits::of(i));
    place(i + 1);
    groups.pop_back();
  };
  place(0);
  return best;
}

bool equal(double a, double b) {
  return std::fabs(a - b) <= 1e-9 * std::max(a, b) + 1e-18;
}

/// Seeds of 300 parts on which the search is not right.
int mistakes(const fusion::SearchOptions& options) {
  int count = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Part part = random_part(seed);
    const fusion::Grouping found = search(part, options);
    const double least = enumerate(part);
    const bool right = found.exact && equal(found.price_s, least) &&
                       equal(price_of(part, found.groups), found.price_s);
    if (!right && count++ == 0) MESSAGE("seed ", seed, ": found ", found.price_s, ", best ", least);
  }
  return count;
}

std::vector<std::string> regions_of(const char* text, FusionReport* report = nullptr) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  std::vector<std::string> out;
  for (const Region& region : find_regions(graph, {}, report)) {
    std::string line = region.pattern;
    for (NodeId n : region.nodes) line += " " + std::string(graph.node(n).op->name);
    out.push_back(line);
  }
  return out;
}

}  // namespace

constexpr size_t kEnough = 4096;  // states: none is left out

TEST_CASE("plan/search: finds what enumeration of all groupings finds") {
  CHECK(mistakes({.max_states = kEnough}) == 0);
  CHECK(mistakes({.max_states = kEnough, .first_states = 1}) == 0);  // bounded by a poor grouping
}

TEST_CASE("plan/search: the comparison notices planted faults") {
  CHECK(mistakes({.max_states = kEnough, .allow_cycles = true}) > 0);
  CHECK(mistakes({.max_states = kEnough, .first_states = 1, .bound_factor = 2}) > 0);
}

TEST_CASE("plan/search: a beam is sound, and says that it proves nothing") {
  int unproven = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Part part = random_part(seed);
    const fusion::Grouping found = search(part, {.max_states = 1, .first_states = 1});
    const double least = enumerate(part);
    CAPTURE(seed);
    CHECK(equal(price_of(part, found.groups), found.price_s));
    CHECK(found.price_s >= least * (1 - 1e-9));
    if (found.exact) CHECK(equal(found.price_s, least));
    unproven += !found.exact;
  }
  CHECK(unproven > 0);
}

TEST_CASE("plan/search: one that has to hurry is sound, and says that it proves nothing") {
  int unproven = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Part part = random_part(seed);
    const fusion::Grouping found = search(part, {.max_states = kEnough, .max_work = 60});
    const double least = enumerate(part);
    CAPTURE(seed);
    CHECK(equal(price_of(part, found.groups), found.price_s));
    if (found.exact) CHECK(equal(found.price_s, least));
    unproven += !found.exact;
  }
  CHECK(unproven > 0);
  CHECK(unproven < 300);
}

TEST_CASE("plan/search: functions of many operands, each a group of its own, end the search soon") {
  // Of every node's six operands any may be fused with it: 64 states of each of 32, a hundred
  // times.
  Part part;
  const auto add_value = [&](double move_s) {
    part.values.emplace_back();
    part.values.back().move_s = move_s;
    return static_cast<uint32_t>(part.values.size() - 1);
  };
  for (uint32_t i = 0; i < fusion::kMaxPartNodes; ++i) {
    SearchNode n;
    n.kind = SearchNode::Kind::kScalar;
    n.result = 0;
    n.code = 1;
    for (uint32_t k = 1; k <= 6 && 40 + k <= i; ++k) {
      const uint32_t producer = i - (k * 7) % 40;
      if (n.producers.has(producer)) continue;
      n.producers |= Bits::of(producer);
      part.nodes[producer].users |= Bits::of(i);
      const uint32_t v = part.nodes[producer].writes.front();
      n.reads.push_back(v);
      part.values[v].readers |= Bits::of(i);
    }
    if (n.reads.empty()) {
      n.reads.push_back(add_value(1e-7));
      part.values.back().readers = Bits::of(i);
    }
    n.writes.push_back(add_value(1e-7 * (1 + i % 5)));
    part.values.back().makers = Bits::of(i);
    part.nodes.push_back(std::move(n));
  }
  part.step_s = 1e-7;
  const fusion::Grouping found = search(part);
  CHECK(!found.exact);
  CHECK(ordered(part, found.groups));
  CHECK(equal(price_of(part, found.groups), found.price_s));
  double separate = 0;
  for (uint32_t i = 0; i < part.nodes.size(); ++i) separate += price(part, Bits::of(i), false);
  CHECK(found.price_s < separate);
  CHECK(found.candidates.size() < 5'000);  // without a bound of the work 13,393
}

TEST_CASE("plan/search: of two regions that exclude each other the one that saves more is chosen") {
  // What both reductions read fuses with one of them alone: their rows differ.
  const char* text =
      R"(graph g(%x: f32[64, 8, 96], %a: f32[64, 8, 96], %b: f32[64, 8, 96]) -> (%s, %t) {
  const %one: i64[1] = [-1]
  const %two: i64[2] = [-2, -1]
  %u = Add(%x, %a)
  %v = Mul(%u, %b)
  %s = ReduceSum(%v, %one) {keepdims = 1}
  %w = Sub(%v, %a)
  %t = ReduceMax(%w, %two) {keepdims = 1}
})";
  FusionReport report;
  const auto regions = regions_of(text, &report);
  REQUIRE(!regions.empty());
  CHECK(report.parts >= 1);
  CHECK(report.proven == report.parts);
  int chosen = 0, declined = 0;
  for (const auto& a : report.alternatives) {
    chosen += a.chosen;
    declined += !a.chosen && a.fused_us > 0;
    if (!a.chosen) CHECK(!a.reason.empty());
    if (a.chosen) CHECK(a.fused_us < a.separate_us);
  }
  CHECK(chosen == static_cast<int>(regions.size()));
  CHECK(declined > 0);
}

TEST_CASE("plan/search: index maps fuse with their readers where nothing has to be stored for it") {
  using Names = std::vector<std::string>;
  // One reader, and two that fuse with each other.
  CHECK(regions_of(R"(graph g(%t: f32[5000, 64], %i: i64[n]) -> (%y) {
  %a = Gather(%t, %i) {axis = 0}
  %b = Exp(%a)
  %y = Mul(%a, %b)
})") == Names{"cell Gather Exp Mul"});
  // Repeated for every row of what reads it, by two regions: it is made once.
  CHECK(regions_of(R"(graph g(%t: f32[5000, 64], %i: i64[1, n], %x: f32[9, n, 64]) -> (%y, %z) {
  const %one: i64[1] = [-1]
  const %two: i64[2] = [-2, -1]
  %a = Gather(%t, %i) {axis = 0}
  %b = Add(%x, %a)
  %y = ReduceSum(%b, %one) {keepdims = 1}
  %c = Mul(%x, %a)
  %z = ReduceMax(%c, %two) {keepdims = 1}
})") == Names{"row Add ReduceSum", "row Mul ReduceMax"});
  // What the region itself computes is no operand to pick from.
  CHECK(regions_of(R"(graph g(%x: f32[n, 64], %i: i64[m]) -> (%y) {
  %a = Exp(%x)
  %b = Tanh(%a)
  %c = Gather(%b, %i) {axis = 0}
  %y = Neg(%c)
})") == Names{"cell Exp Tanh", "cell Gather Neg"});
  // Sizes are numbers before the run: no region takes them away from there.
  CHECK(regions_of(R"(graph g(%x: f32[n, m]) -> (%y) {
  const %at: i64[1] = [0]
  %s = Shape(%x)
  %a = Gather(%s, %at) {axis = 0}
  %y = Mul(%a, %a)
})") == Names{});
}

TEST_CASE("plan/search: long chains are cut into parts, equal ones searched once") {
  std::string text = "graph g(%x: f32[n, 64], %y: f32[n, 64]) -> (%v1999) {\n";
  for (int k = 0; k < 2000; ++k)
    text += fmt::format("  %v{} = {}({}, %y)\n", k, k % 3 ? "Add" : "Mul",
                        k ? "%v" + std::to_string(k - 1) : "%x");
  FusionReport report;
  const auto regions = regions_of((text + "}").c_str(), &report);
  CHECK(regions.size() == (2000 + fusion::kMaxPartNodes - 1) / fusion::kMaxPartNodes);
  CHECK(report.proven == report.parts);
}
