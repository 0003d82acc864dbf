// Products of quantised tensors: MatMulInteger and ConvInteger (32-bit sums), QLinearMatMul and
// QLinearConv (requantised). Sums of 8-bit products are exact in double.

#include <cmath>

#include "ops/convolve.h"
#include "ops/matmul.h"

namespace xc {

namespace {

constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});
constexpr TypeSet kBytesOrFloat8s = kBytes | kFloat8s;

/// Where a scale or zero point of an operand lies.
struct QuantOperand {
  size_t tensor, scale, zero;
};

/// Which axis of the matrix a vector of scales or zero points runs along.
enum class Side { kRows, kColumns };

/// A vector [m] of rows seen as [m, 1]; columns, scalars and full-rank forms broadcast as they are.
SymDims as_broadcast(SymDims dims, Side side, const SymDims& matrix) {
  if (side == Side::kRows && dims.size() == 1 && matrix.size() > 1 && !(dims[0] == Dim(1)))
    dims.push_back(1);
  return dims;
}

/// Input i broadcasts along the rows (columns) of input `of` without changing its dims.
void require_per_line(const InferContext& ctx, size_t i, size_t of, Side side) {
  if (!ctx.has(i)) return;
  const SymDims& matrix = ctx.dims(of);
  const SymDims dims = as_broadcast(ctx.dims(i), side, matrix);
  bool fits = dims.size() <= matrix.size() || element_count(dims) == Dim(1);
  const size_t contracted =
      side == Side::kRows || matrix.size() == 1 ? matrix.size() - 1 : matrix.size() - 2;
  for (size_t k = 0; fits && k < dims.size() && dims.size() <= matrix.size(); ++k) {
    const size_t axis = matrix.size() - dims.size() + k;
    fits = dims[k] == Dim(1) || (axis != contracted && !known_different(dims[k], matrix[axis]));
  }
  if (!fits)
    ctx.error("input {} has dims {}, expected one entry or one per {} of {}", i,
              to_text(ctx.dims(i)), side == Side::kRows ? "row" : "column", to_text(matrix));
}

/// The elements of input i for every element of the matrix; `otherwise` when absent.
std::vector<double> spread(const ReferenceContext& ctx, size_t i, const TensorView& matrix,
                           Side side, double otherwise) {
  std::vector<double> out(static_cast<size_t>(matrix.count()), otherwise);
  if (!ctx.has(i)) return out;
  TensorView view = ctx.inputs[i];
  const SymDims dims = as_broadcast(to_symbolic(dims_of(view)), side, to_symbolic(dims_of(matrix)));
  const Dims shaped = view.count() == 1 ? Dims{} : *to_concrete(dims);
  Dims strides(view.strides.begin(), view.strides.end());
  strides.resize(shaped.size(), 0);
  view.dims = shaped;
  view.strides = strides;
  size_t next = 0;
  const Dims spread_strides = broadcast_strides(view, matrix.dims);
  for_each_offset<1>(matrix.dims, {spread_strides}, [&](const auto& at) {
    out[next++] = load_double(view.data, view.dtype, at[0]);
  });
  return out;
}

/// x - zero of a whole operand.
std::vector<double> shifted_values(const ReferenceContext& ctx, const QuantOperand& q, Side side) {
  const TensorView& view = ctx.inputs[q.tensor];
  auto x = double_values(view);
  const auto zeros = spread(ctx, q.zero, view, side, 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] -= zeros[i];
  return x;
}

// ---- matrices -----------------------------------------------------------------------------------

void infer_matmul_integer(InferContext& ctx) {
  check_dtype(ctx, 0, kBytes);
  check_dtype(ctx, 1, kBytes);
  require_same_dtype(ctx, 2);
  require_same_dtype(ctx, 3, 1);
  SymDims out = infer_matmul(ctx, 0, 1);
  require_per_line(ctx, 2, 0, Side::kRows);
  require_per_line(ctx, 3, 1, Side::kColumns);
  ctx.set(0, DType::kI32, std::move(out));
}

