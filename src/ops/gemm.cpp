// Gemm: alpha * A' * B' + beta * C for matrices, C broadcast to the result.

#include <cmath>

#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/support.h"

namespace xc {

namespace {

struct Transposed {
  bool a, b;
};
Transposed transposed(const Node& node) {
  return {node.attrs.get_int("transA", 0) != 0, node.attrs.get_int("transB", 0) != 0};
}

struct Factors {
  double alpha, beta;
  /// Whether results of integers stay integers, which wrap around as those of MatMul do.
  bool whole() const {
    const auto is_whole = [](double v) { return v == std::trunc(v) && std::abs(v) < 0x1p63; };
    return is_whole(alpha) && is_whole(beta);
  }
};
Factors factors(const Node& node) {
  return {node.attrs.get_float("alpha", 1), node.attrs.get_float("beta", 1)};
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

/// y = alpha * y + beta * C, with `load` for an element of C.
template <class T, class Load>
void scale_and_add(const ReferenceContext& ctx, std::vector<T>& y, T alpha, T beta, Load load) {
  for (T& v : y) v *= alpha;
  if (!ctx.has(2) || beta == 0) return;
  const TensorView& c = ctx.inputs[2];
  const Dims strides = broadcast_strides(c, ctx.outputs[0].dims);
  for_each_index(ctx.outputs[0].dims, {strides}, [&](int64_t flat, const int64_t* at) {
    y[static_cast<size_t>(flat)] += beta * load(c, at[0]);
  });
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
  const MatMulShape shape = matmul_shape(a.dims, b.dims);
  const Factors by = factors(*ctx.node);
  if (!is_float(a.dtype) && by.whole()) {
    auto y = matmul(shape, read_wrapped(a), read_wrapped(b));
    scale_and_add(ctx, y, static_cast<uint64_t>(static_cast<int64_t>(by.alpha)),
                  static_cast<uint64_t>(static_cast<int64_t>(by.beta)),
                  [](const TensorView& c, int64_t at) {
                    return static_cast<uint64_t>(load_int64(c.data, c.dtype, at));
                  });
    return write_wrapped(ctx.outputs[0], y);
  }
  auto y = matmul(shape, double_values(a), double_values(b));
  scale_and_add(ctx, y, by.alpha, by.beta,
                [](const TensorView& c, int64_t at) { return load_double(c.data, c.dtype, at); });
  write_dense(ctx.outputs[0], y);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const Factors by = factors(node);
  const bool integers = !is_float(e.dtype(0));
  if (integers && !by.whole()) return {};
  const Transposed t = transposed(node);
  const auto operand = [&](size_t i, bool swap) {
    return swap ? e.add("Transpose", {e.in(i)}, {{"perm", std::vector<int64_t>{1, 0}}}) : e.in(i);
  };
  const auto scaled = [&](ValueId value, double factor) {
    if (factor == 1) return value;
    if (!integers) return e.add("Mul", {value, e.scalar(factor)});
    Tensor scalar(e.dtype(0), {});
    store_wrapped(scalar.data(), scalar.dtype(), 0, static_cast<int64_t>(factor));
    return e.add("Mul", {value, e.constant(std::move(scalar))});
  };
  ValueId y = e.add("MatMul", {operand(0, t.a), operand(1, t.b)});
  y = scaled(y, by.alpha);
  if (e.has(2) && by.beta != 0) y = e.add("Add", {y, scaled(e.in(2), by.beta)});
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
