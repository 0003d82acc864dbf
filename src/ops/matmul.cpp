// MatMul: numpy.matmul.

#include "ops/matmul.h"

#include <algorithm>

namespace xc {

SymDims infer_matmul(const InferContext& ctx, size_t a, size_t b) {
  SymDims left = ctx.dims(a), right = ctx.dims(b);
  if (left.empty() || right.empty())
    ctx.error("operands have ranks {} and {}, expected at least 1", left.size(), right.size());
  const bool left_vector = left.size() == 1, right_vector = right.size() == 1;
  if (left_vector) left.insert(left.begin(), 1);
  if (right_vector) right.push_back(1);
  const Dim m = left[left.size() - 2], n = right.back();
  if (known_different(left.back(), right[right.size() - 2]))
    ctx.error("operands {} and {} do not multiply: inner dims differ", to_text(ctx.dims(a)),
              to_text(ctx.dims(b)));
  left.resize(left.size() - 2);
  right.resize(right.size() - 2);
  SymDims out = broadcast_dims(left, right);
  if (!left_vector) out.push_back(m);
  if (!right_vector) out.push_back(n);
  return out;
}

MatMulShape matmul_shape(std::span<const int64_t> a, std::span<const int64_t> b) {
  Dims left(a.begin(), a.end()), right(b.begin(), b.end());
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  MatMulShape out;
  out.m = left[left.size() - 2];
  out.k = left.back();
  out.n = right.back();
  const size_t rank = std::max(left.size(), right.size()) - 2;
  // One axis of a row-major operand, counted from the innermost batch axis outwards.
  const auto batch_dim = [](const Dims& dims, size_t i) {
    return i + 2 < dims.size() ? dims[dims.size() - 3 - i] : 1;
  };
  out.batch.assign(rank, 1);
  out.a_strides.assign(rank, 0);
  out.b_strides.assign(rank, 0);
  int64_t a_stride = out.m * out.k, b_stride = out.k * out.n;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = rank - 1 - i;
    const int64_t da = batch_dim(left, i), db = batch_dim(right, i);
    out.batch[axis] = da == 1 ? db : da;
    out.a_strides[axis] = da == 1 ? 0 : a_stride;
    out.b_strides[axis] = db == 1 ? 0 : b_stride;
    a_stride *= da;
    b_stride *= db;
  }
  return out;
}

Dim matmul_flops(const Graph& graph, const Node& node, size_t a) {
  const auto& left = graph.value(node.inputs[a]).type.dims;
  const auto& out = graph.value(node.outputs[0]).type.dims;
  if (!left || !out || left->empty()) return 0;
  return Dim(2) * left->back() * element_count(*out);
}

namespace {

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kMatMulTypes);
  ctx.set(0, require_factors(ctx), infer_matmul(ctx, 0, 1));
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &a = ctx.inputs[0], &b = ctx.inputs[1];
  const MatMulShape shape = matmul_shape(a.dims, b.dims);
  if (is_float(a.dtype))
    write_dense(ctx.outputs[0], matmul(shape, double_values(a), double_values(b)));
  else
    write_wrapped(ctx.outputs[0], matmul(shape, read_wrapped(a), read_wrapped(b)));
}

Dim flops(const Graph& graph, const Node& node) {
  return matmul_flops(graph, node, 0);
}

}  // namespace

void register_matmul(OpList& ops) {
  OpDef op;
  op.name = "MatMul";
  op.min_inputs = op.max_inputs = 2;
  op.attrs = {kHeldIn, kLeftInBytes};
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kContraction;
  ops.push_back(std::move(op));
}

}  // namespace xc
