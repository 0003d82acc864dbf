// Random graphs over what fusion knows and what it does not, valid by construction: the input of
// differential fuzzing (graph_fuzz.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace xc::test {

/// A graph and the inputs to run it on, one list per size.
struct Problem {
  Graph graph;
  std::vector<std::vector<Tensor>> runs;
};

/// 3 to about 40 nodes, several outputs and consumers; dims are constants and the symbols n and s,
/// with several sizes of both (0 and 1 among them); some seeds have NaN, Inf, denormals, -0 and
/// large magnitudes in their inputs. The same seed gives the same problem.
Problem random_problem(uint64_t seed);

/// Inputs of graph.inputs with these values of its symbols.
std::vector<Tensor> problem_inputs(const Graph& graph,
                                   const std::map<std::string, int64_t>& symbols, uint64_t seed,
                                   bool specials);

}  // namespace xc::test