void reference_matmul_integer(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const MatMulShape shape = matmul_shape(ctx.inputs[0].dims, ctx.inputs[1].dims);
  const auto a = shifted_values(ctx, {0, 0, 2}, Side::kRows);
  const auto b = shifted_values(ctx, {1, 0, 3}, Side::kColumns);
  const auto y = matmul(shape, a, b);
  std::vector<uint64_t> wrapped;
  for (double v : y) wrapped.push_back(static_cast<uint64_t>(static_cast<int64_t>(v)));
  write_wrapped(ctx.outputs[0], wrapped);
}

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias (i32, of scale
// a_scale * b_scale). The standard's QLinearMatMul has no bias; ours comes from
// passes/fuse_quantised.cpp, never from a model.
constexpr QuantOperand kA{0, 1, 2}, kB{3, 4, 5};
constexpr size_t kYScale = 6, kYZero = 7, kBias = 8;

void check_quantised(const InferContext& ctx, const QuantOperand& q, TypeSet allowed) {
  check_dtype(ctx, q.tensor, allowed);
  check_dtype(ctx, q.scale, kFloats);
  require_same_dtype(ctx, q.zero, q.tensor);
}

void require_columns_bias(const InferContext& ctx, const SymDims& result) {
  if (result.empty() || ctx.rank(kB.tensor) < 2) ctx.error("a bias without columns to add it to");
  require_vector(ctx, kBias, result.back());
}

void infer_qlinear_matmul(InferContext& ctx) {
  check_quantised(ctx, kA, kBytesOrFloat8s);
  check_quantised(ctx, kB, kBytesOrFloat8s);
  check_dtype(ctx, kYScale, kFloats);
  check_dtype(ctx, kYZero, kBytesOrFloat8s);
  check_dtype(ctx, kBias, type_set({DType::kI32}));
  SymDims out = infer_matmul(ctx, kA.tensor, kB.tensor);
  for (size_t i : {kA.scale, kA.zero}) require_per_line(ctx, i, kA.tensor, Side::kRows);
  for (size_t i : {kB.scale, kB.zero}) require_per_line(ctx, i, kB.tensor, Side::kColumns);
  for (size_t i : {kYScale, kYZero}) require_scalar(ctx, i);
  if (ctx.has(kBias)) {
    require_scalar(ctx, kA.scale);
    require_columns_bias(ctx, out);
  }
  ctx.set(0, ctx.dtype(kYZero), std::move(out));
}

void reference_qlinear_matmul(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &a = ctx.inputs[kA.tensor], &b = ctx.inputs[kB.tensor];
  const auto scaled = [&](const QuantOperand& q, const TensorView& matrix, Side side) {
    auto x = shifted_values(ctx, q, side);
    const auto scales = spread(ctx, q.scale, matrix, side, 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= scales[i];
    return x;
  };
  auto y = matmul(matmul_shape(a.dims, b.dims), scaled(kA, a, Side::kRows),
                  scaled(kB, b, Side::kColumns));
  if (ctx.has(kBias)) {
    const auto bias = double_values(ctx.inputs[kBias]);
    const auto scales = double_values(ctx.inputs[kB.scale]);
    const double a_scale = scalar_value(ctx.inputs[kA.scale]);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t column = i % bias.size();
      y[i] += bias[column] * a_scale * scales[scales.size() == 1 ? 0 : column];
    }
  }
  const double scale = scalar_value(ctx.inputs[kYScale]), zero = scalar_value(ctx.inputs[kYZero]);
  // An 8-bit float rounds as it is stored, once, and saturates too.
  const bool whole = is_integer(ctx.outputs[0].dtype);
  for (double& v : y) v = (whole ? std::nearbyint(v / scale) : v / scale) + zero;
  write_dense(ctx.outputs[0], y);
}

Dim flops_matmul_integer(const Graph& graph, const Node& node) {
  return matmul_flops(graph, node, 0);
}
Dim flops_qlinear_matmul(const Graph& graph, const Node& node) {
  return matmul_flops(graph, node, kA.tensor);
}

// ---- convolutions -------------------------------------------------------------------------------

/// One entry, or one per output channel.
void require_per_channel(const InferContext& ctx, size_t i, const Dim& channels) {
  if (!ctx.has(i)) return;
  const SymDims& dims = ctx.dims(i);
  if (dims.empty() || (dims.size() == 1 && dims[0] == Dim(1))) return;
  require_vector(ctx, i, channels);
}

/// Entry of output channel m.
double per_channel(const std::vector<double>& values, int64_t m) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(m)];
}

std::vector<double> values_or(const ReferenceContext& ctx, size_t i, double otherwise) {
  return ctx.has(i) ? double_values(ctx.inputs[i]) : std::vector<double>{otherwise};
}

/// Sums of products of the shifted operands, row-major.
std::vector<double> integer_convolution(const ReferenceContext& ctx, size_t x, size_t x_zero,
                                        size_t w, size_t w_zero, const std::vector<double>& bias) {
  const ConvShape shape =
      conv_shape(*ctx.node, ctx.inputs[x].dims, ctx.inputs[w].dims, ctx.outputs[0].dims);
  auto data = double_values(ctx.inputs[x]), weights = double_values(ctx.inputs[w]);
  const double shift = values_or(ctx, x_zero, 0)[0];
  for (double& v : data) v -= shift;
  const auto zeros = values_or(ctx, w_zero, 0);
  const int64_t channels = ctx.inputs[w].dims[0];
  const int64_t per = static_cast<int64_t>(weights.size()) / std::max<int64_t>(channels, 1);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] -= per_channel(zeros, static_cast<int64_t>(i) / per);
  return convolve(shape, data, weights, bias);
}

