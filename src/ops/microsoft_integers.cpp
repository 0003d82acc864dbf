// DynamicQuantizeMatMul and MatMulIntegerToFloat of com.microsoft: products of 8-bit integers,
// scaled to floats, with a bias.

#include "ops/checks.h"
#include "ops/expansion.h"
#include "ops/matmul.h"
#include "ops/microsoft.h"

namespace xc {

namespace {

constexpr TypeSet kBytes = type_set({DType::kI8, DType::kU8});

/// One entry, or one per column of `of`.
void require_columns(const InferContext& ctx, size_t i, size_t of) {
  if (!ctx.has(i) || microsoft::has_one_entry(ctx, i)) return;
  if (ctx.rank(of) < 2) ctx.error("input {} has dims {}, expected one", i, to_text(ctx.dims(i)));
  require_vector(ctx, i, ctx.dims(of).back());
}

/// What both set: the product of `a` and `b`, in a float type; a bias has one entry per column.
void set_product(InferContext& ctx, size_t a, size_t b, size_t bias, DType type) {
  SymDims out = infer_matmul(ctx, a, b);
  if (ctx.has(bias)) {
    if (ctx.rank(b) < 2) ctx.error("a bias without columns to add it to");
    require_vector(ctx, bias, ctx.dims(b).back());
  }
  ctx.set(0, type, std::move(out));
}

/// The 32-bit sums times the scale, plus the bias, as f32.
ValueId scaled(Expansion& e, ValueId sums, ValueId scale, ValueId bias) {
  const ValueId y = e.add("Mul", {e.cast(sums, DType::kI32, DType::kF32), scale});
  return bias == kNone ? y : e.add("Add", {y, bias});
}

// ---- DynamicQuantizeMatMul ----------------------------------------------------------------------

namespace dynamic {

enum : size_t { kA, kB, kScale, kZero, kBias };

void infer(InferContext& ctx) {
  check_dtype(ctx, kA, type_set({DType::kF32}));
  check_dtype(ctx, kB, kBytes);
  check_dtype(ctx, kScale, type_set({DType::kF32}));
  require_same_dtype(ctx, kZero, kB);
  require_same_dtype(ctx, kBias);
  for (size_t i : {kScale, kZero}) require_columns(ctx, i, kB);
  set_product(ctx, kA, kB, kBias, DType::kF32);
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto a = e.add("DynamicQuantizeLinear", {e.in(kA)}, 3, {});
  const ValueId sums = e.add("MatMulInteger", {a[0], e.in(kB), a[2], e.optional(kZero)});
  return {scaled(e, sums, e.add("Mul", {a[1], e.in(kScale)}), e.optional(kBias))};
}

}  // namespace dynamic

// ---- MatMulIntegerToFloat -----------------------------------------------------------------------

namespace to_float {

enum : size_t { kA, kB, kAScale, kBScale, kAZero, kBZero, kBias };

void infer(InferContext& ctx) {
  check_dtype(ctx, kA, kBytes);
  check_dtype(ctx, kB, kBytes);
  check_dtype(ctx, kAScale, type_set({DType::kF32, DType::kF16}));
  require_same_dtype(ctx, kBScale, kAScale);
  require_same_dtype(ctx, kAZero, kA);
  require_same_dtype(ctx, kBZero, kB);
  require_same_dtype(ctx, kBias, kAScale);
  for (size_t i : {kAScale, kAZero}) microsoft::require_one(ctx, i);
  for (size_t i : {kBScale, kBZero}) require_columns(ctx, i, kB);
  set_product(ctx, kA, kB, kBias, ctx.dtype(kAScale));
}

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const DType type = e.dtype(kAScale);
  const auto widened = [&](size_t i) {
    return e.has(i) ? e.cast(e.in(i), type, DType::kF32) : ValueId{kNone};
  };
  const ValueId sums =
      e.add("MatMulInteger", {e.in(kA), e.in(kB), e.optional(kAZero), e.optional(kBZero)});
  const ValueId scale = e.add("Mul", {widened(kAScale), widened(kBScale)});
  return {e.cast(scaled(e, sums, scale, widened(kBias)), DType::kF32, type)};
}

}  // namespace to_float

Dim flops(const Graph& graph, const Node& node) {
  return matmul_flops(graph, node, 0);
}

}  // namespace

void register_microsoft_integers(OpList& ops) {
  OpDef to_bytes =
      microsoft::op("com.microsoft::DynamicQuantizeMatMul", 3, 5, dynamic::infer, dynamic::expand);
  to_bytes.flops = flops;
  ops.push_back(std::move(to_bytes));
  OpDef of_bytes =
      microsoft::op("com.microsoft::MatMulIntegerToFloat", 4, 7, to_float::infer, to_float::expand);
  of_bytes.flops = flops;
  ops.push_back(std::move(of_bytes));
}

}  // namespace xc
