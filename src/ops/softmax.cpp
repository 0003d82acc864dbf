// Softmax, LogSoftmax, Hardmax along one axis.

#include <algorithm>
#include <cmath>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/support.h"

namespace xc {

namespace {

void infer(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  normalise_axis(ctx.attrs().get_int("axis", -1), ctx.rank(0));
  infer_same(ctx);
}

/// Calls body(first, size, step) for every line along the axis of a row-major tensor.
template <class Body>
void for_each_line(const ReferenceContext& ctx, Body body) {
  const auto dims = ctx.inputs[0].dims;
  const size_t axis = normalise_axis(ctx.attrs().get_int("axis", -1), dims.size());
  const int64_t outer = product(dims, 0, axis), size = dims[axis];
  const int64_t step = product(dims, axis + 1, dims.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < step; ++i) body(o * size * step + i, size, step);
}

void reference_softmax(const ReferenceContext& ctx) {
  auto x = double_values(ctx.inputs[0]);
  for_each_line(ctx, [&](int64_t first, int64_t size, int64_t step) {
    const auto at = [&](int64_t k) -> double& { return x[static_cast<size_t>(first + k * step)]; };
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < size; ++k) top = std::max(top, at(k));
    for (int64_t k = 0; k < size; ++k) sum += at(k) = std::exp(at(k) - top);
    for (int64_t k = 0; k < size; ++k) at(k) /= sum;
  });
  write_dense(ctx.outputs[0], x);
}

void reference_log_softmax(const ReferenceContext& ctx) {
  auto x = double_values(ctx.inputs[0]);
  for_each_line(ctx, [&](int64_t first, int64_t size, int64_t step) {
    const auto at = [&](int64_t k) -> double& { return x[static_cast<size_t>(first + k * step)]; };
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < size; ++k) top = std::max(top, at(k));
    for (int64_t k = 0; k < size; ++k) sum += std::exp(at(k) - top);
    for (int64_t k = 0; k < size; ++k) at(k) = at(k) - top - std::log(sum);
  });
  write_dense(ctx.outputs[0], x);
}

/// One at the first largest element, zero elsewhere. NaN is larger than any number, as for ArgMax.
void reference_hardmax(const ReferenceContext& ctx) {
  const auto x = double_values(ctx.inputs[0]);
  std::vector<double> y(x.size(), 0.0);
  for_each_line(ctx, [&](int64_t first, int64_t size, int64_t step) {
    const auto below = [&](int64_t a, int64_t b) {
      const double u = x[static_cast<size_t>(a)], v = x[static_cast<size_t>(b)];
      return u < v || (std::isnan(v) && !std::isnan(u));
    };
    int64_t best = first;
    for (int64_t k = 1; k < size; ++k)
      if (below(best, first + k * step)) best = first + k * step;
    if (size > 0) y[static_cast<size_t>(best)] = 1;
  });
  write_dense(ctx.outputs[0], y);
}

/// x minus its maximum along the axis, in the working type. Where x has a NaN, the others need not
/// be NaN yet: the sum of their exponentials is.
ValueId shifted(Expansion& e, int64_t axis) {
  const ValueId x = e.widened(0);
  return e.add("Sub", {x, e.reduce("ReduceMaxNumber", x, {axis})});
}

std::vector<ValueId> expand_softmax(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t axis = node.attrs.get_int("axis", -1);
  const ValueId powers = e.add("ExpNormal", {shifted(e, axis)});
  // One division per row instead of one per element.
  const ValueId inverse = e.add("Reciprocal", {e.reduce("ReduceSum", powers, {axis})});
  return {e.narrowed(e.add("Mul", {powers, inverse}))};
}

std::vector<ValueId> expand_log_softmax(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t axis = node.attrs.get_int("axis", -1);
  const ValueId x = shifted(e, axis);
  // As a Softmax has it: a region of both has one.
  const ValueId sum = e.reduce("ReduceSum", e.add("ExpNormal", {x}), {axis});
  return {e.narrowed(e.add("Sub", {x, e.add("Log", {sum})}))};
}

/// A one where the first of the largest stands. None in a line of no elements: not expanded.
std::vector<ValueId> expand_hardmax(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const int64_t axis = node.attrs.get_int("axis", -1);
  if (!e.rank(0) || *e.rank(0) == 0) return {};
  const auto at = normalise_axis(axis, static_cast<size_t>(*e.rank(0)));
  const int64_t size = (*e.type(0).dims)[at].constant().value_or(0);
  if (size == 0) return {};
  Tensor off_on(e.dtype(0), {2});
  for (int64_t i = 0; i < 2; ++i)
    store_double(off_on.data(), e.dtype(0), i, static_cast<double>(i));
  const ValueId first = e.add("ArgMax", {e.in(0)}, {{"axis", axis}, {"keepdims", int64_t{0}}});
  return {
      e.add("OneHot", {first, e.ints({size}), e.constant(std::move(off_on))}, {{"axis", axis}})};
}

Dim flops_softmax(const Graph& graph, const Node& node) {
  const auto& dims = graph.value(node.inputs[0]).type.dims;
  return dims ? Dim(12) * element_count(*dims) : Dim(0);  // an exponential costs about 8 additions
}

OpDef row(std::string_view name, ReferenceFn reference, ExpandFn expand) {
  OpDef op;
  op.name = name;
  op.attrs = {{"axis", AttrKind::kInt}};
  op.infer = infer;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops_softmax;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_softmax(OpList& ops) {
  ops.push_back(row("Softmax", reference_softmax, expand_softmax));
  ops.push_back(row("LogSoftmax", reference_log_softmax, expand_log_softmax));
  OpDef hardmax = row("Hardmax", reference_hardmax, expand_hardmax);
  hardmax.tolerance = Tolerance::kExact;
  ops.push_back(std::move(hardmax));
}

}  // namespace xc
