#pragma once
// What passes ask about a node.

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "ops/is_op.h"

namespace xc {

/// Operators that multiply two operands, whose kernels may round both (kHeldIn).
inline bool is_product(const Node& node) {
  return is_op(node, "Conv") || is_op(node, "MatMul") || is_op(node, "Gemm");
}

/// Reshape and what it could stand for.
inline bool is_reshape(const Node& node) {
  return is_op(node, "Reshape") || is_op(node, "Flatten") || is_op(node, "Squeeze") ||
         is_op(node, "Unsqueeze");
}

/// ReduceSum, ReduceMean and so on, of ai.onnx.
inline bool is_reduction(const Node& node) {
  return node.op->domain.empty() && node.op->name.starts_with("Reduce");
}

/// Input k of a node; kNone where it is absent.
inline ValueId input_of(const Node& node, size_t k) {
  return k < node.inputs.size() ? node.inputs[k] : kNone;
}
/// Nullopt where it is not known.
inline std::optional<size_t> rank_of(const Graph& graph, ValueId v) {
  const auto& dims = graph.value(v).type.dims;
  return dims ? std::optional(dims->size()) : std::nullopt;
}

/// Whether the elements' type is known: of what was added since the last inference it may not be.
inline bool has_type(const Type& type) {
  return type.kind != Type::Kind::kTensor || type.dtype != DType::kUndefined;
}
inline bool have_types(const Graph& graph, const std::vector<ValueId>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](ValueId v) { return v == kNone || has_type(graph.value(v).type); });
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

/// A constant of one element.
inline bool is_number(const Graph& graph, ValueId v) {
  return graph.value(v).is_constant() && graph.value(v).constant.count() == 1;
}

/// Whether a constant beside a value of `rank` axes is one number, or has one for each of the
/// `size` elements along `axis`.
inline bool lies_along(const Tensor& constant, size_t rank, size_t axis, const Dim& size) {
  const size_t own = constant.dims().size();
  if (own > rank) return false;
  if (constant.count() == 1) return true;
  return own + axis >= rank && size == Dim(constant.count()) &&
         constant.dims()[own + axis - rank] == constant.count();
}

/// The operand of a function of one value, elementwise, whose others are single numbers; else
/// kNone.
inline ValueId argument_of(const Graph& graph, const Node& node) {
  if (!node.op->scalar || node.outputs.size() != 1) return kNone;
  ValueId out = kNone;
  for (ValueId v : node.inputs) {
    if (v == kNone || is_number(graph, v)) continue;
    if (out != kNone && out != v) return kNone;
    out = v;
  }
  return out;
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
