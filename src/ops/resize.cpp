// Resize: nearest, linear and cubic resampling of any axes, with antialiasing; output sizes from
// scales or sizes. Inputs: X, roi, scales, sizes; an empty tensor counts as absent.

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/resize_axis.h"
#include "ops/support.h"

namespace xc {

namespace {

constexpr size_t kX = 0, kRoi = 1, kScales = 2, kSizes = 3;
constexpr int64_t kMaxSize = int64_t{1} << 40;

std::vector<size_t> axes_of(const Node& node, size_t rank) {
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (node.attrs.has("axes")) axes = normalise_axes(node.attrs.get_ints("axes"), rank);
  return axes;
}

ResizeMode mode_of(const Node& node) {
  ResizeMode out;
  out.interpolation = node.attrs.get_string("mode", out.interpolation);
  out.coordinates = node.attrs.get_string("coordinate_transformation_mode", out.coordinates);
  out.nearest = node.attrs.get_string("nearest_mode", out.nearest);
  out.cubic_a = node.attrs.get_float("cubic_coeff_a", out.cubic_a);
  out.exclude_outside = node.attrs.get_int("exclude_outside", 0) != 0;
  out.antialias = node.attrs.get_int("antialias", 0) != 0;
  return out;
}

/// A size times a scale, rounded down. Known sizes multiply in f32, as exporters and other runtimes
/// do. Symbolic ones need the scale as a fraction of small terms; nullopt when it is none.
std::optional<Dim> scaled(const Dim& size, double scale) {
  if (size.is_constant()) {
    const float product = static_cast<float>(size.value()) * static_cast<float>(scale);
    if (!(product < static_cast<float>(kMaxSize)))
      fail(Status::kInvalidModel, "size {} scaled by {}", size.value(), scale);
    return static_cast<int64_t>(product);
  }
  for (int64_t q = 1; q <= 64; ++q) {
    const double p = std::round(scale * static_cast<double>(q));
    if (p >= 1 && p <= 1e6 &&
        static_cast<float>(p / static_cast<double>(q)) == static_cast<float>(scale))
      return floor_div(size * static_cast<int64_t>(p), q);
  }
  return std::nullopt;
}

/// The common scale of sizes under keep_aspect_ratio_policy.
ResizeScale common_scale(const std::string& policy, const Dims& dims,
                         const std::vector<size_t>& axes, const std::vector<int64_t>& sizes) {
  ResizeScale best;
  for (size_t i = 0; i < axes.size(); ++i) {
    const ResizeScale s{static_cast<double>(sizes[i]), static_cast<double>(dims[axes[i]])};
    const bool better =
        policy == "not_larger" ? s.value() < best.value() : s.value() > best.value();
    if (i == 0 || better) best = s;
  }
  return best;
}

int64_t round_half_up(double x) {
  constexpr double kMost = 1152921504606846976.0;  // 2^60: no size, and far from overflow
  return std::isnan(x) ? 0 : static_cast<int64_t>(std::clamp(std::floor(x + 0.5), -kMost, kMost));
}

/// True when input i is there and not known to be empty.
bool given(const InferContext& ctx, size_t i) {
  return ctx.has(i) && !(ctx.rank(i) == 1 && ctx.dims(i)[0] == Dim(0));
}

void infer_scaled(InferContext& ctx, const std::vector<size_t>& axes, SymDims& out) {
  require_vector(ctx, kScales, static_cast<int64_t>(axes.size()));
  const Tensor* value = ctx.inputs[kScales].value;
  if (!value || !*value) {
    for (size_t axis : axes) out[axis] = ctx.fresh("resize");
    return;
  }
  const auto scales = value->to_doubles();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0) || !std::isfinite(scales[i])) ctx.error("scale {} is {}", i, scales[i]);
    const auto size = scaled(out[axes[i]], scales[i]);
    out[axes[i]] = size ? *size : ctx.fresh("resize");
  }
}

