#include "ops/microsoft.h"

#include <algorithm>
#include <numeric>

#include "ops/checks.h"
#include "ops/input_types.h"
#include "ops/registry.h"

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

AttrSpec choice(std::string_view name, std::string_view choices) {
  AttrSpec out{name, AttrKind::kString};
  out.choices = choices;
  return out;
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

std::optional<SymDims> inferred_dims(const InferContext& ctx, std::string_view op,
                                     const std::vector<Type>& inputs) {
  InferContext inner;
  inner.node = ctx.node;
  for (const Type& type : inputs)
    inner.inputs.push_back({type.dtype == DType::kUndefined ? nullptr : &type, nullptr, nullptr});
  inner.outputs.resize(1);
  inner.output_elements.resize(1);
  get_op(op).infer(inner);
  return inner.outputs[0].dims;
}

bool wants(const Node& node, size_t k) {
  return k < node.outputs.size() && node.outputs[k] != kNone;
}

bool lies_last(const Node& node, bool otherwise) {
  return node.attrs.get_int("channels_last", otherwise ? 1 : 0) != 0;
}

Type type_or_none(const InferContext& ctx, size_t i) {
  return ctx.has(i) ? ctx.type(i) : Type{};
}

ValueId scalar_of(Expansion& e, size_t i) {
  if (!e.has(i)) return kNone;
  if (e.rank(i) == std::optional<int64_t>(0)) return e.in(i);
  return e.add("Reshape", {e.in(i), e.ints({})});
}

// ---- channels last ------------------------------------------------------------------------------

namespace {

/// Axes of the source in the order of the result.
std::vector<int64_t> to_first(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), int64_t{0});
  if (rank > 2) std::rotate(perm.begin() + 1, perm.end() - 1, perm.end());
  return perm;
}
std::vector<int64_t> to_last(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), int64_t{0});
  if (rank > 2) std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

SymDims permuted(const SymDims& dims, const std::vector<int64_t>& perm) {
  SymDims out;
  for (const int64_t axis : perm) out.push_back(dims[static_cast<size_t>(axis)]);
  return out;
}

}  // namespace

SymDims channels_first(const SymDims& dims) {
  return permuted(dims, to_first(dims.size()));
}

SymDims channels_last(const SymDims& dims) {
  return permuted(dims, to_last(dims.size()));
}

ValueId channels_first(Expansion& e, ValueId x, int64_t rank) {
  return e.transposed(x, to_first(static_cast<size_t>(rank)));
}

ValueId channels_last(Expansion& e, ValueId x, int64_t rank) {
  return e.transposed(x, to_last(static_cast<size_t>(rank)));
}

Type channels_first(const InferContext& ctx, size_t i) {
  return Type::tensor(ctx.dtype(i), channels_first(ctx.dims(i)));
}

}  // namespace xc::microsoft
