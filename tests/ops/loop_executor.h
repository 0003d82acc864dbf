// Runs single-node problems through the loop IR facets of their op (scalar function, reduction) and
// the loop interpreter: the path that fused kernels take.
#pragma once

#include <optional>
#include <vector>

#include "ops/op_case.h"

namespace xc::test {

/// nullopt where the op has neither facet, or no loop IR form for these dtypes.
std::optional<std::vector<Tensor>> run_as_loops(const OpCase& problem);

}  // namespace xc::test
