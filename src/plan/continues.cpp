#include "plan/continues.h"

#include <algorithm>

#include "plan/liveness.h"

namespace xc {
namespace {

bool same_symbol(const PlanSymbol& a, const PlanSymbol& b) {
  return a.name == b.name && a.source == b.source && a.operand == b.operand && a.index == b.index;
}

/// The same numbers of values mean the same memory in both plans: builders number what they make
/// in the order in which they make it.
bool same_step(const Plan& a, const Plan& b, uint32_t k) {
  const Step &mine = *a.steps[k], &theirs = *b.steps[k];
  const auto same_value = [&](uint32_t v) {
    return v == kNoValue ||
           (a.values[v].id == b.values[v].id && a.values[v].buffer == b.values[v].buffer &&
            a.values[v].strides == b.values[v].strides && a.values[v].offset == b.values[v].offset);
  };
  return mine.kind == theirs.kind && mine.nodes == theirs.nodes && mine.region == theirs.region &&
         mine.inputs == theirs.inputs && mine.outputs == theirs.outputs &&
         std::all_of(mine.inputs.begin(), mine.inputs.end(), same_value) &&
         std::all_of(mine.outputs.begin(), mine.outputs.end(), same_value);
}

bool serves(const PlanBuffer& made, const PlanBuffer& wanted) {
  return made.storage == wanted.storage && made.index == wanted.index &&
         made.segment == wanted.segment && made.elements == wanted.elements &&
         (made.first_step != kNeverUsed || wanted.first_step == kNeverUsed) &&
         (made.last_step == kUsedLater || wanted.last_step != kUsedLater);
}

}  // namespace

bool continues(const Plan& begun, const Plan& other, uint32_t segment) {
  if (&begun == &other) return true;
  if (begun.segments.size() != other.segments.size() ||
      begun.outputs.size() != other.outputs.size())
    return false;
  for (uint32_t s = 0; s < segment; ++s)
    if (begun.segments[s].end_step != other.segments[s].end_step) return false;
  const Segment& at = begun.segments[segment];
  if (at.symbol_end != other.segments[segment].symbol_end ||
      !std::equal(begun.symbols.begin(), begun.symbols.begin() + at.symbol_end,
                  other.symbols.begin(), same_symbol))
    return false;
  for (uint32_t k = 0; k < at.first_step; ++k)
    if (!same_step(begun, other, k)) return false;
  const auto before = [&](const Plan& plan) {
    return std::count_if(plan.buffers.begin(), plan.buffers.end(),
                         [&](const PlanBuffer& b) { return b.segment < segment; });
  };
  // Buffers are numbered segment by segment.
  const auto count = before(begun);
  return count == before(other) && std::equal(begun.buffers.begin(), begun.buffers.begin() + count,
                                              other.buffers.begin(), serves);
}

std::vector<NodeId> segment_ends(const Plan& plan) {
  std::vector<NodeId> out;
  for (size_t s = 0; s + 1 < plan.segments.size(); ++s)
    out.push_back(plan.steps[plan.segments[s].end_step - 1]->nodes.front());
  return out;
}

}  // namespace xc