void infer_sized(InferContext& ctx, const std::vector<size_t>& axes, SymDims& out) {
  check_dtype(ctx, kSizes, type_set({DType::kI64}));
  require_vector(ctx, kSizes, static_cast<int64_t>(axes.size()));
  const std::string policy = ctx.attrs().get_string("keep_aspect_ratio_policy", "stretch");
  const auto sizes = ctx.elements(kSizes);
  std::vector<int64_t> known;
  Dims dims(out.size());
  for (size_t i = 0; sizes && i < axes.size(); ++i) {
    const Dim& size = (*sizes)[i];
    if (const auto most = size.upper_bound(); most && *most < 0)
      ctx.error("size {} is {}", i, *most);
    if (!size.is_constant() || !out[axes[i]].is_constant()) continue;
    if (size.value() > kMaxSize) ctx.error("size {} is {}", i, size.value());
    if (size.value() > 0 && out[axes[i]].value() == 0)
      ctx.error("axis {} is empty, it cannot be resized to {}", axes[i], size.value());
    known.push_back(size.value());
    dims[axes[i]] = out[axes[i]].value();
  }
  if (policy == "stretch" && sizes) {
    for (size_t i = 0; i < axes.size(); ++i) out[axes[i]] = (*sizes)[i];
  } else if (known.size() == axes.size()) {
    const ResizeScale scale = common_scale(policy, dims, axes, known);
    for (size_t axis : axes)
      out[axis] = round_half_up(static_cast<double>(dims[axis]) * scale.value());
  } else {
    for (size_t axis : axes) out[axis] = ctx.fresh("resize");
  }
}

void infer(InferContext& ctx) {
  check_dtype(ctx, kX, kAnyType);
  check_dtype(ctx, kRoi, kFloats);
  check_dtype(ctx, kScales, type_set({DType::kF32}));
  const ResizeMode mode = mode_of(*ctx.node);
  const bool numeric = contains(kNumbers, ctx.dtype(kX));
  if (!numeric && (mode.interpolation != "nearest" || mode.coordinates == "tf_crop_and_resize"))
    ctx.error("elements of type {} cannot be interpolated", name(ctx.dtype(kX)));
  if (mode.antialias && mode.interpolation == "nearest")
    ctx.error("attribute 'antialias' needs linear or cubic interpolation");
  SymDims out = ctx.dims(kX);
  const auto axes = axes_of(*ctx.node, out.size());
  if (mode.coordinates == "tf_crop_and_resize") {
    if (!given(ctx, kRoi)) ctx.error("tf_crop_and_resize needs the input roi");
    require_vector(ctx, kRoi, static_cast<int64_t>(2 * axes.size()));
  }
  const bool scales = given(ctx, kScales), sizes = given(ctx, kSizes);
  // With an axis-free tensor both lists are empty.
  if (scales && sizes) ctx.error("scales and sizes are both given");
  if (!scales && !sizes && !axes.empty()) ctx.error("neither scales nor sizes are given");
  if (scales) infer_scaled(ctx, axes, out);
  if (sizes) infer_sized(ctx, axes, out);
  ctx.set(0, ctx.dtype(kX), std::move(out));
}

/// The axes with their scales, one for each of `axes`.
std::vector<ResizeAxis> plan(const ReferenceContext& ctx, const std::vector<size_t>& axes) {
  const auto in = ctx.inputs[kX].dims, out = ctx.outputs[0].dims;
  const auto list = [&](size_t i) {
    return ctx.has(i) ? double_values(ctx.inputs[i]) : std::vector<double>{};
  };
  const auto scales = list(kScales), roi = list(kRoi);
  const std::string policy = ctx.attrs().get_string("keep_aspect_ratio_policy", "stretch");
  std::optional<ResizeScale> common;
  if (scales.empty() && policy != "stretch")
    common = common_scale(policy, Dims(in.begin(), in.end()), axes, int_values(ctx.inputs[kSizes]));
  std::vector<ResizeAxis> result;
  for (size_t i = 0; i < axes.size(); ++i) {
    ResizeAxis axis{in[axes[i]], out[axes[i]], {}, 0, 1};
    if (!scales.empty())
      axis.scale = {scales[i], 1};
    else if (common)
      axis.scale = *common;
    else
      axis.scale = {static_cast<double>(axis.output), static_cast<double>(axis.input)};
    if (roi.size() == 2 * axes.size()) {
      axis.roi_begin = roi[i];
      axis.roi_end = roi[i + axes.size()];
    }
    result.push_back(axis);
  }
  return result;
}

