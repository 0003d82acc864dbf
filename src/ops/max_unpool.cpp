// MaxUnpool: puts pooled values back where MaxPool found them, zeros elsewhere.

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/window.h"

namespace xc {

namespace {

constexpr size_t kX = 0, kIndices = 1, kShape = 2;

/// Dims of the tensor that MaxPool saw, the base of the indices.
template <class DimsT>
DimsT unpooled_dims(const Node& node, const DimsT& x) {
  const WindowAttrs window = window_attrs(node, x.size() - 2);
  DimsT out = x;
  for (size_t i = 0; i + 2 < x.size(); ++i) out[i + 2] = unpooled(window, i, x[i + 2]);
  return out;
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kFloats);
  check_dtype(ctx, kIndices, type_set({DType::kI64}));
  check_dtype(ctx, kShape, type_set({DType::kI64}));
  const SymDims& x = ctx.dims(kX);
  if (x.size() < 3) ctx.error("input has rank {}, expected at least 3", x.size());
  if (ctx.attrs().get_ints("kernel_shape").empty()) ctx.error("attribute 'kernel_shape' is empty");
  require_dims(ctx, kIndices, x);
  SymDims out = unpooled_dims(*ctx.node, x);
  if (ctx.has(kShape)) {
    require_vector(ctx, kShape, static_cast<int64_t>(x.size()));
    if (const auto shape = ctx.elements(kShape))
      out = *shape;
    else
      for (Dim& d : out) d = ctx.fresh("unpool");
    for (const Dim& d : out)
      if (const auto most = d.upper_bound(); most && *most < 0)
        ctx.error("output shape is {}", to_text(out));
  }
  ctx.set(0, ctx.dtype(kX), std::move(out));
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView& y = ctx.outputs[0];
  const auto values = double_values(ctx.inputs[kX]);
  const auto indices = int_values(ctx.inputs[kIndices]);
  const Dims base = unpooled_dims(*ctx.node, dims_of(ctx.inputs[kX]));
  const int64_t count = element_count(base);
  const Dims strides = contiguous_strides(dims_of(y));
  std::vector<double> out(static_cast<size_t>(y.count()), 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = indices[i];
    if (rest < 0 || rest >= count) fail(Status::kRange, "index {} is outside [0, {})", rest, count);
    int64_t to = 0;
    for (size_t axis = base.size(); axis-- > 0; rest /= base[axis]) {
      const int64_t at = rest % base[axis];
      if (at >= y.dims[axis])
        fail(Status::kRange, "index {} lies outside the output {}", indices[i],
             to_text(dims_of(y)));
      to += at * strides[axis];
    }
    out[static_cast<size_t>(to)] = values[i];
  }
  write_dense(y, out);
}

}  // namespace

void register_max_unpool(OpList& ops) {
  OpDef op;
  op.name = "MaxUnpool";
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attrs = {{"kernel_shape", AttrKind::kInts, true, 1, kMaxWindow},
              {"pads", AttrKind::kInts, false, 0, kMaxWindow},
              {"strides", AttrKind::kInts, false, 1, kMaxWindow}};
  op.infer = infer;
  op.reference = reference;
  op.tolerance = Tolerance::kExact;
  ops.push_back(std::move(op));
}

}  // namespace xc
