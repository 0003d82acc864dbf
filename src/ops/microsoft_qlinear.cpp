// Operators of com.microsoft that onnxruntime's static quantiser writes in QOperator format: each
// takes quantised operands with scale and zero point and gives a quantised result. They are what
// they say: dequantised, computed, quantised, which fuses into one pass over the bytes; products
// become integer products (passes/fuse_quantised.cpp).

#include <algorithm>
#include <array>

#include "ops/checks.h"
#include "ops/elementwise_table.h"
#include "ops/expansion.h"
#include "ops/microsoft.h"
#include "ops/window.h"

namespace xc {

using microsoft::channels_first;
using microsoft::channels_last;
using microsoft::scalar_of;

namespace {

constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});
constexpr TypeSet kScale = type_set({DType::kF32});

/// A quantised operand: input `tensor`, followed by its scale and zero point, which may be absent.
struct Operand {
  size_t tensor;
  size_t scale() const { return tensor + 1; }
  size_t zero() const { return tensor + 2; }
};

/// A scale and a zero point of one element each: scalars or vectors.
void check_quantum(const InferContext& ctx, size_t scale, size_t zero, size_t tensor) {
  check_dtype(ctx, scale, kScale);
  require_same_dtype(ctx, zero, tensor);
  for (size_t i : {scale, zero}) microsoft::require_one(ctx, i);
}

void check_operand(const InferContext& ctx, Operand a) {
  check_dtype(ctx, a.tensor, kBytes);
  check_quantum(ctx, a.scale(), a.zero(), a.tensor);
}

ValueId dequantised(Expansion& e, Operand a) {
  return e.add("DequantizeLinear",
               {e.in(a.tensor), scalar_of(e, a.scale()), scalar_of(e, a.zero())});
}

/// Quantised by the inputs `scale` and `zero` (absent: 0) to `type`.
ValueId quantised(Expansion& e, ValueId y, size_t scale, size_t zero, DType type) {
  ValueId point = scalar_of(e, zero);
  if (point == kNone) {
    Tensor none(type, {});
    *none.as<uint8_t>() = 0;
    point = e.constant(std::move(none));
  }
  return e.add("QuantizeLinear", {y, scalar_of(e, scale), point});
}

// ---- elementwise --------------------------------------------------------------------------------

namespace binary {

constexpr Operand kA{0}, kB{3};
constexpr size_t kYScale = 6, kYZero = 7;

void infer(InferContext& ctx) {
  for (size_t i : {kB.zero(), kYZero}) check_dtype(ctx, i, kBytes);
  check_dtype(ctx, kYScale, kScale);
  check_operand(ctx, kA);
  check_operand(ctx, kB);
  require_same_dtype(ctx, kB.tensor, kA.tensor);
  check_quantum(ctx, kYScale, kYZero, kA.tensor);
  ctx.set(0, ctx.dtype(0), broadcast_dims(ctx.dims(kA.tensor), ctx.dims(kB.tensor)));
}

template <const char* Op>
std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const ValueId y = e.add(Op, {dequantised(e, kA), dequantised(e, kB)});
  return {quantised(e, y, kYScale, kYZero, e.dtype(kA.tensor))};
}

constexpr char kAdd[] = "Add", kMul[] = "Mul";

}  // namespace binary

namespace unary {

constexpr Operand kX{0};
constexpr size_t kYScale = 3, kYZero = 4;

void infer(InferContext& ctx) {
  check_operand(ctx, kX);
  check_quantum(ctx, kYScale, kYZero, kX.tensor);
  infer_same(ctx);
}

std::vector<ValueId> result(Expansion& e, ValueId y) {
  return {quantised(e, y, kYScale, kYZero, e.dtype(kX.tensor))};
}

std::vector<ValueId> expand_sigmoid(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return result(e, e.add("Sigmoid", {dequantised(e, kX)}));
}

std::vector<ValueId> expand_leaky(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return result(e, e.add("LeakyRelu", {dequantised(e, kX)},
                         {{"alpha", node.attrs.get_float("alpha", 0.01f)}}));
}

// Softmax has its axis, or from opset 13 on flattens no more; `opset` says which it means.
void infer_softmax(InferContext& ctx) {
  normalise_axis(ctx.attrs().get_int("axis", -1), ctx.rank(0));
  infer(ctx);
}

std::vector<ValueId> expand_softmax(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t axis = node.attrs.get_int("axis", -1);
  const bool flattened = node.attrs.get_int("opset", 13) < 13;
  ValueId x = dequantised(e, kX);
  if (!flattened) return result(e, e.add("Softmax", {x}, {{"axis", axis}}));
  x = e.add("Softmax", {e.add("Flatten", {x}, {{"axis", axis}})}, {{"axis", int64_t{1}}});
  return result(
      e, e.add("Reshape", {x, e.add("Shape", {e.in(kX.tensor)})}, {{"allowzero", int64_t{1}}}));
}

// ---- pooling ------------------------------------------------------------------------------------

/// The dims are those of the pooling of floats.
template <const char* Op>
void infer_pool(InferContext& ctx) {
  check_operand(ctx, kX);
  check_quantum(ctx, kYScale, kYZero, kX.tensor);
  const bool last = microsoft::lies_last(*ctx.node);
  const SymDims& x = ctx.dims(kX.tensor);
  const SymDims y =
      *microsoft::inferred_dims(ctx, Op, {Type::tensor(DType::kF32, last ? channels_first(x) : x)});
  ctx.set(0, ctx.dtype(0), last ? channels_last(y) : y);
}

template <const char* Op>
std::vector<ValueId> expand_pool(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const bool last = microsoft::lies_last(node);
  if (last && !e.rank(kX.tensor)) return {};
  Expansion::AttrList attrs;
  for (const auto& [name, value] : node.attrs.entries())
    if (name != "channels_last") attrs.emplace_back(name, value);
  ValueId x = dequantised(e, kX);
  if (last) x = channels_first(e, x, *e.rank(kX.tensor));
  const ValueId y = result(e, e.add(Op, {x}, attrs)).front();
  return {last ? channels_last(e, y, *e.rank(kX.tensor)) : y};
}

constexpr char kAverage[] = "AveragePool", kGlobal[] = "GlobalAveragePool";

// ---- QLinearReduceMean --------------------------------------------------------------------------

void infer_mean(InferContext& ctx) {
  check_operand(ctx, kX);
  check_quantum(ctx, kYScale, kYZero, kX.tensor);
  const SymDims& x = ctx.dims(kX.tensor);
  const auto axes = normalise_axes(ctx.attrs().get_ints("axes"), x.size());
  const bool keep = ctx.attrs().get_int("keepdims", 1) != 0;
  SymDims out;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool folded = axes.empty() || std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!folded)
      out.push_back(x[i]);
    else if (keep)
      out.push_back(1);
  }
  ctx.set(0, ctx.dtype(kX.tensor), std::move(out));
}

