#pragma once
// What the operators of ai.onnx.ml share.

#include <array>

#include "ops/support.h"

namespace xc {

inline constexpr TypeSet kMlNumbers =
    type_set({DType::kF32, DType::kF64, DType::kI64, DType::kI32});
inline constexpr TypeSet kMlStrings = type_set({DType::kString});
using ValueIds = std::vector<ValueId>;

/// An op of the domain with one input and one output.
OpDef ml_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
            ReferenceFn reference);

/// Checks that input 0 holds rows of numbers, [n, features], or [features] for one row.
void check_rows(InferContext& c);
/// The n of those rows.
Dim row_count(const InferContext& c);
/// Calls body(std::span<const double> row) for each of them.
template <class Body>
void for_each_row(const ReferenceContext& c, Body&& body) {
  const auto x = double_values(c.inputs[0]);
  const auto features = static_cast<size_t>(c.inputs[0].dims.back());
  const size_t rows = c.inputs[0].dims.size() == 2 ? static_cast<size_t>(c.inputs[0].dims[0]) : 1;
  for (size_t n = 0; n < rows; ++n) body(std::span(x).subspan(n * features, features));
}

/// What LabelEncoder's attributes say: keys[i] becomes values[i], of equal keys the last one
/// counts.
struct LabelTable {
  Tensor keys, values;  ///< of rank 1 and one length, contiguous
  Tensor otherwise;     ///< one value, of what is no key
};
/// Fails with kInvalidModel.
LabelTable label_table(const Attrs& attrs);

// ---- scores and classes (ml_scores.cpp) ---------------------------------------------------------

/// What becomes of the scores of a row. TreeEnsemble numbers them in this order. PROBIT is the
/// inverse of the normal distribution function by Winitzki's approximation of erf (2e-3 relative),
/// as in onnxruntime and in the reference of the standard.
inline constexpr std::string_view kScoreTransforms = "NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT";
void transform_scores(std::string_view kind, std::span<double> scores);
AttrSpec score_transform_attr();

/// The transformed scores of both classes where the model gives one: {1 - s, s}, or {-s, s} where
/// s is `signed_score`. As onnxruntime: only LOGISTIC and PROBIT change them, each by itself.
std::array<double, 2> two_scores(std::string_view kind, double s, bool signed_score);

/// The labels of a classifier (i64 or string, rank 1): one of the two attributes, not empty.
Tensor class_labels(const Attrs& attrs, std::string_view ints = "classlabels_ints",
                    std::string_view strings = "classlabels_strings");
/// Index of the largest score, the first of equal ones.
size_t top_class(std::span<const double> scores);
/// Element n becomes labels[chosen[n]]. Nothing happens for an absent view.
void write_labels(const TensorView& view, const Tensor& labels, const std::vector<size_t>& chosen);
/// OpDef::expand of classifiers: one with text labels becomes one that gives the classes' numbers,
/// and the texts they pick, because only numbers have kernels.
ValueIds expand_text_labels(const Graph& graph, const Node& node, Patch& patch);
/// A classifier: one input; a label and scores for each row. Numbers are summed in double.
OpDef classifier_op(std::string_view name, std::vector<AttrSpec> attrs, InferFn infer,
                    ReferenceFn reference);

}  // namespace xc
