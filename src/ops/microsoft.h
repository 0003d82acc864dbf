#pragma once
// Operators of the domain com.microsoft: what onnxruntime's optimiser, quantiser and exporters of
// generative models write. Facts: its documentation (ContribOperators.md) and schemas. All of them
// are what they expand to, in operators of the standard, so that kernels, rules and fusion take
// them; their names carry the domain, since the standard has operators of the same names.

#include <optional>
#include <string_view>
#include <vector>

#include "ops/expansion.h"
#include "ops/op.h"

namespace xc::microsoft {

/// A row: `name` begins with "com.microsoft::". The reference is that of the expansion.
OpDef op(std::string_view name, int min_inputs, int max_inputs, InferFn infer, ExpandFn expand,
         std::vector<AttrSpec> attrs = {}, Tolerance tolerance = Tolerance::kContraction);

AttrSpec flag(std::string_view name);
/// One of several strings, '|'-separated; the first where it is missing.
AttrSpec choice(std::string_view name, std::string_view choices);
/// One entry: a scalar, or a vector of one.
bool has_one_entry(const InferContext& ctx, size_t i);
/// Fails with kInvalidModel when input i is there and surely not of one entry.
void require_one(const InferContext& ctx, size_t i);
/// Fails with kUnsupported when the attribute has another value than the one xc knows.
void require_attr(const InferContext& ctx, std::string_view name, int64_t only);
/// Fails with kUnsupported when input i is there; `what` names it.
void refuse_input(const InferContext& ctx, size_t i, std::string_view what);
/// Fails with kUnsupported when output k is asked for; `what` names it.
void refuse_output(const InferContext& ctx, size_t k, std::string_view what);
/// The dims of output 0 of an operator of the standard for inputs of these types (kUndefined:
/// absent) and the node's attributes.
std::optional<SymDims> inferred_dims(const InferContext& ctx, std::string_view op,
                                     const std::vector<Type>& inputs);
/// The type of input i, kUndefined where it is absent.
Type type_or_none(const InferContext& ctx, size_t i);
/// Whether somebody reads output k.
bool wants(const Node& node, size_t k);
/// The attribute `channels_last`.
bool lies_last(const Node& node, bool otherwise = false);

/// Input i, of one entry, as a scalar; kNone without it.
ValueId scalar_of(Expansion& e, size_t i);

// Images and filters of [batch, spatial..., channels], as some operators have them: the channels
// behind the batch, and back.
SymDims channels_first(const SymDims& dims);
SymDims channels_last(const SymDims& dims);
ValueId channels_first(Expansion& e, ValueId x, int64_t rank);
ValueId channels_last(Expansion& e, ValueId x, int64_t rank);
/// The type of input i with its channels behind the batch.
Type channels_first(const InferContext& ctx, size_t i);

}  // namespace xc::microsoft
