// LpNormalization (along an axis), LRN (across channels), MeanVarianceNormalization (over axes).

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"

namespace xc {

namespace {

// ---- LpNormalization ----------------------------------------------------------------------------

void infer_lp(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  normalise_axis(ctx.attrs().get_int("axis", -1), ctx.rank(0));
  infer_same(ctx);
}

void reference_lp(const ReferenceContext& ctx) {
  const auto dims = ctx.inputs[0].dims;
  const size_t axis = normalise_axis(ctx.attrs().get_int("axis", -1), dims.size());
  const bool squares = ctx.attrs().get_int("p", 2) == 2;
  const int64_t size = dims[axis], step = product(dims, axis + 1, dims.size());
  auto x = double_values(ctx.inputs[0]);
  for (int64_t o = 0; o < product(dims, 0, axis); ++o)
    for (int64_t i = 0; i < step; ++i) {
      const auto at = [&](int64_t k) -> double& {
        return x[static_cast<size_t>((o * size + k) * step + i)];
      };
      double norm = 0;
      for (int64_t k = 0; k < size; ++k) norm += squares ? at(k) * at(k) : std::abs(at(k));
      if (squares) norm = std::sqrt(norm);
      for (int64_t k = 0; k < size && norm != 0; ++k) at(k) /= norm;
    }
  write_dense(ctx.outputs[0], x);
}

/// A norm of zero divides by one: its elements are all zero.
std::vector<ValueId> expand_lp(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const ValueId x = e.widened(0);
  const ValueId norm = e.reduce(node.attrs.get_int("p", 2) == 2 ? "ReduceL2" : "ReduceL1", x,
                                {node.attrs.get_int("axis", -1)});
  const ValueId zero = e.add("Equal", {norm, e.scalar(0)});
  return {e.narrowed(e.add("Div", {x, e.add("Where", {zero, e.scalar(1), norm})}))};
}

// ---- LRN ----------------------------------------------------------------------------------------

void infer_lrn(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  if (ctx.rank(0) < 2) ctx.error("input has rank {}, expected at least 2", ctx.rank(0));
  infer_same(ctx);
}

void reference_lrn(const ReferenceContext& ctx) {
  const auto dims = ctx.inputs[0].dims;
  const int64_t channels = dims[1], plane = product(dims, 2, dims.size());
  const int64_t size = ctx.attrs().get_int("size", 1);
  const double alpha = ctx.attrs().get_float("alpha", 1e-4) / static_cast<double>(size);
  const double beta = ctx.attrs().get_float("beta", 0.75);
  const double bias = ctx.attrs().get_float("bias", 1);
  const auto x = double_values(ctx.inputs[0]);
  std::vector<double> y;
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < plane; ++i) {
        const auto at = [&](int64_t k) {
          return x[static_cast<size_t>((n * channels + k) * plane + i)];
        };
        double squares = 0;
        const int64_t first = std::max<int64_t>(0, c - (size - 1) / 2);
        const int64_t last = std::min(channels - 1, c + size / 2);
        for (int64_t k = first; k <= last; ++k) squares += at(k) * at(k);
        y.push_back(at(c) / std::pow(bias + alpha * squares, beta));
      }
  write_dense(ctx.outputs[0], y);
}

constexpr int64_t kMostTerms = 16;  ///< of a sum that is written out

/// The sum of squares over a window of channels, as a sum of the padded squares moved by one
/// channel each.
std::vector<ValueId> expand_lrn(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t size = node.attrs.get_int("size", 1);
  if (!e.rank(0) || size > kMostTerms) return {};
  const ValueId x = e.widened(0), channels = e.ints({1});
  const ValueId padded =
      e.add("Pad", {e.add("Mul", {x, x}), e.ints({(size - 1) / 2, size / 2}), kNone, channels});
  ValueId sum = kNone;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t end = k + 1 < size ? k + 1 - size : INT64_MAX;
    const ValueId moved = e.add("Slice", {padded, e.ints({k}), e.ints({end}), channels});
    sum = k == 0 ? moved : e.add("Add", {sum, moved});
  }
  const double alpha = node.attrs.get_float("alpha", 1e-4) / static_cast<double>(size);
  const ValueId base = e.add(
      "Add", {e.add("Mul", {sum, e.scalar(alpha)}), e.scalar(node.attrs.get_float("bias", 1))});
  const ValueId divisor = e.add("Pow", {base, e.scalar(node.attrs.get_float("beta", 0.75))});
  return {e.narrowed(e.add("Div", {x, divisor}))};
}

