// xc::DequantizedMatMul: MatMul of x with DequantizeLinear of weights, blocks along the contracted
// axis. Passes make it (passes/fuse_weights.cpp), so that a kernel may keep the weights as
// integers.

#include "ops/matmul.h"
#include "ops/rounded_blocks.h"

namespace xc {

namespace {

// Inputs: x [..., k] f32, w [k, n], scale [ceil(k / block_size), n] f32, zero point like scale, of
// w's type.
constexpr size_t kX = 0, kW = 1, kScale = 2, kZero = 3;

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, type_set({DType::kF32}));
  check_dtype(ctx, kW,
              type_set({DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2, DType::kU2}));
  check_dtype(ctx, kScale, type_set({DType::kF32}));
  require_rank(ctx, kW, 2);
  SymDims out = infer_matmul(ctx, kX, kW);
  SymDims lines = ctx.dims(kW);
  lines[0] = ceil_div(lines[0], ctx.attrs().get_int("block_size", 0));
  require_dims(ctx, kScale, lines);
  if (ctx.has(kZero)) {
    require_dims(ctx, kZero, lines);
    if (ctx.dtype(kZero) != ctx.dtype(kW))
      ctx.error("zero point is of type {}, weights of type {}", name(ctx.dtype(kZero)),
                name(ctx.dtype(kW)));
  }
  ctx.set(0, DType::kF32, std::move(out));
}

/// Operand x as it is multiplied.
std::vector<double> left_values(const ReferenceContext& ctx) {
  std::vector<double> x = double_values(ctx.inputs[kX]);
  if (ctx.attrs().get_int(kLeftInBytes.name, 0) == 0) return x;
  std::vector<float> rounded(x.begin(), x.end());
  const int64_t k = ctx.inputs[kW].dims[0], count = std::ssize(rounded);
  for (int64_t at = 0; at < count; at += k)
    round_blocks(rounded.data() + at, k, ctx.attrs().get_int("block_size", 1));
  return {rounded.begin(), rounded.end()};
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const int64_t block = ctx.attrs().get_int("block_size", 1), n = ctx.inputs[kW].dims[1];
  auto w = double_values(ctx.inputs[kW]);
  const auto scale = double_values(ctx.inputs[kScale]);
  std::vector<double> zero(scale.size(), 0.0);
  if (ctx.has(kZero)) zero = double_values(ctx.inputs[kZero]);
  for (size_t i = 0; i < w.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n;
    const auto line = static_cast<size_t>(row / block * n + column);
    w[i] = (w[i] - zero[line]) * scale[line];
  }
  write_dense(ctx.outputs[0],
              matmul(matmul_shape(ctx.inputs[kX].dims, ctx.inputs[kW].dims), left_values(ctx), w));
}

Dim flops(const Graph& graph, const Node& node) {
  return matmul_flops(graph, node, kX);
}

}  // namespace

void register_dequantized_matmul(OpList& ops) {
  OpDef op;
  op.name = "DequantizedMatMul";
  op.domain = "xc";
  op.min_inputs = 3;
  op.max_inputs = 4;
  op.attrs = {{"block_size", AttrKind::kInt, true, 1, INT32_MAX}, kLeftInBytes};
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
