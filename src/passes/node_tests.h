#pragma once
// What passes ask about a node.

#include <string_view>

#include "ops/op.h"

namespace xc {

/// Whether the node's operator is the standard's of that name.
inline bool is_op(const Node& node, std::string_view name) {
  return node.op->domain.empty() && node.op->name == name;
}

/// Operators that multiply two operands, whose kernels may round both (kHeldIn).
inline bool is_product(const Node& node) {
  return is_op(node, "Conv") || is_op(node, "MatMul") || is_op(node, "Gemm");
}

}  // namespace xc
