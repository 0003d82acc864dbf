#pragma once
// The search for the best grouping of a part's nodes into regions.
//
// A part is a run of nodes in execution order (kMaxPartNodes at most), so that every path between
// two of its nodes lies inside it. Nodes are taken in that order. A state is the set of groups that
// may still grow (open: some node has users to come), with what lies between them; a node opens a
// group of its own, or fuses with any set of its producers' groups, which merges those. A group is
// priced when it closes. States with the same open groups differ in nothing that is to come: the
// cheapest stays (frontier search). A state is dropped when what it has paid and what its nodes
// must cost at least exceeds the best grouping known (branch and bound); beyond max_states the
// cheapest by that bound stay (beam), and the result is no longer proven.
//
// Groups are priced and judged by their set of nodes, once (memoised).

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace xc::fusion {

constexpr uint32_t kMaxPartNodes = 128;
/// The code that a kernel of several nodes may have, as FusionClass::code counts: 16 KB.
constexpr double kMostCode = 160;

/// A set of positions below kMaxPartNodes.
struct Bits {
  std::array<uint64_t, 2> words{};
  static Bits of(uint32_t i) {
    Bits b;
    b.words[i / 64] = uint64_t{1} << (i % 64);
    return b;
  }
  bool has(uint32_t i) const { return (words[i / 64] >> (i % 64)) & 1; }
  bool empty() const { return (words[0] | words[1]) == 0; }
  int count() const { return std::popcount(words[0]) + std::popcount(words[1]); }
  bool intersects(const Bits& o) const { return !(*this & o).empty(); }
  bool contains(const Bits& o) const { return (o - *this).empty(); }
  uint32_t first() const {
    return static_cast<uint32_t>(words[0] ? std::countr_zero(words[0])
                                          : 64 + std::countr_zero(words[1]));
  }
  uint32_t last() const {
    return static_cast<uint32_t>(words[1] ? 127 - std::countl_zero(words[1])
                                          : 63 - std::countl_zero(words[0]));
  }
  Bits operator|(const Bits& o) const { return {{words[0] | o.words[0], words[1] | o.words[1]}}; }
  Bits operator&(const Bits& o) const { return {{words[0] & o.words[0], words[1] & o.words[1]}}; }
  Bits operator-(const Bits& o) const { return {{words[0] & ~o.words[0], words[1] & ~o.words[1]}}; }
  Bits& operator|=(const Bits& o) { return *this = *this | o; }
  Bits& operator-=(const Bits& o) { return *this = *this - o; }
  bool operator==(const Bits&) const = default;
  auto operator<=>(const Bits&) const = default;
  template <class F>
  void for_each(F&& f) const {
    for (uint32_t w = 0; w < 2; ++w)
      for (uint64_t rest = words[w]; rest; rest &= rest - 1)
        f(64 * w + static_cast<uint32_t>(std::countr_zero(rest)));
  }
};
struct BitsHash {
  size_t operator()(const Bits& b) const {
    return static_cast<size_t>((b.words[0] * 0x9e3779b97f4a7c15u) ^
                               ((b.words[1] + 0x7f4a7c15u) * 0xc2b2ae3d27d4eb4fu));
  }
};

constexpr int32_t kNoSpace = -1;

struct SearchNode {
  enum class Kind : uint8_t { kFixed, kScalar, kReduction, kComposite, kMap };
  Kind kind = Kind::kFixed;  ///< kFixed: never joins a group but a given one
  bool keepdims = true;      ///< reductions
  /// Reductions and composites: over which axes, as a number; 0 of a reduction: over all of them.
  int32_t row_axes = 0;
  /// Interned dims: of the result; and, of reductions and composites, of what they walk and the
  /// same with the row axes 1.
  int32_t result = kNoSpace, space = kNoSpace, rows = kNoSpace;
  /// Of a reduction over everything that walks more than one axis: how many elements that are,
  /// interned as SearchValue::count is.
  int32_t count = kNoSpace;
  uint32_t along = 0;     ///< reductions and composites over some axes: which, bit k the k-th last
  Bits producers, users;  ///< inside the part
  std::vector<uint32_t> reads, writes;  ///< values of the part, each once
  double code = 0;                      ///< what it adds to a kernel's (FusionClass::code)
  /// That code by what it computes, interned, where others may compute it too: written once.
  std::vector<std::pair<int32_t, double>> code_parts;
  double compute_s = 0;  ///< of its operations alone
  double picked_s = 0;   ///< kMap: to read what it picks from a value that is not among `reads`
  uint32_t parts = 0;    ///< kMap: operands it reads, each through a buffer of its own
  bool whole = false;    ///< kMap: its result has to be the whole space
  bool free = false;     ///< a step of its own costs nothing: a view, or absorbed by another kernel
};

/// How a value with more than one axis, and nothing to repeat along the last of them, lies there:
/// kAcross where the first-level cache does not hold a line for each element of a row.
enum class Lies : uint8_t { kUnknown, kAlong, kAcross };

struct SearchValue {
  double move_s = 0;         ///< to read or write it once
  Bits makers, readers;      ///< nodes of the part; at most one maker
  bool outside = false;      ///< has to be written whatever is fused
  bool literal = false;      ///< a number of the model's: no kernel has a buffer for it
  uint32_t repeated = 0;     ///< axes that it has no more than one element of, as SearchNode::along
  int32_t count = kNoSpace;  ///< interned number of elements; kNoSpace: one, not known, or axes
  Lies lies = Lies::kUnknown;
};

struct Part {
  std::vector<SearchNode> nodes;
  std::vector<SearchValue> values;
  /// Groups given as they are (with matrix products): all or nothing.
  std::vector<Bits> given;
  double step_s = 0;          ///< of starting a step
  double given_factor = 1.0;  ///< what the price of given groups is multiplied with
  int max_nodes = kMaxPartNodes;
  double max_code = kMostCode;  ///< of a group of several nodes
};

/// Why the nodes are no region of a template; empty when they are. Convexity is not looked at.
std::string_view why_illegal(const Part& part, const Bits& group);

/// Would the group have to store an index map's result that is smaller than its space? Not a matter
/// of why_illegal(): readers may join a group until it closes.
bool stores_broadcast(const Part& part, const Bits& group);

/// Seconds of one step that executes the nodes; infinite where stores_broadcast(), or where the
/// kernel would have more buffers than it may.
double price(const Part& part, const Bits& group, bool given);

struct SearchOptions {
  size_t max_states = 32;   ///< kept after each node; beyond it the result is not proven
  size_t first_states = 8;  ///< of the beam that finds a grouping to bound the search with
  /// Open groups that are copied to make states, in each of the two runs: some 5 ms. The beam gets
  /// narrower where that does not last, and the result is not proven.
  size_t max_work = 1 << 17;
  // Faults planted by tests, to see that they are noticed.
  bool allow_cycles = false;  ///< groups may depend on each other
  double bound_factor = 1;    ///< multiplies the lower bound: above 1 it is none
};

struct Candidate {
  double price_s = 0;
  std::string_view reason;  ///< why not; empty: legal
};

struct Grouping {
  std::vector<Bits> groups;  ///< every node in one; given ones as they are
  double price_s = 0;
  bool exact = true;                                         ///< proven the cheapest
  size_t states = 0;                                         ///< looked at
  std::unordered_map<Bits, Candidate, BitsHash> candidates;  ///< all groups considered
};

/// The cheapest acyclic grouping. Deterministic.
Grouping search(const Part& part, const SearchOptions& options = {});

}  // namespace xc::fusion
