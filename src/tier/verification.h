#pragma once
// Is a region's kernel right? Compared with the graph it replaces: on made-up inputs against the
// reference kernels, and on a copy of one live run's inputs against the base plan.

#include <string>
#include <vector>

#include <string>
#include <unordered_map>
#include <vector>
#include "plan/fusion/region.h"

#include "runtime/engine.h"

namespace xc {

/// Runs `kernel` on `inputs` as they lie, into `outputs` as they lie.
void run_region(const Kernel& kernel, const std::vector<Tensor>& inputs,
                const std::vector<Tensor>& outputs);

/// Empty when every output agrees within the tolerance of the region's op classes, else what
/// differs and where. `expected` and `got` as in the region's order. `slack`: what rounding of the
/// inputs alone changes per element, where that is known. `worst`, when given, is raised to the
/// largest deviation seen, in units of what is allowed there.
std::string compare_outputs(const Graph& region_graph, const std::vector<Tensor>& expected,
                            const std::vector<Tensor>& got,
                            const std::vector<std::vector<double>>& slack = {},
                            double* worst = nullptr);

/// Made-up inputs over edge sizes (1, 2, vector widths and their neighbours) and edge values,
/// against run_reference node by node. Empty = agrees. `worst`: see compare_outputs().
std::string verify_synthetic(const Graph& region_graph, const StepSpec& spec, const Kernel& kernel,
                             double* worst = nullptr);

/// Values of size symbols.
using Symbols = std::unordered_map<std::string, int64_t>;

/// On copies of a live run's inputs (the region graph's, without constants) against run_reference.
/// `symbols`: those of the run that are known; the others follow from the inputs' dims.
std::string verify_live(const Graph& region_graph, const StepSpec& spec, const Kernel& kernel,
                        const std::vector<Tensor>& inputs, Symbols symbols,
                        double* worst = nullptr);

}  // namespace xc
