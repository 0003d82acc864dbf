// Operator problems of cases/*.cases: one node, its inputs and expected outputs.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace xc::test {

struct Problem {
  std::string name;  ///< "Add.3"
  std::string file;
  int line = 0;
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Tensor> inputs;    ///< undefined = absent
  std::vector<Tensor> expected;  ///< undefined = not wanted

  /// A node over value ids 0 ... inputs - 1, for references.
  Node node() const;
  /// A graph of this node. Inputs whose index is in `constants` are constants, the others graph
  /// inputs "x<i>"; `dims` are the dims of graph inputs (default: the actual ones).
  Graph graph(const std::vector<bool>& constants, const std::vector<SymDims>& dims = {}) const;
};

/// All problems of one file; fails with the line of a mistake.
std::vector<Problem> load_problems(const std::string& path);
/// All problems of cases/ and of the directory named by XC_EXTRA_CASES, sorted by file.
const std::vector<Problem>& all_problems();

/// Empty when equal within the op's tolerance (units in the last place for elementwise ops,
/// relative to the largest result for reductions); else what differs.
std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance);

}  // namespace xc::test
