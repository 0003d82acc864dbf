#include "ops/checks.h"

#include "ops/input_types.h"

#include "ops/infer.h"

namespace xc {

bool known_different(const Dim& a, const Dim& b) {
  if (a == b) return false;
  const Dim difference = a - b;
  const auto low = difference.lower_bound(), high = difference.upper_bound();
  return (low && *low > 0) || (high && *high < 0);
}

void require_same_dtype(const InferContext& ctx, size_t i, size_t other) {
  if (ctx.has(i) && ctx.dtype(i) != ctx.dtype(other))
    throw WrongDType(i, fmt::format("input {} is of type {}, input {} of type {}", i,
                                    name(ctx.dtype(i)), other, name(ctx.dtype(other))));
}

DType require_factors(const InferContext& ctx) {
  if (ctx.dtype(1) != read_dtype(ctx, 0)) require_same_dtype(ctx, 1);
  return ctx.dtype(1);
}

void require_rank(const InferContext& ctx, size_t i, size_t rank) {
  if (ctx.rank(i) != rank) ctx.error("input {} has rank {}, expected {}", i, ctx.rank(i), rank);
}

void require_vector(const InferContext& ctx, size_t i, const Dim& size) {
  require_dims(ctx, i, {size});
}

void require_dims(const InferContext& ctx, size_t i, const SymDims& dims) {
  const SymDims& found = ctx.dims(i);
  bool same = found.size() == dims.size();
  for (size_t k = 0; same && k < dims.size(); ++k) same = !known_different(found[k], dims[k]);
  if (!same) ctx.error("input {} has dims {}, expected {}", i, to_text(found), to_text(dims));
}

void require_scalar(const InferContext& ctx, size_t i) {
  for (const Dim& d : ctx.dims(i))
    if (known_different(d, 1))
      ctx.error("input {} has dims {}, expected one element", i, to_text(ctx.dims(i)));
}

void require_output_dims(std::string_view what, const SymDims& declared,
                         std::span<const int64_t> dims, Status status) {
  bool same = declared.size() == dims.size();
  for (size_t axis = 0; same && axis < dims.size(); ++axis)
    same = !known_different(declared[axis], dims[axis]);
  if (!same)
    fail(status, "output {} has dims {}, expected {}", what,
         to_text(Dims(dims.begin(), dims.end())), to_text(declared));
}

void check_shapes(const ReferenceContext& ctx) {
  std::vector<Tensor> inputs;
  for (const TensorView& view : ctx.inputs) {
    if (!view) {
      inputs.emplace_back();
      continue;
    }
    inputs.emplace_back(Buffer::wrap(view.data, 0, {}), 0, view.dtype,
                        Dims(view.dims.begin(), view.dims.end()),
                        Dims(view.strides.begin(), view.strides.end()));
  }
  const std::vector<Type> types = infer_concrete(*ctx.node, inputs);
  for (size_t i = 0; i < ctx.outputs.size() && i < types.size(); ++i) {
    const TensorView& view = ctx.outputs[i];
    if (view && types[i].dims) require_output_dims(std::to_string(i), *types[i].dims, view.dims);
  }
}

}  // namespace xc
