#pragma once
// The loops of a region: its iteration space with axes collapsed where every operand allows it, and
// each operand's stride along each loop.

#include <optional>
#include <string>
#include <vector>

#include "plan/fusion/region.h"

namespace xc {

/// An operand's step along one axis: a known number, or a stride of the operand given at run time.
struct AxisStride {
  std::optional<int64_t> literal;
  RegionPhase::StrideRef ref{};
  Dim value;  ///< symbolic, for comparison
};

struct LoopAxis {
  OperandDims extent;
  Dim size;
  std::vector<AxisStride> strides;  ///< per operand of the region (inputs, then outputs)
};

struct Iteration {
  std::vector<LoopAxis> outer;
  std::vector<LoopAxis> row;  ///< of the row axes; for a cell empty
};

/// Operand k of a region: inputs, then outputs.
inline const Operand& operand_at(const StepSpec& spec, size_t k) {
  return k < spec.inputs.size() ? spec.inputs[k] : spec.outputs[k - spec.inputs.size()];
}

/// `reduced[k]`: operand k (an output) lacks the row axes because its reduction dropped them.
/// Gives the reason when the space cannot be walked.
Verdict build_iteration(const Region& region, const StepSpec& spec,
                        const std::vector<bool>& reduced, Iteration& out);

}  // namespace xc
