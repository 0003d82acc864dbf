// Gemm: alpha * A' * B' + beta * C for matrices, C broadcast to the result.

#include "ops/expansion.h"
#include "ops/matmul.h"

namespace xc {

namespace {

struct Transposed {
  bool a, b;
};
Transposed transposed(const Node& node) {
  return {node.attrs.get_int("transA", 0) != 0, node.attrs.get_int("transB", 0) != 0};
}

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kMatMulTypes);
  const DType type = require_factors(ctx);
  require_rank(ctx, 0, 2);
  require_rank(ctx, 1, 2);
  const SymDims &a = ctx.dims(0), &b = ctx.dims(1);
  const Transposed t = transposed(*ctx.node);
  if (known_different(a[t.a ? 0 : 1], b[t.b ? 1 : 0]))
    ctx.error("operands {} and {} do not multiply: inner dims differ", to_text(a), to_text(b));
  const SymDims out{a[t.a ? 1 : 0], b[t.b ? 0 : 1]};
  if (ctx.has(2)) {
    require_same_dtype(ctx, 2, 1);
    const SymDims& c = ctx.dims(2);
    bool fits = c.size() <= 2;
    for (size_t i = 0; fits && i < c.size(); ++i)
      fits = c[i] == Dim(1) || !known_different(c[i], out[2 - c.size() + i]);
    if (!fits) ctx.error("C has dims {}, not broadcast to {}", to_text(c), to_text(out));
  }
  ctx.set(0, type, out);
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const Transposed t = transposed(*ctx.node);
  const auto operand = [](TensorView view, bool swap, Dims& dims, Dims& strides) {
    dims.assign(view.dims.begin(), view.dims.end());
    strides.assign(view.strides.begin(), view.strides.end());
    if (swap) {
      std::swap(dims[0], dims[1]);
      std::swap(strides[0], strides[1]);
    }
    view.dims = dims;
    view.strides = strides;
    return view;
  };
  Dims a_dims, a_strides, b_dims, b_strides;
  const TensorView a = operand(ctx.inputs[0], t.a, a_dims, a_strides);
  const TensorView b = operand(ctx.inputs[1], t.b, b_dims, b_strides);
  auto y = matmul(matmul_shape(a.dims, b.dims), double_values(a), double_values(b));
  const double alpha = ctx.attrs().get_float("alpha", 1), beta = ctx.attrs().get_float("beta", 1);
  for (double& v : y) v *= alpha;
  if (ctx.has(2) && beta != 0) {
    const TensorView& c = ctx.inputs[2];
    const Dims strides = broadcast_strides(c, ctx.outputs[0].dims);
    for_each_index(ctx.outputs[0].dims, {strides}, [&](int64_t flat, const int64_t* at) {
      y[static_cast<size_t>(flat)] += beta * load_double(c.data, c.dtype, at[0]);
    });
  }
  write_dense(ctx.outputs[0], y);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  if (!is_float(e.dtype(0))) return {};
  const Transposed t = transposed(node);
  const auto operand = [&](size_t i, bool swap) {
    return swap ? e.add("Transpose", {e.in(i)}, {{"perm", std::vector<int64_t>{1, 0}}}) : e.in(i);
  };
  const auto scaled = [&](ValueId value, double factor) {
    return factor == 1 ? value : e.add("Mul", {value, e.scalar(factor)});
  };
  ValueId y = e.add("MatMul", {operand(0, t.a), operand(1, t.b)});
  y = scaled(y, node.attrs.get_float("alpha", 1));
  const double beta = node.attrs.get_float("beta", 1);
  if (e.has(2) && beta != 0) y = e.add("Add", {y, scaled(e.in(2), beta)});
  return {y};
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& a = graph.value(node.inputs[0]).type.dims;
  const auto& out = graph.value(node.outputs[0]).type.dims;
  if (!a || !out || a->size() != 2) return 0;
  return Dim(2) * (*a)[transposed(node).a ? 0 : 1] * element_count(*out);
}

}  // namespace

void register_gemm(OpList& ops) {
  OpDef op;
  op.name = "Gemm";
  op.min_inputs = 2;
  op.max_inputs = 3;
  op.attrs = {{"alpha", AttrKind::kFloat},
              {"beta", AttrKind::kFloat},
              {"transA", AttrKind::kInt, false, 0, 1},
              {"transB", AttrKind::kInt, false, 0, 1},
              kHeldIn};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
