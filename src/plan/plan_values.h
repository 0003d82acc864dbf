#pragma once
// Where each value of the graph lies in a plan under construction: its buffer, dims, strides and
// offset. Values are numbered in the order in which they are added, and buffers too; plans that
// make the same things in the same order agree in the numbers (continues.h).

#include <cstdint>
#include <vector>

#include "plan/in_place_concat.h"
#include "plan/layout.h"
#include "plan/plan.h"

namespace xc {

/// Fills Plan::values and Plan::buffers. A ValueId names a value of the graph, a uint32_t one of
/// the plan. All that it is made with must outlive it.
class PlanValues {
 public:
  PlanValues(Plan& plan, const Layout& layout, const InPlaceConcats& concats);

  /// The plan value of a graph value; kNoValue: not made so far.
  uint32_t find(ValueId id) const { return value_of_[id]; }
  /// The plan value of an operand: kNoValue for an absent one; constants are added when they are
  /// first asked for. Fails (kInternal) for what is not made.
  uint32_t value_for(ValueId id);
  /// The plan value of an operand that may not be made yet (post-ops are tried before their other
  /// operands' steps exist): then a row-major stand-in.
  uint32_t operand_value(ValueId id);

  /// A graph input or a constant (`constant` defined), row-major.
  uint32_t add_source(ValueId id, Storage storage, uint32_t index, const Tensor& constant);
  /// What a step makes: in memory of its own, or inside the result of a Concat.
  uint32_t add_result(ValueId id);
  /// A new buffer holding one value, laid out as decided for `id` (row-major for a source, and for
  /// kNone: no value of the graph).
  uint32_t add_value(ValueId id, PlanBuffer buffer, SymDims dims, bool rank_known = true);
  /// Another value of a buffer that is there; `view.id` says which.
  uint32_t add_view(PlanValue view);

  /// A plan value as a step sees it that reads it; absent for kNoValue.
  Operand operand_of(uint32_t value) const;
  /// A graph value as a step sees it that makes it; absent for kNone.
  Operand result_of(ValueId id) const;

 private:
  /// A result in memory of its own.
  void add_own(ValueId id);
  /// One inside of a whole that is made.
  void add_part(ValueId id);

  Plan& plan_;
  const Graph& graph_;
  const Layout& layout_;
  const InPlaceConcats& concats_;
  std::vector<uint32_t> value_of_;  // ValueId -> PlanValue
};

}  // namespace xc
