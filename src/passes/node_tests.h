#pragma once
// What passes ask about a node.

#include <optional>
#include <string_view>

#include "base/error.h"
#include "ir/graph.h"
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

/// The number of elements; nullopt where it is too long to write down.
inline std::optional<Dim> count_of(const SymDims& dims) {
  try {
    return element_count(dims);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    return std::nullopt;
  }
}

/// Does a node that keeps elements in order fit whatever sizes a run has? Else it is a check that
/// the model makes. (Where there are no elements, their number says nothing of the dims.)
inline bool always_fits(const Graph& graph, const Node& node) {
  const auto &in = graph.value(node.inputs[0]).type.dims,
             &out = graph.value(node.outputs[0]).type.dims;
  if (!in || !out) return false;
  const auto count = count_of(*in);
  return count && *count != Dim(0) && count == count_of(*out);
}

}  // namespace xc
