#include "ops/microsoft.h"

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/input_types.h"

namespace xc::microsoft {

OpDef op(std::string_view name, int min_inputs, int max_inputs, InferFn infer, ExpandFn expand,
         std::vector<AttrSpec> attrs, Tolerance tolerance) {
  OpDef out;
  out.name = name;
  out.domain = "com.microsoft";
  out.min_inputs = min_inputs;
  out.max_inputs = max_inputs;
  out.attrs = std::move(attrs);
  out.infer = infer;
  out.reference = reference_by_expansion;
  out.expand = expand;
  out.tolerance = tolerance;
  return out;
}

AttrSpec flag(std::string_view name) {
  return {name, AttrKind::kInt, false, 0, 1};
}

void require_attr(const InferContext& ctx, std::string_view name, int64_t only) {
  if (const int64_t value = ctx.attrs().get_int(name, only); value != only)
    fail(Status::kUnsupported, "unsupported: attribute '{}' = {} (only {} is)", name, value, only);
}

bool has_one_entry(const InferContext& ctx, size_t i) {
  const SymDims& dims = ctx.dims(i);
  return dims.empty() || (dims.size() == 1 && dims[0] == Dim(1));
}

void require_one(const InferContext& ctx, size_t i) {
  if (ctx.has(i) && !has_one_entry(ctx, i)) require_vector(ctx, i, 1);
}

void refuse_input(const InferContext& ctx, size_t i, std::string_view what) {
  // No type of it is taken.
  if (ctx.has(i))
    throw WrongDType(i, fmt::format("unsupported: input {} ({})", i, what), Status::kUnsupported);
}

void refuse_output(const InferContext& ctx, size_t k, std::string_view what) {
  if (k < ctx.node->outputs.size() && ctx.node->outputs[k] != kNone)
    fail(Status::kUnsupported, "unsupported: output {} ({})", k, what);
}

}  // namespace xc::microsoft
