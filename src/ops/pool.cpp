// MaxPool, AveragePool, LpPool: windows over spatial axes; and their forms over whole planes,
// GlobalMaxPool, GlobalAveragePool, GlobalLpPool, which are reductions.

#include <cmath>
#include <numeric>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/expansion.h"
#include "ops/window.h"

namespace xc {

namespace {

constexpr TypeSet kMaxPoolTypes = kFloats | type_set({DType::kI8, DType::kU8});

SymDims infer_pool_dims(const InferContext& ctx) {
  const SymDims& x = ctx.dims(0);
  if (x.size() < 3) ctx.error("input has rank {}, expected at least 3", x.size());
  const WindowAttrs window = window_attrs(*ctx.node, x.size() - 2);
  if (window.kernel.empty()) ctx.error("attribute 'kernel_shape' is empty");
  SymDims out{x[0], x[1]};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    // Padding as wide as the kernel would make windows without a single element.
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    if (window.pads_begin[i] >= extent || window.pads_end[i] >= extent)
      ctx.error("padding {} and {} of a window that spans {} (spatial axis {})",
                window.pads_begin[i], window.pads_end[i], extent, i);
    out.push_back(window_output(window, i, x[i + 2], window.kernel[i]));
  }
  return out;
}

void infer_pool(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  ctx.set(0, ctx.dtype(0), infer_pool_dims(ctx));
}

void infer_max_pool(InferContext& ctx) {
  check_dtype(ctx, 0, kMaxPoolTypes);
  const SymDims out = infer_pool_dims(ctx);
  ctx.set(0, ctx.dtype(0), out);
  ctx.set(1, DType::kI64, out);
}

/// Calls body(plane, window) for every output element in row-major order. `plane` points at the
/// channel's elements, window(visit) calls visit(d, h, w) for every window position inside it.
struct Walk {
  std::array<WindowAxis, 3> axes;
  int64_t planes;
  std::vector<double> x;

  explicit Walk(const ReferenceContext& ctx) {
    check_shapes(ctx);
    const TensorView &in = ctx.inputs[0], &out = ctx.outputs[0] ? ctx.outputs[0] : ctx.outputs[1];
    const WindowAttrs window = window_attrs(*ctx.node, in.dims.size() - 2);
    axes = window_axes_3d(window_axes(window, in.dims, window.kernel, out.dims));
    planes = in.dims[0] * in.dims[1];
    x = double_values(in);
  }

  template <class Body>
  void run(Body body) const {
    const auto& [d, h, w] = axes;
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t od = 0; od < d.output; ++od)
        for (int64_t oh = 0; oh < h.output; ++oh)
          for (int64_t ow = 0; ow < w.output; ++ow) body(p, od, oh, ow);
  }
  /// visit(value, index in the plane's d, h, w) for window positions that are not padding.
  template <class Visit>
  void window(int64_t p, int64_t od, int64_t oh, int64_t ow, Visit visit) const {
    const auto& [d, h, w] = axes;
    const RowRange in_d = d.positions(od, 0, d.input), in_h = h.positions(oh, 0, h.input),
                   in_w = w.positions(ow, 0, w.input);
    for (int64_t kd = in_d.begin; kd < in_d.end; ++kd)
      for (int64_t kh = in_h.begin; kh < in_h.end; ++kh)
        for (int64_t kw = in_w.begin; kw < in_w.end; ++kw) {
          const int64_t id = d.at(od, kd), ih = h.at(oh, kh), iw = w.at(ow, kw);
          const int64_t at = ((p * d.input + id) * h.input + ih) * w.input + iw;
          visit(x[static_cast<size_t>(at)], id, ih, iw);
        }
  }
};

void reference_max_pool(const ReferenceContext& ctx) {
  const Walk walk(ctx);
  const auto& [d, h, w] = walk.axes;
  const bool column_major = ctx.attrs().get_int("storage_order", 0) != 0;
  std::vector<double> y;
  std::vector<int64_t> indices;
  walk.run([&](int64_t p, int64_t od, int64_t oh, int64_t ow) {
    double best = -std::numeric_limits<double>::infinity();
    int64_t where = -1;
    walk.window(p, od, oh, ow, [&](double v, int64_t id, int64_t ih, int64_t iw) {
      if (!(v > best) && where >= 0 && !(std::isnan(v) && !std::isnan(best))) return;
      best = v;
      where =
          column_major ? (iw * h.input + ih) * d.input + id : (id * h.input + ih) * w.input + iw;
    });
    y.push_back(best);
    indices.push_back(where < 0 ? -1 : p * d.input * h.input * w.input + where);
  });
  write_dense(ctx.outputs[0], y);
  if (ctx.outputs.size() > 1) write_ints(ctx.outputs[1], indices);
}

