// LayerNormalization and RMSNormalization: statistics over the axes from `axis` to the last.

#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/support.h"

namespace xc {

namespace {

constexpr double kDefaultEpsilon = 1e-5;

size_t first_axis(const Node& node, size_t rank) {
  return normalise_axis(node.attrs.get_int("axis", -1), rank);
}

/// Input i broadcasts to the dims of input 0 without changing them.
void require_broadcast_to_x(const InferContext& ctx, size_t i) {
  if (!ctx.has(i)) return;
  const SymDims &x = ctx.dims(0), &s = ctx.dims(i);
  bool fits = s.size() <= x.size();
  for (size_t k = 0; fits && k < s.size(); ++k)
    fits = s[k] == Dim(1) || !known_different(s[k], x[x.size() - s.size() + k]);
  if (!fits) ctx.error("input {} has dims {}, not broadcast to {}", i, to_text(s), to_text(x));
}

/// The type of the statistics.
DType stash_type(const Node& node) {
  const DType type = dtype_attr(node.attrs.get_int("stash_type", 1));
  if (!contains(kFloats, type))
    fail(Status::kInvalidModel, "attribute 'stash_type' is {}, expected a float", name(type));
  return type;
}

void infer_layer_norm(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  require_same_dtype(ctx, 2);
  const size_t axis = first_axis(*ctx.node, ctx.rank(0));
  require_broadcast_to_x(ctx, 1);
  require_broadcast_to_x(ctx, 2);
  SymDims statistics = ctx.dims(0);
  for (size_t i = axis; i < statistics.size(); ++i) statistics[i] = 1;
  const DType stash = stash_type(*ctx.node);
  ctx.set(0, ctx.dtype(0), ctx.dims(0));
  ctx.set(1, stash, statistics);
  ctx.set(2, stash, statistics);
}

void infer_rms_norm(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  check_dtype(ctx, 1, kFloats);
  stash_type(*ctx.node);
  first_axis(*ctx.node, ctx.rank(0));
  require_broadcast_to_x(ctx, 1);
  ctx.set(0, ctx.dtype(1), ctx.dims(0));
}

/// y = y * scale + shift, both broadcast; `shift` may be absent.
void affine(std::vector<double>& y, std::span<const int64_t> dims, const TensorView& scale,
            const TensorView& shift) {
  const Dims scale_strides = broadcast_strides(scale, dims);
  const Dims shift_strides = shift ? broadcast_strides(shift, dims) : Dims(dims.size(), 0);
  size_t next = 0;
  for_each_offset<2>(dims, {scale_strides, shift_strides}, [&](const auto& at) {
    double& v = y[next++];
    v *= load_double(scale.data, scale.dtype, at[0]);
    if (shift) v += load_double(shift.data, shift.dtype, at[1]);
  });
}

void reference_layer_norm(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto dims = ctx.inputs[0].dims;
  const size_t axis = first_axis(*ctx.node, dims.size());
  const int64_t rows = product(dims, 0, axis), size = product(dims, axis, dims.size());
  const double epsilon = ctx.attrs().get_float("epsilon", kDefaultEpsilon);
  auto x = double_values(ctx.inputs[0]);
  std::vector<double> means, inverses;
  for (int64_t r = 0; r < rows; ++r) {
    const std::span<double> row(x.data() + r * size, static_cast<size_t>(size));
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(size);
    double variance = 0;
    for (double v : row) variance += (v - mean) * (v - mean);
    const double inverse = 1 / std::sqrt(variance / static_cast<double>(size) + epsilon);
    for (double& v : row) v = (v - mean) * inverse;
    means.push_back(mean);
    inverses.push_back(inverse);
  }
  affine(x, dims, ctx.inputs[1], ctx.has(2) ? ctx.inputs[2] : TensorView{});
  write_dense(ctx.outputs[0], x);
  if (ctx.outputs.size() > 1) write_dense(ctx.outputs[1], means);
  if (ctx.outputs.size() > 2) write_dense(ctx.outputs[2], inverses);
}

void reference_rms_norm(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto dims = ctx.inputs[0].dims;
  const size_t axis = first_axis(*ctx.node, dims.size());
  const int64_t rows = product(dims, 0, axis), size = product(dims, axis, dims.size());
  const double epsilon = ctx.attrs().get_float("epsilon", kDefaultEpsilon);
  auto x = double_values(ctx.inputs[0]);
  for (int64_t r = 0; r < rows; ++r) {
    const std::span<double> row(x.data() + r * size, static_cast<size_t>(size));
    const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + epsilon);
    for (double& v : row) v *= inverse;
  }
  affine(x, dims, ctx.inputs[1], {});
  write_dense(ctx.outputs[0], x);
}

/// The normalised axes of input 0; nullopt when its rank is not known.
std::optional<std::vector<int64_t>> normalised_axes(const Expansion& e, const Node& node) {
  if (!e.rank(0)) return std::nullopt;
  const auto rank = static_cast<size_t>(*e.rank(0));
  std::vector<int64_t> axes(rank - first_axis(node, rank));
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(rank - axes.size()));
  return axes;
}

/// 1 / sqrt(mean(x * x) + epsilon) over `axes`.
ValueId inverse_deviation(Expansion& e, const Node& node, ValueId x,
                          const std::vector<int64_t>& axes) {
  const ValueId variance = e.reduce("ReduceMean", e.add("Mul", {x, x}), axes);
  const double epsilon = node.attrs.get_float("epsilon", kDefaultEpsilon);
  return e.add("Reciprocal", {e.add("Sqrt", {e.add("Add", {variance, e.scalar(epsilon)})})});
}

std::vector<ValueId> expand_layer_norm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto axes = normalised_axes(e, node);
  if (!axes) return {};
  const ValueId x = e.widened(0);
  const ValueId mean = e.reduce("ReduceMean", x, *axes);
  const ValueId centred = e.add("Sub", {x, mean});
  const ValueId inverse = inverse_deviation(e, node, centred, *axes);
  ValueId y = e.add("Mul", {e.add("Mul", {centred, inverse}), e.widened(1)});
  if (e.has(2)) y = e.add("Add", {y, e.widened(2)});
  std::vector<ValueId> out{e.narrowed(y)};
  const DType stash = stash_type(node);
  if (node.outputs.size() > 1) out.push_back(e.cast(mean, e.working(), stash));
  if (node.outputs.size() > 2) out.push_back(e.cast(inverse, e.working(), stash));
  return out;
}

std::vector<ValueId> expand_rms_norm(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto axes = normalised_axes(e, node);
  if (!axes) return {};
  const ValueId x = e.widened(0);
  const ValueId y = e.add("Mul", {x, inverse_deviation(e, node, x, *axes)});
  return {e.narrowed(e.add("Mul", {y, e.widened(1)}), 1)};
}

Dim flops_norm(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  return dims ? Dim(8) * element_count(*dims) : Dim(0);
}

OpDef norm(std::string_view name, InferFn infer, ReferenceFn reference, ExpandFn expand) {
  OpDef op;
  op.name = name;
  op.min_inputs = op.max_inputs = 2;
  op.attrs = {{"axis", AttrKind::kInt}, {"epsilon", AttrKind::kFloat}, dtype_spec("stash_type")};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops_norm;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_layer_norm(OpList& ops) {
  OpDef layer =
      norm("LayerNormalization", infer_layer_norm, reference_layer_norm, expand_layer_norm);
  layer.max_inputs = 3;
  layer.max_outputs = 3;
  ops.push_back(std::move(layer));
  ops.push_back(norm("RMSNormalization", infer_rms_norm, reference_rms_norm, expand_rms_norm));
}

}  // namespace xc