/// Nearest without a constant outside: elements are moved, whatever their type.
void move_nearest(const TensorView& x, const TensorView& y,
                  const std::vector<ResizeSamples>& samples) {
  dispatch_storage(x.dtype, [&]<class T>() {
    for_each_coordinate(y.dims, [&](std::span<const int64_t> at) {
      int64_t from = 0;
      for (size_t i = 0; i < at.size(); ++i)
        from += (samples[i].empty() ? at[i] : samples[i].index[static_cast<size_t>(at[i])]) *
                x.strides[i];
      y.as<T>()[offset_of(at, y.strides)] = x.as<T>()[from];
    });
  });
}

/// One axis of a row-major tensor: `values` and `dims` become those of the result.
void resample(std::vector<double>& values, Dims& dims, size_t axis, const ResizeSamples& samples,
              double extrapolation) {
  const int64_t outer = product(dims, 0, axis), size = dims[axis];
  const int64_t step = product(dims, axis + 1, dims.size());
  std::vector<double> out;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t to = 0; to < samples.count; ++to)
      for (int64_t i = 0; i < step; ++i) {
        double sum = samples.extrapolated(to) ? extrapolation : 0;
        for (auto k = static_cast<size_t>(samples.begin(to)),
                  end = static_cast<size_t>(samples.end(to));
             k < end; ++k)
          sum += samples.weight[k] *
                 values[static_cast<size_t>((o * size + samples.index[k]) * step + i)];
        out.push_back(sum);
      }
  values = std::move(out);
  dims[axis] = samples.count;
}

/// An axis at its own size, every element of which stays where it is: by no mode, even where the
/// mode's formula would move it (tf_half_pixel_for_nn), unless a region is cut out.
bool is_kept(const ResizeMode& mode, const ResizeAxis& axis) {
  return axis.input == axis.output && axis.scale.value() == 1 &&
         mode.coordinates != "tf_crop_and_resize";
}

void reference(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const TensorView &x = ctx.inputs[kX], &y = ctx.outputs[0];
  if (y.count() == 0) return;
  const auto axes = axes_of(*ctx.node, x.dims.size());
  const auto planned = plan(ctx, axes);
  const ResizeMode mode = mode_of(*ctx.node);
  std::vector<ResizeSamples> samples(x.dims.size());  // empty = axis kept
  for (size_t i = 0; i < axes.size(); ++i)
    if (!is_kept(mode, planned[i])) samples[axes[i]] = resize_samples(mode, planned[i]);
  if (mode.interpolation == "nearest" && mode.coordinates != "tf_crop_and_resize")
    return move_nearest(x, y, samples);
  auto values = double_values(x);
  Dims dims = dims_of(x);
  const double extrapolation = ctx.attrs().get_float("extrapolation_value", 0);
  for (size_t axis : axes)
    if (!samples[axis].empty()) resample(values, dims, axis, samples[axis], extrapolation);
  // Weights add up to one but for the last bit, and integers are cut off: 217 must not become 216.
  if (is_integer(y.dtype))
    for (double& v : values)
      if (std::abs(v - std::nearbyint(v)) < 1e-9 * (1 + std::abs(v))) v = std::nearbyint(v);
  write_dense(y, values);
}

Dim flops(const Graph& graph, const Node& node) {
  const auto& out = graph.value(node.outputs[0]).type.dims;
  const std::string mode = node.attrs.get_string("mode", "nearest");
  return out ? element_count(*out) * (mode == "nearest" ? 1 : mode == "linear" ? 8 : 32) : Dim(0);
}

}  // namespace

void register_resize(OpList& ops) {
  OpDef op;
  op.name = "Resize";
  op.max_inputs = 4;
  op.attrs = {
      {"antialias", AttrKind::kInt, false, 0, 1},
      {"axes", AttrKind::kInts},
      {"coordinate_transformation_mode", AttrKind::kString, false, 0, 0,
       "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|"
       "tf_crop_and_resize|tf_half_pixel_for_nn"},
      {"cubic_coeff_a", AttrKind::kFloat},
      {"exclude_outside", AttrKind::kInt, false, 0, 1},
      {"extrapolation_value", AttrKind::kFloat},
      {"keep_aspect_ratio_policy", AttrKind::kString, false, 0, 0,
       "stretch|not_larger|not_smaller"},
      {"mode", AttrKind::kString, false, 0, 0, "nearest|linear|cubic"},
      {"nearest_mode", AttrKind::kString, false, 0, 0,
       "round_prefer_floor|round_prefer_ceil|floor|ceil"},
  };
  op.infer = infer;
  op.reference = reference;
  op.flops = flops;
  op.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(op));
}

}  // namespace xc
