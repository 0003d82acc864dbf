// What nodes make a region of the cell, row and aggregate templates, and what a step costs.
#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>

#include "loop/kernel.h"
#include "plan/fusion/search.h"

namespace xc::fusion {
namespace {

/// Buffers of the group's kernel; while it may grow, those it will have in any case. Values that it
/// reads or writes each have one, index maps one per operand; the sums of an aggregate are handed
/// from one phase to the next in one more.
size_t buffers_of(const Part& part, const Bits& group, bool may_grow) {
  Bits maps;
  group.for_each([&](uint32_t i) {
    if (part.nodes[i].kind == SearchNode::Kind::kMap) maps |= Bits::of(i);
  });
  size_t count = 0, sums = 0;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    count += n.parts;
    sums += n.kind == SearchNode::Kind::kReduction && n.row_axes == 0;
    for (uint32_t v : n.reads) {
      const SearchValue& value = part.values[v];
      count += !maps.has(i) && !value.literal && !value.makers.intersects(group) &&
               ((value.readers & group) - maps).first() == i;
    }
    for (uint32_t v : n.writes) {
      const SearchValue& value = part.values[v];
      count += value.outside || (!may_grow && !group.contains(value.readers));
    }
  });
  return std::max(count, 2 * sums);
}

/// Is the code of the group's kernel more than it may be? What several nodes compute counts once.
bool has_too_much_code(const Part& part, const Bits& group) {
  double code = 0;
  group.for_each([&](uint32_t i) { code += part.nodes[i].code; });
  if (code <= part.max_code) return false;
  std::unordered_set<int32_t> seen;
  group.for_each([&](uint32_t i) {
    for (const auto& [meaning, of_it] : part.nodes[i].code_parts)
      if (!seen.insert(meaning).second) code -= of_it;
  });
  return code > part.max_code;
}

/// Is nothing that a row computes worth keeping for what follows its sums? By the weight above
/// which the lowering keeps a value, here of all functions together.
bool keeps_no_row(const Part& part, const Bits& group, int32_t space) {
  constexpr double kRecomputed = 6;
  double weight = 0;
  bool follows = false;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    if (n.kind != SearchNode::Kind::kScalar || n.result != space) return;
    weight += n.code;
    (n.producers & group).for_each([&](uint32_t p) {
      const SearchNode& from = part.nodes[p];
      follows |= from.kind == SearchNode::Kind::kReduction || from.result != space;
    });
  });
  return !follows || weight <= kRecomputed;
}

bool has_too_many_buffers(const Part& part, const Bits& group, bool may_grow) {
  return group.count() > 1 && buffers_of(part, group, may_grow) > loop::kMaxBuffers;
}

}  // namespace