// ---- MeanVarianceNormalization ------------------------------------------------------------------

/// Added to the deviation by the standard's function body.
constexpr double kDeviationFloor = 1e-9;

std::vector<int64_t> mvn_axes(const Node& node) {
  return node.attrs.get_ints("axes", {0, 2, 3});
}

void infer_mvn(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  normalise_axes(mvn_axes(*ctx.node), ctx.rank(0));
  infer_same(ctx);
}

void reference_mvn(const ReferenceContext& ctx) {
  const auto dims = ctx.inputs[0].dims;
  // Elements that share statistics have the same group: the coordinate without the axes.
  Dims strides = dims_of(ctx.inputs[0]);
  for (size_t axis : normalise_axes(mvn_axes(*ctx.node), dims.size())) strides[axis] = 1;
  const auto groups = static_cast<size_t>(element_count(strides));
  const Dims kept = strides;
  strides = contiguous_strides(kept);
  for (size_t i = 0; i < dims.size(); ++i)
    if (kept[i] == 1) strides[i] = 0;

  auto x = double_values(ctx.inputs[0]);
  std::vector<double> mean(groups), variance(groups);
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(std::max<size_t>(groups, 1));
  const auto each = [&](auto body) {
    size_t next = 0;
    for_each_offset<1>(dims, {strides},
                       [&](const auto& at) { body(x[next++], static_cast<size_t>(at[0])); });
  };
  each([&](double& v, size_t g) { mean[g] += v / count; });
  each([&](double& v, size_t g) { variance[g] += (v - mean[g]) * (v - mean[g]) / count; });
  each(
      [&](double& v, size_t g) { v = (v - mean[g]) / (std::sqrt(variance[g]) + kDeviationFloor); });
  write_dense(ctx.outputs[0], x);
}

std::vector<ValueId> expand_mvn(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto axes = mvn_axes(node);
  if (axes.empty()) return {};  // every element alone: reductions over no axes take all
  const ValueId x = e.widened(0);
  const ValueId centred = e.add("Sub", {x, e.reduce("ReduceMean", x, axes)});
  const ValueId variance = e.reduce("ReduceMean", e.add("Mul", {centred, centred}), axes);
  const ValueId deviation = e.add("Add", {e.add("Sqrt", {variance}), e.scalar(kDeviationFloor)});
  return {e.narrowed(e.add("Div", {centred, deviation}))};
}

OpDef norm(std::string_view name, InferFn infer, ReferenceFn reference, double weight) {
  OpDef op;
  op.name = name;
  op.infer = infer;
  op.reference = reference;
  op.weight = weight;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_other_norms(OpList& ops) {
  OpDef lp = norm("LpNormalization", infer_lp, reference_lp, 4);
  lp.attrs = {{"axis", AttrKind::kInt}, {"p", AttrKind::kInt, false, 1, 2}};
  lp.expand = expand_lp;
  ops.push_back(std::move(lp));

  OpDef lrn = norm("LRN", infer_lrn, reference_lrn, 24);
  lrn.attrs = {{"alpha", AttrKind::kFloat},
               {"beta", AttrKind::kFloat},
               {"bias", AttrKind::kFloat},
               {"size", AttrKind::kInt, true, 1, INT32_MAX}};
  lrn.expand = expand_lrn;
  ops.push_back(std::move(lrn));

  OpDef mvn = norm("MeanVarianceNormalization", infer_mvn, reference_mvn, 8);
  mvn.attrs = {{"axes", AttrKind::kInts}};
  mvn.expand = expand_mvn;
  ops.push_back(std::move(mvn));
}

}  // namespace xc