void infer_conv_integer(InferContext& ctx) {
  check_dtype(ctx, 0, kBytes);
  check_dtype(ctx, 1, kBytes);
  require_same_dtype(ctx, 2);
  require_same_dtype(ctx, 3, 1);
  SymDims out = infer_convolution(ctx, 0, 1);
  if (ctx.has(2)) require_scalar(ctx, 2);
  require_per_channel(ctx, 3, out[1]);
  ctx.set(0, DType::kI32, std::move(out));
}

void reference_conv_integer(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto y = integer_convolution(ctx, 0, 2, 1, 3, {});
  std::vector<uint64_t> wrapped;
  for (double v : y) wrapped.push_back(static_cast<uint64_t>(static_cast<int64_t>(v)));
  write_wrapped(ctx.outputs[0], wrapped);
}

Dim flops_conv_integer(const Graph& graph, const Node& node) {
  return conv_flops(graph, node, 1);
}

// Inputs: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, scale
// x_scale*w_scale).

void infer_qlinear_conv(InferContext& ctx) {
  check_quantised(ctx, kA, kBytes);
  check_quantised(ctx, kB, kBytes);
  check_dtype(ctx, kYScale, kFloats);
  check_dtype(ctx, kYZero, kBytes);
  check_dtype(ctx, kBias, type_set({DType::kI32}));
  SymDims out = infer_convolution(ctx, kA.tensor, kB.tensor);
  for (size_t i : {kA.scale, kA.zero, kYScale, kYZero}) require_scalar(ctx, i);
  for (size_t i : {kB.scale, kB.zero}) require_per_channel(ctx, i, out[1]);
  if (ctx.has(kBias)) require_vector(ctx, kBias, out[1]);
  ctx.set(0, ctx.dtype(kYZero), std::move(out));
}

void reference_qlinear_conv(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto bias = ctx.has(kBias) ? double_values(ctx.inputs[kBias]) : std::vector<double>{};
  auto y = integer_convolution(ctx, kA.tensor, kA.zero, kB.tensor, kB.zero, bias);
  const double x_scale = scalar_value(ctx.inputs[kA.scale]);
  const double y_scale = scalar_value(ctx.inputs[kYScale]);
  const double zero = scalar_value(ctx.inputs[kYZero]);
  const auto scales = double_values(ctx.inputs[kB.scale]);
  const auto dims = ctx.outputs[0].dims;
  const int64_t plane = product(dims, 2, dims.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double scale = x_scale * per_channel(scales, static_cast<int64_t>(i) / plane % dims[1]);
    y[i] = std::nearbyint(y[i] * scale / y_scale) + zero;
  }
  write_dense(ctx.outputs[0], y);
}

Dim flops_qlinear_conv(const Graph& graph, const Node& node) {
  return conv_flops(graph, node, 3);
}

OpDef quantised(std::string_view name, int inputs, InferFn infer, ReferenceFn reference,
                FlopsFn flops) {
  OpDef op;
  op.name = name;
  op.min_inputs = op.max_inputs = inputs;
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kExact;
  return op;
}

std::vector<AttrSpec> conv_attrs() {
  auto out = window_attr_specs(/*kernel_required=*/false);
  out.push_back({"group", AttrKind::kInt, false, 1, kMaxWindow});
  return out;
}

}  // namespace

void register_quantized_product(OpList& ops) {
  OpDef matmul_integer = quantised("MatMulInteger", 4, infer_matmul_integer,
                                   reference_matmul_integer, flops_matmul_integer);
  matmul_integer.min_inputs = 2;
  ops.push_back(std::move(matmul_integer));

  OpDef conv_integer =
      quantised("ConvInteger", 4, infer_conv_integer, reference_conv_integer, flops_conv_integer);
  conv_integer.min_inputs = 2;
  conv_integer.attrs = conv_attrs();
  ops.push_back(std::move(conv_integer));

  // Requantising rounds a real quotient: another order of its factors may fall on the other side.
  OpDef qlinear_matmul = quantised("QLinearMatMul", 9, infer_qlinear_matmul,
                                   reference_qlinear_matmul, flops_qlinear_matmul);
  qlinear_matmul.min_inputs = 8;
  qlinear_matmul.tolerance = Tolerance::kElementwise;
  ops.push_back(std::move(qlinear_matmul));
  OpDef qlinear_conv =
      quantised("QLinearConv", 9, infer_qlinear_conv, reference_qlinear_conv, flops_qlinear_conv);
  qlinear_conv.min_inputs = 8;
  qlinear_conv.tolerance = Tolerance::kElementwise;
  qlinear_conv.attrs = conv_attrs();
  ops.push_back(std::move(qlinear_conv));
}

}  // namespace xc