std::vector<ValueId> expand_mean(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  return result(e, e.add("ReduceMean", {dequantised(e, kX), e.ints(node.attrs.get_ints("axes"))},
                         {{"keepdims", node.attrs.get_int("keepdims", 1)}}));
}

}  // namespace unary

// ---- QLinearWhere -------------------------------------------------------------------------------

namespace where {

constexpr size_t kCondition = 0, kZScale = 7, kZZero = 8;
constexpr Operand kX{1}, kY{4};

void infer(InferContext& ctx) {
  check_dtype(ctx, kCondition, kBools);
  for (size_t i : {kX.zero(), kY.zero(), kZZero}) check_dtype(ctx, i, kBytes);
  check_dtype(ctx, kZScale, kScale);
  check_operand(ctx, kX);
  check_operand(ctx, kY);
  require_same_dtype(ctx, kY.tensor, kX.tensor);
  check_quantum(ctx, kZScale, kZZero, kX.tensor);
  const std::array<SymDims, 3> dims{ctx.dims(kCondition), ctx.dims(kX.tensor), ctx.dims(kY.tensor)};
  ctx.set(0, ctx.dtype(kX.tensor), broadcast_dims(dims));
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const ValueId z = e.add("Where", {e.in(kCondition), dequantised(e, kX), dequantised(e, kY)});
  return {quantised(e, z, kZScale, kZZero, e.dtype(kX.tensor))};
}

}  // namespace where

// ---- QLinearConcat ------------------------------------------------------------------------------

namespace concat {

// The result's scale and zero point, then operands of three inputs each.
constexpr size_t kYScale = 0, kYZero = 1, kFirst = 2;

void infer(InferContext& ctx) {
  check_dtype(ctx, kYScale, kScale);
  check_dtype(ctx, kYZero, kBytes);
  for (size_t k = kFirst; k < ctx.input_count(); k += 3) check_dtype(ctx, k, kBytes);
  if (ctx.input_count() < kFirst + 3 || (ctx.input_count() - kFirst) % 3 != 0)
    ctx.error("{} inputs, expected a scale, a zero point and three per operand", ctx.input_count());
  check_quantum(ctx, kYScale, kYZero, kYZero);
  std::vector<Type> types;
  for (size_t i = kFirst; i < ctx.input_count(); i += 3) {
    check_operand(ctx, {i});
    require_same_dtype(ctx, i, kYZero);
    types.push_back(ctx.type(i));
  }
  const auto out = microsoft::inferred_dims(ctx, "Concat", types);
  if (!out) return set_unknown_rank(ctx, 0, ctx.dtype(kYZero));
  ctx.set(0, ctx.dtype(kYZero), *out);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  std::vector<ValueId> parts;
  for (size_t i = kFirst; i < node.inputs.size(); i += 3) parts.push_back(dequantised(e, {i}));
  const ValueId y = e.add("Concat", parts, {{"axis", node.attrs.get_int("axis", 0)}});
  return {quantised(e, y, kYScale, kYZero, e.dtype(kYZero))};
}

}  // namespace concat

// ---- QGemm --------------------------------------------------------------------------------------

