#pragma once
// Operator problems as data: a small graph, its inputs, its expected outputs. The files under
// cases/ are written by generate_cases.py; no expected value comes from xc.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace xc::test {

struct OpCase {
  std::string name;
  std::string file;
  Graph graph;                   ///< not inferred yet; inputs in the order of `inputs`
  std::vector<Tensor> inputs;    ///< of graph.inputs
  std::vector<Tensor> expected;  ///< of graph.outputs
  double absolute_error = 0;     ///< of the expected values, where they are given rounded
  Tolerance tolerance = Tolerance::kExact;  ///< of the operator
};

/// All cases of one JSON file. Fails with kUnsupported where an operator is not registered.
std::vector<OpCase> load_cases(const std::string& path);
/// The case files of a directory, sorted.
std::vector<std::string> case_files(const std::string& directory);

/// Calls body with every case of cases/ (or of the directory XC_OP_CASES). An Error fails the
/// current test, told at the case, and the next one goes on.
void for_each_case(const std::function<void(OpCase&)>& body);

/// A copy of the graph for other sizes: equal sizes above 1 become one symbol ("d3"), with its
/// value in `sizes`; inputs that are not floats become constants with their values.
using Sizes = std::map<std::string, int64_t>;
Graph generalised(const OpCase& problem, Sizes& sizes);

/// Runs the reference of every node on actual tensors; answers the graph's outputs.
std::vector<Tensor> run_references(const Graph& graph, const std::vector<Tensor>& inputs);

/// The same elements in reversed, padded memory: no stride is what a careless kernel expects.
Tensor with_odd_strides(const Tensor& tensor);

/// Empty when output i is as expected within the bound of its dtype and operator, else what differs
/// first.
std::string difference(const OpCase& problem, size_t i, const Tensor& actual);

}  // namespace xc::test
