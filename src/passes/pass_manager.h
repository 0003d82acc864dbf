#pragma once
// The one runner of passes: times them, disables them by name, verifies, dumps.

#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace xc {

/// Passes that run one after the other, again and again until a round changes nothing, at most
/// `max_rounds` times.
struct Stage {
  std::vector<Pass> passes;
  int max_rounds = 1;
};
using Pipeline = std::vector<Stage>;

struct PassReport {
  struct Row {
    std::string name;
    int runs = 0;     ///< over rounds
    int changed = 0;  ///< of those
    int64_t nanoseconds = 0;
  };
  std::vector<Row> rows;  ///< in order of the pipeline
  /// Rewrites applied, by label ("canonicalise", "rule:gelu_erf"), sorted.
  std::vector<std::pair<std::string, int64_t>> rewrites;
  bool converged = true;  ///< false: a stage used all of its rounds
};

/// Runs the pipeline on the graph and its subgraphs. Errors carry "pass NAME".
PassReport run_pipeline(Graph& graph, const Pipeline& pipeline, const PassOptions& options);

/// Runs one pass over the graph and its subgraphs, types inferred before and after; for tests and
/// tools.
PassReport run_pass(Graph& graph, const Pass& pass, const PassOptions& options);

}  // namespace xc
