#pragma once
// The loops of a region: its iteration space with axes collapsed where every operand allows it, and
// each operand's stride along each loop.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "plan/fusion/region.h"

namespace xc {

/// An operand's step along one axis: a known number, or a stride of the operand given at run time.
struct AxisStride {
  std::optional<int64_t> literal;
  RegionPhase::StrideRef ref{};
  Dim value;  ///< symbolic, for comparison
};

/// A read of an operand through an index map: which of its axes each axis of the space moves.
struct MappedRead {
  uint32_t operand = 0;
  std::vector<int32_t> axes;  ///< per axis of the space; -1: none
  /// Per axis of the space: subscripts are moved along it, and the operand is not broadcast.
  std::vector<bool> shifted;
  /// Axes of the operand with a subscript of their own, behind those of the loops.
  std::vector<uint32_t> picked;
};

/// How a region reads its operands besides one element per point of the space.
struct IndexedReads {
  std::vector<MappedRead> reads;
  std::vector<bool> direct;   ///< per operand: read or written at the point itself
  std::vector<bool> shifted;  ///< per axis of the space: moved by a read, never folded into others
  std::vector<bool> counted;  ///< per axis of the space: a read picks by the number of its step
};

struct LoopAxis {
  OperandDims extent;
  Dim size;
  std::vector<AxisStride> strides;  ///< per operand of the region (inputs, then outputs), then per
                                    ///< IndexedReads::reads
  uint32_t first = 0;               ///< the outermost axis of the space in this loop
  OperandDims inside;               ///< iterations of the loop per step along it
  bool shifted = false;             ///< IndexedReads::shifted of that axis
  bool counted = false;             ///< IndexedReads::counted of that axis: folded with no other
};

struct Iteration {
  std::vector<LoopAxis> outer;
  std::vector<LoopAxis> row;  ///< of the row axes; for a cell empty
  /// The elements of a row lie apart in memory, those of neighbouring rows side by side: vectors
  /// are for the last outer loop.
  bool rows_abreast = false;
};

/// Rows side by side that share a table in scratch, [element of the row][row].
constexpr int64_t kRowsAbreast = 64;
/// Rows that such a table has room for: whole vectors of no more than there are.
inline int64_t table_rows(const Dim& rows) {
  if (!rows.is_constant()) return kRowsAbreast;
  return std::clamp<int64_t>(align_up(rows.value(), loop::kReductionLanes), loop::kReductionLanes,
                             kRowsAbreast);
}

/// Bytes of all such tables of a task, at most: what a second-level cache holds. Beyond, the steps
/// that a region replaces are quicker (1.7 times for a softmax over the first axis of 94,000 x 64,
/// 2.1 times for that of 1,500,000 x 4) and need less memory.
constexpr int64_t kMostTableBytes = 1 << 20;

/// Operand k of a region: inputs, then outputs.
inline const Operand& operand_at(const StepSpec& spec, size_t k) {
  return k < spec.inputs.size() ? spec.inputs[k] : spec.outputs[k - spec.inputs.size()];
}
inline const BoundOperand& operand_at(const BindContext& context, size_t k) {
  return k < context.inputs.size() ? context.inputs[k] : context.outputs[k - context.inputs.size()];
}

/// `reduced[k]`: output k lacks the row axes because its reduction dropped them.
/// Gives the reason when the space cannot be walked.
Verdict build_iteration(const Region& region, const StepSpec& spec,
                        const std::vector<bool>& reduced, const IndexedReads& indexed,
                        Iteration& out);

/// Elements of one iteration of the outermost loop, about; `most` where there are more. `row`,
/// `abreast`: the loop along a row and that over rows side by side, inside of the others; null
/// where there is none.
int64_t elements_inside(std::span<const LoopAxis> outer, const LoopAxis* row,
                        const LoopAxis* abreast, int64_t most);

}  // namespace xc
