// Evaluates graphs node by node with reference kernels: the slow meaning of a graph, for comparing
// it before and after a rewrite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace xc::test {

// Outputs of the graph for given inputs. If is executed; other control flow fails (kUnsupported).
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs);

// Reproducible inputs for a graph: every symbol of its inputs' dims becomes `extent`; floats lie in
// (-2, 2), integers in [0, 3]; fails (kUnsupported) for other types.
std::vector<Tensor> random_inputs(const Graph& graph, int64_t extent, uint64_t seed);

// The same numbers.
Tensor in_f64(const Tensor& tensor);

// Where two results differ by more than `tolerance` (absolute and relative); empty if nowhere.
std::string difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                       double tolerance);

}  // namespace xc::test
