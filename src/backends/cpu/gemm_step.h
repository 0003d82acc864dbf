#pragma once
// Steps of MatMul and Gemm as products without a primitive (gemm.h): any sizes and strides, so that
// a new shape costs nothing. For f32 a stand-in of packed weights (onednn_matmul.cpp), for f64 all.

#include <memory>
#include <optional>
#include <string>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/matmul_problem.h"

namespace xc::cpu {

/// Primitives are made at the first bind, on the caller's path, for steps of more flops than this:
/// ten times what making one takes (a third of a millisecond at 100 GFLOP/s).
constexpr double kHurryFlops = 0.35e9;

/// What a step asks of its product.
struct MatMulSettings {
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  bool strict = false;
  DType operands = DType::kF32;  ///< bf16: f32 ones are rounded where that is faster
  Epilogue epilogue;             ///< Gemm's C and the post-ops
};
/// nullopt with `reason` when a post-op has no inner loop. `staged` as Epilogue::build() has it.
std::optional<MatMulSettings> matmul_settings(const StepSpec& spec, std::string& reason,
                                              bool staged = false);
/// The same of a step that is known to have them.
MatMulSettings matmul_settings(const StepSpec& spec, bool staged = false);

/// Whether both operands are of `type` (f32 or f64) and the post-ops have inner loops.
Verdict supports_gemm(const StepSpec& spec, DType type);

/// The product of a step as bound, its leading dims made rows where they can be.
struct BoundProduct {
  MatMulProblem p;
  bool folded = false;
  FoldedContext flat;  ///< the operands over a folded one's result
};
BoundProduct bound_product(const BindContext& context, const MatMulSettings& settings);

/// What the epilogue of a folded product goes over: its parts. `context`: FoldedContext's.
/// `staged`: they lie in scratch, without gaps.
Epilogue::Tiles folded_tiles(const Epilogue& epilogue, const BindContext& context,
                             std::span<const MatMulPart> parts, bool staged);

/// `context` and what bound_product() made of it.
std::shared_ptr<BoundKernel> bind_gemm(const StepSpec& spec, const BindContext& context,
                                       const MatMulSettings& settings, const BoundProduct& product);

}  // namespace xc::cpu