void reference_average_pool(const ReferenceContext& ctx) {
  const Walk walk(ctx);
  const bool include_pad = ctx.attrs().get_int("count_include_pad", 0) != 0;
  // Positions of one window inside the padded input; a ceil-mode window may reach beyond it.
  const auto padded = [](const WindowAxis& axis, int64_t o) {
    return static_cast<double>(axis.positions(o, axis.at(o, 0), axis.input + axis.pad_end).end);
  };
  std::vector<double> y;
  walk.run([&](int64_t p, int64_t od, int64_t oh, int64_t ow) {
    double sum = 0;
    double count = 0;
    walk.window(p, od, oh, ow, [&](double v, int64_t, int64_t, int64_t) {
      sum += v;
      ++count;
    });
    if (include_pad)
      count = padded(walk.axes[0], od) * padded(walk.axes[1], oh) * padded(walk.axes[2], ow);
    y.push_back(count > 0 ? sum / count : 0.0);
  });
  write_dense(ctx.outputs[0], y);
}

void reference_lp_pool(const ReferenceContext& ctx) {
  const Walk walk(ctx);
  const auto order = static_cast<double>(ctx.attrs().get_int("p", 2));
  std::vector<double> y;
  walk.run([&](int64_t p, int64_t od, int64_t oh, int64_t ow) {
    double sum = 0;
    walk.window(p, od, oh, ow,
                [&](double v, int64_t, int64_t, int64_t) { sum += std::pow(std::abs(v), order); });
    y.push_back(std::pow(sum, 1 / order));
  });
  write_dense(ctx.outputs[0], y);
}

Dim flops_pool(const Graph& graph, const Node& node) {
  const ValueId shaped = node.outputs[0] != kNone ? node.outputs[0] : node.outputs[1];
  const auto& out = graph.value(shaped).type.dims;
  if (!out) return 0;
  Dim per_output(1);
  for (int64_t k : node.attrs.get_ints("kernel_shape")) per_output = per_output * k;
  return per_output * element_count(*out);
}

// ---- whole planes -------------------------------------------------------------------------------

void infer_global(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  SymDims out = ctx.dims(0);
  if (out.size() < 2) ctx.error("input has rank {}, expected at least 2", out.size());
  for (size_t i = 2; i < out.size(); ++i) {
    if (out[i] == Dim(0)) ctx.error("input {} has an empty plane", to_text(ctx.dims(0)));
    out[i] = 1;
  }
  ctx.set(0, ctx.dtype(0), std::move(out));
}

/// y[plane] = finish(fold over the plane's elements from `start`, element count).
template <class Fold, class Finish>
void reduce_planes(const ReferenceContext& ctx, double start, Fold fold, Finish finish) {
  const auto x = double_values(ctx.inputs[0]);
  const auto planes = static_cast<size_t>(ctx.inputs[0].dims[0] * ctx.inputs[0].dims[1]);
  std::vector<double> y;
  for (size_t p = 0, size = planes ? x.size() / planes : 0; p < planes; ++p) {
    const auto* plane = x.data() + p * size;
    y.push_back(
        finish(std::accumulate(plane, plane + size, start, fold), static_cast<double>(size)));
  }
  write_dense(ctx.outputs[0], y);
}

void reference_global_average(const ReferenceContext& ctx) {
  reduce_planes(ctx, 0, std::plus<>(), [](double sum, double count) { return sum / count; });
}

void reference_global_max(const ReferenceContext& ctx) {
  reduce_planes(
      ctx, -std::numeric_limits<double>::infinity(),
      [](double a, double b) { return b > a || std::isnan(b) ? b : a; },
      [](double best, double) { return best; });
}

void reference_global_lp(const ReferenceContext& ctx) {
  const auto order = static_cast<double>(ctx.attrs().get_int("p", 2));
  reduce_planes(
      ctx, 0, [&](double a, double b) { return a + std::pow(std::abs(b), order); },
      [&](double sum, double) { return std::pow(sum, 1 / order); });
}

std::vector<int64_t> plane_axes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

std::vector<ValueId> expand_global(const Graph& graph, const Node& node, Patch& patch,
                                   std::string_view reduction) {
  Expansion e(graph, node, patch);
  if (!e.rank(0) || *e.rank(0) < 3) return {};
  return {e.narrowed(e.reduce(reduction, e.widened(0), plane_axes(*e.rank(0))))};
}
std::vector<ValueId> expand_global_average(const Graph& g, const Node& n, Patch& p) {
  return expand_global(g, n, p, "ReduceMean");
}
std::vector<ValueId> expand_global_max(const Graph& g, const Node& n, Patch& p) {
  return expand_global(g, n, p, "ReduceMax");
}
ValueId power(Expansion& e, ValueId v, double by) {
  if (by == 1) return v;
  if (by == 2) return e.add("Mul", {v, v});
  if (by == 0.5) return e.add("Sqrt", {v});
  return e.add("Pow", {v, e.scalar(by)});
}
/// |x| to a power, of a working input 0.
ValueId power_of_magnitude(Expansion& e, double by) {
  return power(e, by == 2 ? e.widened(0) : e.add("Abs", {e.widened(0)}), by);
}

