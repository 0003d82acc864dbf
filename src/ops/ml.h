#pragma once
// What the operators of ai.onnx.ml share.

#include "ops/support.h"

namespace xc {

inline constexpr TypeSet kMlNumbers =
    type_set({DType::kF32, DType::kF64, DType::kI64, DType::kI32});
inline constexpr TypeSet kMlStrings = type_set({DType::kString});

/// An op of the domain with one input and one output.
OpDef ml_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
            ReferenceFn reference);

/// What becomes of the scores of a row. TreeEnsemble numbers them in this order.
inline constexpr std::string_view kScoreTransforms = "NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT";
void transform_scores(std::string_view kind, std::span<double> scores);
/// Fails with kUnsupported for PROBIT, which transform_scores() does not know.
void refuse_probit(std::string_view kind);

}  // namespace xc
