#pragma once
// The axes of Transpose.

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// Per axis of the result the operand's, which has `rank` of them. Fails with kInvalidModel where
/// attribute `perm` does not name each of them once.
std::vector<size_t> permutation(const Node& node, size_t rank);

}  // namespace xc
