#pragma once
// Operators of the domain com.microsoft: what onnxruntime's optimiser, quantiser and exporters of
// generative models write. Facts: its documentation (ContribOperators.md) and schemas. All of them
// are what they expand to, in operators of the standard, so that kernels, rules and fusion take
// them; their names carry the domain, since the standard has operators of the same names.

#include <string_view>
#include <vector>

#include "ops/op.h"

namespace xc::microsoft {

/// A row: `name` begins with "com.microsoft::". The reference is that of the expansion.
OpDef op(std::string_view name, int min_inputs, int max_inputs, InferFn infer, ExpandFn expand,
         std::vector<AttrSpec> attrs = {}, Tolerance tolerance = Tolerance::kContraction);

AttrSpec flag(std::string_view name);
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

}  // namespace xc::microsoft
