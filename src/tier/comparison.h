#pragma once
// How close a region's results are to those of the operators it replaces.

#include <string>
#include <vector>

#include "backends/step.h"
#include "ir/graph.h"

namespace xc {

/// What the region's operators give for inputs.
struct Expected {
  std::vector<Tensor> outputs;  ///< by run_reference, node after node
  /// The same with every f32 value held in f64; empty where that is not to be had: too large, or
  /// coarser types on the way.
  std::vector<std::vector<double>> exact;
};
Expected evaluate_region(const Graph& graph, const std::vector<Tensor>& inputs);

/// Empty when every output agrees within the tolerance of the region's op classes, else what
/// differs and where. An element may be as the reference kernels have it or, where they rounded
/// differently, as f64 has it; NaN and infinity lie where the reference kernels have them. Where
/// f64 is known the error of a whole output may not be more than 4 times that of the reference
/// kernels. Where there are products, and always with `forgiving`, for inputs that
/// are whatever a caller has, what rounding of the inputs, of what sums read and of what
/// functions give changes is allowed too. Where there are reductions it is allowed to an element (x
/// / sum(x) where the sum cancels), and what it changes by more than the bound has no part in the
/// error of the whole. In fast mode a region with functions may be as far off as if its values were
/// bf16. Where the processor has matrix units, so may one with products whose factors may be
/// rounded to bf16; what such rounding of the inputs changes is then allowed. `worst`, when given,
/// is raised to the largest deviation seen, in units of what is allowed there.
std::string compare_region(const Graph& graph, const std::vector<Tensor>& inputs,
                           const Expected& expected, const std::vector<Tensor>& got,
                           double* worst = nullptr, bool forgiving = false,
                           Numerics numerics = Numerics::kTolerant);

/// The same against given results.
std::string compare_outputs(const Graph& graph, const std::vector<Tensor>& expected,
                            const std::vector<Tensor>& got);

}  // namespace xc
