#pragma once
// Steps of MatMul and Gemm as products without a primitive (gemm.h): any sizes and strides, so that
// a new shape costs nothing. For f32 a stand-in of packed weights (onednn_matmul.cpp), for f64 all.

#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/matmul_problem.h"

namespace xc::cpu {

/// What a step asks of its product.
struct MatMulSettings {
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  bool strict = false;
  Epilogue epilogue;  ///< Gemm's C and the post-ops
};
/// nullopt with `reason` when a post-op has no inner loop.
std::optional<MatMulSettings> matmul_settings(const StepSpec& spec, std::string& reason);

/// Whether both operands are of `type` (f32 or f64) and the post-ops have inner loops.
Verdict supports_gemm(const StepSpec& spec, DType type);

/// `p` is the product as bound, or folded (matmul_problem.h) with `context`, which gives the
/// epilogue's operands over the result. `has_rows`, `has_columns`: the result has that axis.
std::shared_ptr<BoundKernel> bind_gemm(const StepSpec& spec, const BindContext& context,
                                       const MatMulSettings& settings, const MatMulProblem& p,
                                       bool has_rows, bool has_columns);

}  // namespace xc::cpu
