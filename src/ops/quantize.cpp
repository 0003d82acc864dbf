// QuantizeLinear, DequantizeLinear (per tensor, per axis, per block) and DynamicQuantizeLinear.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/support.h"
#include "tensor/small_float.h"

namespace xc {

namespace {

// Inputs: x, scale, zero point.
constexpr size_t kX = 0, kScale = 1, kZero = 2;
constexpr TypeSet kQuantIntegers = type_set({DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                                             DType::kI4, DType::kU4, DType::kI2, DType::kU2});
constexpr TypeSet kQuantFloats =
    kFloat8s | type_set({DType::kF4E2M1, DType::kF6E2M3, DType::kF6E3M2});
constexpr TypeSet kScaleFloats = type_set({DType::kF32, DType::kF16, DType::kBF16});

/// Which scale belongs to which element: an index into the row-major scales.
struct Granularity {
  enum class Kind { kTensor, kAxis, kBlock } kind = Kind::kTensor;
  size_t axis = 0;
  int64_t block = 1;
};

/// From ranks and attributes; fails with kInvalidModel when the axis is outside.
Granularity granularity_of(const Node& node, size_t rank, const SymDims& scale) {
  Granularity out;
  const int64_t block = node.attrs.get_int("block_size", 0);
  // Where x has no axis, a vector has one element.
  const bool single = scale.empty() || (scale.size() == 1 && (scale[0] == Dim(1) || rank == 0));
  if (block == 0 && single) return out;
  out.kind = block == 0 ? Granularity::Kind::kAxis : Granularity::Kind::kBlock;
  out.block = std::max<int64_t>(block, 1);
  // A vector has one axis, whatever the attribute's default of 1 says.
  out.axis = rank == 1 ? 0 : normalise_axis(node.attrs.get_int("axis", 1), rank);
  return out;
}

void check_scale_dims(const InferContext& ctx) {
  const SymDims &x = ctx.dims(kX), &scale = ctx.dims(kScale);
  const Granularity g = granularity_of(*ctx.node, x.size(), scale);
  if (g.kind == Granularity::Kind::kTensor) require_scalar(ctx, kScale);
  if (g.kind == Granularity::Kind::kAxis) require_vector(ctx, kScale, x[g.axis]);
  if (g.kind == Granularity::Kind::kBlock) {
    SymDims expected = x;
    expected[g.axis] = ceil_div(x[g.axis], g.block);
    require_dims(ctx, kScale, expected);
  }
  if (!ctx.has(kZero)) return;
  // A lone zero point may be a scalar where the scale is [1], and the other way round.
  if (g.kind == Granularity::Kind::kTensor)
    require_scalar(ctx, kZero);
  else
    require_dims(ctx, kZero, scale);
}

void infer_quantize(InferContext& ctx) {
  check_dtype(ctx, kX, kScaleFloats | type_set({DType::kI32}));
  check_dtype(ctx, kScale, kScaleFloats | type_set({DType::kI32, DType::kF8E8M0}));
  check_dtype(ctx, kZero, kQuantIntegers | kQuantFloats);
  const int64_t wanted = ctx.attrs().get_int("output_dtype", 0);
  DType out = wanted ? dtype_attr(wanted) : DType::kU8;
  if (ctx.has(kZero)) {
    if (wanted && ctx.dtype(kZero) != out)
      ctx.error("zero point is of type {}, attribute 'output_dtype' says {}",
                name(ctx.dtype(kZero)), name(out));
    out = ctx.dtype(kZero);
  }
  if (!contains(kQuantIntegers | kQuantFloats, out)) ctx.error("output type is {}", name(out));
  if (const int64_t p = ctx.attrs().get_int("precision", 0); p && !contains(kFloats, dtype_attr(p)))
    ctx.error("attribute 'precision' is {}", name(dtype_attr(p)));
  check_scale_dims(ctx);
  ctx.set(0, out, ctx.dims(kX));
}

void infer_dequantize(InferContext& ctx) {
  check_dtype(ctx, kX, kQuantIntegers | kQuantFloats | type_set({DType::kI32}));
  check_dtype(ctx, kScale, kScaleFloats | type_set({DType::kF8E8M0}));
  require_same_dtype(ctx, kZero);
  const int64_t wanted = ctx.attrs().get_int("output_dtype", 0);
  const DType out = wanted ? dtype_attr(wanted) : ctx.dtype(kScale);
  if (!contains(kScaleFloats, out)) ctx.error("output type is {}", name(out));
  check_scale_dims(ctx);
  ctx.set(0, out, ctx.dims(kX));
}

/// Calls body(element of x, index of its scale) in row-major order.
template <class Body>
void for_each_scaled(const ReferenceContext& ctx, Body body) {
  const TensorView &x = ctx.inputs[kX], &scale = ctx.inputs[kScale];
  const Dims scale_dims = dims_of(scale);
  const Granularity g = granularity_of(*ctx.node, x.dims.size(), to_symbolic(scale_dims));
  const Dims strides = contiguous_strides(scale_dims);
  for_each_coordinate(x.dims, [&](std::span<const int64_t> at) {
    int64_t index = 0;
    if (g.kind == Granularity::Kind::kAxis) index = at[g.axis];
    if (g.kind == Granularity::Kind::kBlock)
      for (size_t i = 0; i < at.size(); ++i)
        index += (i == g.axis ? at[i] / g.block : at[i]) * strides[i];
    body(load_double(x.data, x.dtype, offset_of(at, x.strides)), static_cast<size_t>(index));
  });
}

double rounded_to(DType type, double value) {
  if (!contains(kFloats, type)) return value;
  std::byte element[8];
  store_double(element, type, 0, value);
  return load_double(element, type, 0);
}

std::vector<double> zero_points(const ReferenceContext& ctx) {
  if (ctx.has(kZero)) return double_values(ctx.inputs[kZero]);
  return std::vector<double>(static_cast<size_t>(ctx.inputs[kScale].count()), 0.0);
}

void reference_quantize(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto scales = double_values(ctx.inputs[kScale]), zeros = zero_points(ctx);
  const int64_t wanted = ctx.attrs().get_int("precision", 0);
  const DType precision = wanted ? dtype_attr(wanted) : ctx.inputs[kScale].dtype;
  const bool saturate = ctx.attrs().get_int("saturate", 1) != 0;
  const TensorView& y = ctx.outputs[0];
  std::vector<double> out;
  for_each_scaled(ctx, [&](double x, size_t s) {
    const double quotient = rounded_to(precision, x / rounded_to(precision, scales[s]));
    if (is_integer(
            y.dtype))  // NaN is the least number, as kernels that clamp have it, and onnxruntime
      out.push_back(std::isnan(quotient) ? -HUGE_VAL : std::nearbyint(quotient) + zeros[s]);
    else
      out.push_back(quotient + zeros[s]);
  });
  if (is_integer(y.dtype)) return write_dense(y, out);
  size_t next = 0;
  for_each_offset<1>(y.dims, {y.strides}, [&](const auto& at) {
    y.as<uint8_t>()[at[0]] = small_float_code(y.dtype, out[next++], saturate);
  });
}

void reference_dequantize(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto scales = double_values(ctx.inputs[kScale]), zeros = zero_points(ctx);
  std::vector<double> out;
  for_each_scaled(ctx, [&](double x, size_t s) { out.push_back((x - zeros[s]) * scales[s]); });
  write_dense(ctx.outputs[0], out);
}

// ---- expansions: f32 against 8- and 16-bit integers, per tensor or per axis ---------------------

constexpr TypeSet kPlainIntegers =
    type_set({DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32});

/// Scales and zero points as f32, shaped to broadcast against x; nullopt where that does not do.
struct Affine {
  ValueId scale, zero;  // zero = kNone: none
};
std::optional<Affine> affine(Expansion& e, const Node& node) {
  if (!e.rank(kX) || !e.type(kScale).dims || e.dtype(kScale) != DType::kF32) return std::nullopt;
  const auto rank = static_cast<size_t>(*e.rank(kX));
  const Granularity g = granularity_of(node, rank, *e.type(kScale).dims);
  if (g.kind == Granularity::Kind::kBlock) return std::nullopt;
  const size_t scale_rank = e.type(kScale).dims->size();
  const auto shaped = [&](ValueId v) {
    if (g.kind == Granularity::Kind::kTensor)
      return scale_rank <= rank ? v : e.add("Reshape", {v, e.ints({})});
    std::vector<int64_t> axes;
    for (size_t i = g.axis + 1; i < rank; ++i) axes.push_back(static_cast<int64_t>(i - g.axis));
    return axes.empty() ? v : e.add("Unsqueeze", {v, e.ints(axes)});
  };
  Affine out{shaped(e.in(kScale)), kNone};
  if (e.has(kZero)) out.zero = shaped(e.cast(e.in(kZero), e.dtype(kZero), DType::kF32));
  return out;
}

std::vector<ValueId> expand_dequantize(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  // 32-bit integers are not exact in f32.
  if (!contains(kPlainIntegers, e.dtype(kX)) || e.dtype(kX) == DType::kI32) return {};
  const int64_t wanted = node.attrs.get_int("output_dtype", 0);
  if (wanted && dtype_attr(wanted) != DType::kF32) return {};
  const auto a = affine(e, node);
  if (!a) return {};
  ValueId x = e.cast(e.in(kX), e.dtype(kX), DType::kF32);
  if (a->zero != kNone) x = e.add("Sub", {x, a->zero});
  return {e.add("Mul", {x, a->scale})};
}

std::vector<ValueId> expand_quantize(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (e.dtype(kX) != DType::kF32 || node.attrs.get_int("precision", 0) != 0) return {};
  const int64_t wanted = node.attrs.get_int("output_dtype", 0);
  const DType out = e.has(kZero) ? e.dtype(kZero) : wanted ? dtype_attr(wanted) : DType::kU8;
  double low = 0, high = 0;
  switch (out) {
    case DType::kU8:
      high = 255;
      break;
    case DType::kU16:
      high = 65535;
      break;
    case DType::kI8:
      low = -128, high = 127;
      break;
    case DType::kI16:
      low = -32768, high = 32767;
      break;
    default:
      return {};
  }
  const auto a = affine(e, node);
  if (!a) return {};
  ValueId y = e.add("RoundedQuotient", {e.in(kX), a->scale});
  if (a->zero != kNone) y = e.add("Add", {y, a->zero});
  // NaN becomes the least number.
  y = e.add("Where", {e.add("Greater", {y, e.scalar(low)}), y, e.scalar(low)});
  y = e.add("Min", {y, e.scalar(high)});
  return {e.cast(y, DType::kF32, out)};
}

// ---- DynamicQuantizeLinear ----------------------------------------------------------------------

void infer_dynamic(InferContext& ctx) {
  check_dtype(ctx, 0, type_set({DType::kF32}));
  ctx.set(0, DType::kU8, ctx.dims(0));
  ctx.set(1, DType::kF32, {});
  ctx.set(2, DType::kU8, {});
}

/// In f32 throughout, as the standard's function body.
void reference_dynamic(const ReferenceContext& ctx) {
  const auto x = double_values(ctx.inputs[0]);
  float low = 0, high = 0;
  for (double v : x) {
    low = std::min(low, static_cast<float>(v));
    high = std::max(high, static_cast<float>(v));
  }
  const float scale = high == low ? 1.0f : (high - low) / 255.0f;
  const float zero = std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f);
  std::vector<double> y;
  for (double v : x) y.push_back(std::nearbyint(static_cast<float>(v) / scale) + zero);
  write_dense(ctx.outputs[0], y);
  write_dense(ctx.outputs[1], {scale});
  write_dense(ctx.outputs[2], {zero});
}

OpDef quantizer(std::string_view name, InferFn infer, ReferenceFn reference, ExpandFn expand) {
  OpDef op;
  op.name = name;
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attrs = {{"axis", AttrKind::kInt},
              {"block_size", AttrKind::kInt, false, 0, INT32_MAX},
              dtype_spec("output_dtype", false, true)};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.tolerance = Tolerance::kElementwise;
  op.weight = 4;
  return op;
}

}  // namespace

void register_quantize(OpList& ops) {
  OpDef quantize = quantizer("QuantizeLinear", infer_quantize, reference_quantize, expand_quantize);
  quantize.attrs.push_back(dtype_spec("precision", false, true));
  quantize.attrs.push_back({"saturate", AttrKind::kInt, false, 0, 1});
  ops.push_back(std::move(quantize));
  ops.push_back(
      quantizer("DequantizeLinear", infer_dequantize, reference_dequantize, expand_dequantize));

  OpDef dynamic;
  dynamic.name = "DynamicQuantizeLinear";
  dynamic.min_outputs = dynamic.max_outputs = 3;
  dynamic.infer = infer_dynamic;
  dynamic.reference = reference_dynamic;
  dynamic.tolerance = Tolerance::kElementwise;
  dynamic.weight = 5;
  ops.push_back(std::move(dynamic));
}

}  // namespace xc
