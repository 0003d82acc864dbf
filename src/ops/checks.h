#pragma once
// Checks on the inputs of a node, for inference. Each fails with kInvalidModel.

#include "ops/support.h"

namespace xc {

/// True when no values of the symbols make them equal.
bool known_different(const Dim& a, const Dim& b);

/// Input i, where present, has the dtype of another input.
void require_same_dtype(const InferContext& ctx, size_t i, size_t other = 0);
/// Operands 0 and 1 of a product have one dtype, which it returns. Operand 0 may be held in halves
/// where operand 1 is f32 (kHeldIn).
DType require_factors(const InferContext& ctx);
void require_rank(const InferContext& ctx, size_t i, size_t rank);
/// Input i has one axis of the given size.
void require_vector(const InferContext& ctx, size_t i, const Dim& size);
/// Input i has exactly these dims.
void require_dims(const InferContext& ctx, size_t i, const SymDims& dims);
/// Input i has one element: rank 0, or dims all 1.
void require_scalar(const InferContext& ctx, size_t i);

/// An output has these dims, as far as they are known; `what` names it: "0", "'y' of acme::Op".
/// Fails with `status`.
void require_output_dims(std::string_view what, const SymDims& declared,
                         std::span<const int64_t> dims, Status status = Status::kInvalidModel);

/// References call this first: repeats inference on the actual dims, so that a relation between
/// inputs that was symbolic at load is checked before any memory is touched, and compares the dims
/// of the outputs.
void check_shapes(const ReferenceContext& ctx);

}  // namespace xc