std::string_view why_illegal(const Part& part, const Bits& group) {
  using Kind = SearchNode::Kind;
  if (group.count() > part.max_nodes) return "larger than a region may be";
  if (group.count() > 1 && has_too_much_code(part, group))
    return "more code than a region may have";
  if (has_too_many_buffers(part, group, true)) return "more operands than a kernel may have";
  // The space is that of its reductions, else of its results.
  int32_t space = kNoSpace, rows = kNoSpace, row_axes = 0;
  int32_t count = kNoSpace;
  uint32_t along = 0;
  bool aggregate = false, row = false, composite = false;
  Bits maps;
  std::string_view reason;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    if (n.kind == Kind::kFixed) reason = "an operator that does not fuse";
    if (n.kind == Kind::kMap) maps |= Bits::of(i);
    composite |= n.kind == Kind::kComposite;
    if (n.kind != Kind::kReduction && n.kind != Kind::kComposite) return;
    if (space != kNoSpace && space != n.space) reason = "reductions over different spaces";
    space = n.space;
    if (n.row_axes == 0) {
      aggregate = true;
      count = n.count;
    } else {
      if (row && n.row_axes != row_axes) reason = "reductions over different axes";
      row = true;
      row_axes = n.row_axes;
      rows = n.rows;
      along = n.along;
    }
  });
  if (!reason.empty()) return reason;
  if (aggregate && row) return "sums over everything next to sums over rows";
  if (aggregate && !maps.empty()) return "an index map next to sums over everything";
  // One flat loop: what is broadcast along an axis does not step evenly.
  if (count != kNoSpace)
    group.for_each([&](uint32_t i) {
      for (uint32_t v : part.nodes[i].reads)
        if (part.values[v].count != kNoSpace && part.values[v].count != count)
          reason = "an operand that is broadcast next to sums over everything";
    });
  // One loop along a row; several where the row keeps nothing (lower_rows.cpp).
  const bool loops =
      (along & 1) != 0 && maps.empty() && !composite && keeps_no_row(part, group, space);
  if (std::popcount(along) > 1 && !loops)
    group.for_each([&](uint32_t i) {
      if (part.nodes[i].kind != Kind::kScalar && part.nodes[i].kind != Kind::kReduction) return;
      for (uint32_t v : part.nodes[i].reads) {
        const uint32_t repeated = part.values[v].repeated & along;
        if (!part.values[v].makers.intersects(group) && repeated != 0 && repeated != along)
          reason = "an operand that is broadcast along some axes of a row";
      }
    });
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    const Bits inside = n.producers & group;
    inside.for_each([&](uint32_t p) {
      const SearchNode& from = part.nodes[p];
      if (from.kind == Kind::kReduction && (!from.keepdims || aggregate))
        reason = "reads what the region has reduced away";
    });
    if (n.kind != Kind::kScalar) return;
    if (space == kNoSpace) space = n.result;
    if (n.result == space) return;
    // One value per row: made of what the region reduced.
    if (!row || n.result != rows)
      reason = "different iteration spaces";
    else if ((inside - maps).empty())
      reason = "values per row that come from elsewhere";
  });
  maps.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    // Smaller than the space it is read for, and shifted where it may be repeated.
    if (n.whole && n.result != space && group.count() > 1)
      reason = "an index map along an axis that is broadcast";
    if (n.producers.intersects(group)) reason = "an index map of what the region computes";
  });
  return reason;
}

bool stores_broadcast(const Part& part, const Bits& group) {
  using Kind = SearchNode::Kind;
  if (group.count() == 1) return false;
  int32_t space = kNoSpace;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    if (n.kind == Kind::kReduction || n.kind == Kind::kComposite) space = n.space;
  });
  group.for_each([&](uint32_t i) {
    if (space == kNoSpace && part.nodes[i].kind == Kind::kScalar) space = part.nodes[i].result;
  });
  bool stored = false;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    if (n.kind != Kind::kMap || n.result == space) return;
    for (uint32_t v : n.writes)
      stored = stored || part.values[v].outside || !group.contains(part.values[v].readers);
  });
  return stored;
}

namespace {

/// Seconds that are lost where what rows read lies along some operands and across others, for those
/// it lies across: each of their lines is fetched again for every row that it has an element of. A
/// cell goes by tiles, and rows of which all lie across are walked abreast.
double lost_across(const Part& part, const Bits& group) {
  constexpr double kReads = 4;
  bool rows = false, along = false;
  double across_s = 0;
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    rows |= n.row_axes != 0;
    for (uint32_t v : n.reads) {
      const SearchValue& value = part.values[v];
      if (value.makers.intersects(group) || (value.readers & group).first() != i) continue;
      along |= value.lies == Lies::kAlong;
      if (value.lies == Lies::kAcross) across_s += value.move_s;
    }
  });
  return rows && along ? kReads * across_s : 0;
}

}  // namespace

double price(const Part& part, const Bits& group, bool given) {
  if (!given && group.count() == 1 && part.nodes[group.first()].free) return 0;
  if (!given && (stores_broadcast(part, group) || has_too_many_buffers(part, group, false)))
    return std::numeric_limits<double>::infinity();
  double compute_s = 0, move_s = 0;
  // Values are few: a reader is charged when it is the first of the group.
  group.for_each([&](uint32_t i) {
    const SearchNode& n = part.nodes[i];
    compute_s += n.compute_s;
    move_s += n.picked_s;
    for (uint32_t v : n.reads) {
      const SearchValue& value = part.values[v];
      if (!value.makers.intersects(group) && (value.readers & group).first() == i)
        move_s += value.move_s;
    }
    for (uint32_t v : n.writes) {
      const SearchValue& value = part.values[v];
      if (value.outside || !group.contains(value.readers)) move_s += value.move_s;
    }
  });
  if (given) return part.given_factor * (std::max(compute_s, move_s) + part.step_s);
  return std::max(compute_s, move_s) + lost_across(part, group) + part.step_s;
}

}  // namespace xc::fusion