namespace gemm {

// a, b (scale and zero point per tensor or per column), c (i32, of scale alpha * a_scale *
// b_scale), the result's scale and zero point: without them it is a float.
constexpr Operand kA{0}, kB{3};
constexpr size_t kC = 6, kYScale = 7, kYZero = 8;

void infer(InferContext& ctx) {
  for (size_t i : {kB.zero(), kYZero}) check_dtype(ctx, i, kBytes);
  for (size_t i : {kB.scale(), kYScale}) check_dtype(ctx, i, kScale);
  check_dtype(ctx, kC, type_set({DType::kI32}));
  check_operand(ctx, kA);
  check_dtype(ctx, kB.tensor, kBytes);
  require_same_dtype(ctx, kB.zero(), kB.tensor);
  if (ctx.has(kYScale) != ctx.has(kYZero))
    ctx.error("y_scale and y_zero_point come together or not at all");
  // The dims are those of the product of floats.
  std::vector<Type> types;
  for (size_t i : {kA.tensor, kB.tensor, kC})
    if (ctx.has(i)) types.push_back(Type::tensor(DType::kF32, ctx.dims(i)));
  const SymDims out = *microsoft::inferred_dims(ctx, "Gemm", types);
  for (size_t i : {kB.scale(), kB.zero()})
    if (ctx.has(i) && !microsoft::has_one_entry(ctx, i)) require_vector(ctx, i, out[1]);
  if (ctx.has(kYScale)) check_quantum(ctx, kYScale, kYZero, kYZero);
  ctx.set(0, ctx.has(kYZero) ? ctx.dtype(kYZero) : DType::kF32, out);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto turned = [&](size_t i, const char* attr) {
    return node.attrs.get_int(attr, 0) != 0 ? e.transposed(e.in(i), {1, 0}) : e.in(i);
  };
  ValueId y = e.add("MatMulInteger", {turned(kA.tensor, "transA"), turned(kB.tensor, "transB"),
                                      scalar_of(e, kA.zero()), e.optional(kB.zero())});
  if (e.has(kC)) y = e.add("Add", {y, e.in(kC)});
  Tensor alpha(DType::kF32, {});
  *alpha.as<float>() = static_cast<float>(node.attrs.get_float("alpha", 1));
  const ValueId a_scale = e.add("Mul", {scalar_of(e, kA.scale()), e.constant(std::move(alpha))});
  const ValueId scale = e.add("Mul", {a_scale, e.in(kB.scale())});
  y = e.add("Mul", {e.cast(y, DType::kI32, DType::kF32), scale});
  if (!e.has(kYScale)) return {y};
  return {quantised(e, y, kYScale, kYZero, e.dtype(kYZero))};
}

}  // namespace gemm

OpDef rounded(OpDef op) {
  op.tolerance = Tolerance::kElementwise;
  return op;
}

}  // namespace

void register_microsoft_qlinear(OpList& ops) {
  using microsoft::op;
  // Zero points may be absent between inputs that may not: inference asks for those.
  const auto add = [&](OpDef one) { ops.push_back(rounded(std::move(one))); };
  add(op("com.microsoft::QLinearAdd", 2, 8, binary::infer, binary::expand<binary::kAdd>));
  add(op("com.microsoft::QLinearMul", 2, 8, binary::infer, binary::expand<binary::kMul>));
  add(op("com.microsoft::QLinearSigmoid", 2, 5, unary::infer, unary::expand_sigmoid));
  add(op("com.microsoft::QLinearLeakyRelu", 2, 5, unary::infer, unary::expand_leaky,
         {elementwise::float_attr("alpha", 0.01f)}));
  add(op("com.microsoft::QLinearSoftmax", 2, 5, unary::infer_softmax, unary::expand_softmax,
         {{"axis", AttrKind::kInt}, {"opset", AttrKind::kInt, true, 1, INT32_MAX}}));
  const AttrSpec lies_last = microsoft::flag("channels_last");
  std::vector<AttrSpec> window = window_attr_specs(/*kernel_required=*/true);
  window.push_back(lies_last);
  window.push_back(microsoft::flag("ceil_mode"));
  window.push_back(microsoft::flag("count_include_pad"));
  add(op("com.microsoft::QLinearAveragePool", 2, 5, unary::infer_pool<unary::kAverage>,
         unary::expand_pool<unary::kAverage>, window));
  add(op("com.microsoft::QLinearGlobalAveragePool", 2, 5, unary::infer_pool<unary::kGlobal>,
         unary::expand_pool<unary::kGlobal>, {lies_last}));
  add(op("com.microsoft::QLinearReduceMean", 2, 5, unary::infer_mean, unary::expand_mean,
         {{"axes", AttrKind::kInts, true}, {"keepdims", AttrKind::kInt, true, 0, 1}}));
  add(op("com.microsoft::QLinearWhere", 3, 9, where::infer, where::expand));
  add(op("com.microsoft::QLinearConcat", 3, -1, concat::infer, concat::expand,
         {{"axis", AttrKind::kInt, true}}));
  add(op("com.microsoft::QGemm", 2, 9, gemm::infer, gemm::expand,
         {{"alpha", AttrKind::kFloat}, microsoft::flag("transA"), microsoft::flag("transB")}));
}

}  // namespace xc