std::vector<ValueId> expand_global_lp(const Graph& g, const Node& n, Patch& p) {
  const int64_t order = n.attrs.get_int("p", 2);
  if (order == 1 || order == 2) return expand_global(g, n, p, order == 1 ? "ReduceL1" : "ReduceL2");
  Expansion e(g, n, p);
  if (!e.rank(0) || *e.rank(0) < 3) return {};
  const auto by = static_cast<double>(order);
  const ValueId sum = e.reduce("ReduceSum", power_of_magnitude(e, by), plane_axes(*e.rank(0)));
  return {e.narrowed(power(e, sum, 1 / by))};
}

/// Padding, begin and end, with which windows of a pooling operator of ceil_mode all lie inside;
/// empty where that depends on sizes that are not known.
std::vector<int64_t> covering_pads(const Node& node, const SymDims& x) {
  const WindowAttrs window = window_attrs(node, x.size() - 2);
  std::vector<int64_t> pads = window.pads_begin;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    if (!x[i + 2].is_constant()) return {};
    const int64_t input = x[i + 2].value(),
                  extent = (window.kernel[i] - 1) * window.dilations[i] + 1,
                  last = window_output(window, i, input, window.kernel[i]).value() - 1;
    pads.push_back(
        std::max<int64_t>(0, last * window.strides[i] + extent - input - window.pads_begin[i]));
  }
  return pads;
}

/// The mean of powers that counts padding, times the elements of a window, is their sum.
std::vector<ValueId> expand_lp_pool(const Graph& graph, const Node& node, Patch& patch) {
  Expansion e(graph, node, patch);
  const auto order = static_cast<double>(node.attrs.get_int("p", 2));
  double count = 1;
  for (int64_t n : node.attrs.get_ints("kernel_shape")) count *= static_cast<double>(n);
  Expansion::AttrList window{{"count_include_pad", int64_t{1}}};
  // The mean does not count what hangs over the edge: padding takes its place.
  const bool hangs = node.attrs.get_int("ceil_mode", 0) != 0 &&
                     !node.attrs.get_string("auto_pad", "").starts_with("SAME");
  if (hangs) {
    if (!e.rank(0) || *e.rank(0) < 3) return {};
    const std::vector<int64_t> pads = covering_pads(node, *e.type(0).dims);
    if (pads.empty()) return {};
    window.emplace_back("pads", pads);
  }
  for (const auto& [name, value] : node.attrs.entries())
    if (name != "p" && name != "ceil_mode" && !(hangs && (name == "pads" || name == "auto_pad")))
      window.emplace_back(name, value);
  const ValueId mean = e.add("AveragePool", {power_of_magnitude(e, order)}, window);
  return {e.narrowed(power(e, e.add("Mul", {mean, e.scalar(count)}), 1 / order))};
}

Dim flops_global(const Graph& graph, const Node& node) {
  const auto& in = graph.value(node.inputs[0]).type.dims;
  return in ? element_count(*in) : Dim(0);
}

OpDef pool(std::string_view name, InferFn infer, ReferenceFn reference) {
  OpDef op;
  op.name = name;
  op.attrs = window_attr_specs(/*kernel_required=*/true);
  op.attrs.push_back({"ceil_mode", AttrKind::kInt, false, 0, 1});
  op.infer = infer;
  op.reference = reference;
  op.flops = flops_pool;
  op.tolerance = Tolerance::kReduction;
  return op;
}

OpDef global(std::string_view name, ReferenceFn reference, ExpandFn expand) {
  OpDef op;
  op.name = name;
  op.infer = infer_global;
  op.reference = reference;
  op.expand = expand;
  op.flops = flops_global;
  op.tolerance = Tolerance::kReduction;
  return op;
}

}  // namespace

void register_pool(OpList& ops) {
  OpDef max = pool("MaxPool", infer_max_pool, reference_max_pool);
  max.max_outputs = 2;
  max.attrs.push_back({"storage_order", AttrKind::kInt, false, 0, 1});
  max.tolerance = Tolerance::kExact;
  ops.push_back(std::move(max));

  OpDef average = pool("AveragePool", infer_pool, reference_average_pool);
  average.attrs.push_back({"count_include_pad", AttrKind::kInt, false, 0, 1});
  ops.push_back(std::move(average));

  OpDef lp = pool("LpPool", infer_pool, reference_lp_pool);
  lp.attrs.push_back({"p", AttrKind::kInt, false, 1, 1 << 20});
  lp.expand = expand_lp_pool;
  ops.push_back(std::move(lp));

  ops.push_back(global("GlobalAveragePool", reference_global_average, expand_global_average));
  OpDef global_max = global("GlobalMaxPool", reference_global_max, expand_global_max);
  global_max.tolerance = Tolerance::kExact;
  ops.push_back(std::move(global_max));
  OpDef global_lp = global("GlobalLpPool", reference_global_lp, expand_global_lp);
  global_lp.attrs = {{"p", AttrKind::kInt, false, 1, 1 << 20}};
  ops.push_back(std::move(global_lp));
}

}  // namespace xc
