// RoiAlign and MaxRoiPool: fixed-size features of regions of an image.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/checks.h"
#include "ops/dense.h"
#include "ops/roi_align.h"

namespace xc {

namespace roi_align {

AxisTap axis_tap(double v, int64_t size) {
  if (!(v >= -1 && v <= static_cast<double>(size)) || size == 0) return {};
  v = std::max(v, 0.0);
  const auto low = static_cast<int64_t>(v);
  if (low >= size - 1) return {size - 1, size - 1, 0};
  return {low, low + 1, v - static_cast<double>(low)};
}

Taps taps_at(double y, double x, int64_t h, int64_t w) {
  const AxisTap down = axis_tap(y, h), across = axis_tap(x, w);
  if (down.outside() || across.outside()) return {};
  const double ty = down.part, tx = across.part;
  return {4,
          {down.low * w + across.low, down.low * w + across.high, down.high * w + across.low,
           down.high * w + across.high},
          {(1 - ty) * (1 - tx), (1 - ty) * tx, ty * (1 - tx), ty * tx}};
}

Span span_of(const Node& node, double begin, double end, int64_t pooled) {
  const double scale = node.attrs.get_float("spatial_scale", 1);
  const bool half =
      node.attrs.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double start = begin * scale - (half ? 0.5 : 0.0);
  double size = end * scale - (half ? 0.5 : 0.0) - start;
  if (!half) size = std::max(size, 1.0);
  const double bin = size / static_cast<double>(pooled);
  const int64_t ratio = node.attrs.get_int("sampling_ratio", 0);
  const double samples = ratio > 0 ? static_cast<double>(ratio) : std::ceil(bin);
  constexpr double kMaxSamples = 1 << 20;  // regions come from the input
  if (!(samples <= kMaxSamples)) fail(Status::kRange, "region from {} to {}", begin, end);
  return {start, bin, samples > 0 ? static_cast<int64_t>(samples) : 0};
}

int64_t samples_of(const Span& down, const Span& across) {
  constexpr int64_t kMost = 1 << 24;  // of a bin
  if (down.samples * across.samples > kMost)
    fail(Status::kRange, "a region of {} times {} samples per bin", down.samples, across.samples);
  return down.samples * across.samples;
}

}  // namespace roi_align

namespace roi_pool {

Region region_of(const double* numbers, double scale, int64_t images) {
  constexpr double kFarthestEdge = 4503599627370496.0;  // 2^52: sums of edges are exact
  if (!(numbers[0] >= 0 && numbers[0] < static_cast<double>(images)))
    fail(Status::kRange, "batch index {} is outside [0, {})", numbers[0], images);
  double edges[4];
  for (int i = 0; i < 4; ++i) {
    edges[i] = std::round(numbers[i + 1] * scale);
    if (!(std::abs(edges[i]) <= kFarthestEdge))
      fail(Status::kRange, "region edge {}", numbers[i + 1]);
  }
  return {static_cast<int64_t>(numbers[0]), edges[0], edges[1], edges[2], edges[3]};
}

std::pair<int64_t, int64_t> bin_of(double begin, double end, int64_t pooled, int64_t p,
                                   int64_t size) {
  const double extent = std::max(end - begin + 1, 1.0) / static_cast<double>(pooled);
  const auto cut = [&](double v) {
    return static_cast<int64_t>(std::clamp(v + begin, 0.0, static_cast<double>(size)));
  };
  return {cut(std::floor(static_cast<double>(p) * extent)),
          cut(std::ceil(static_cast<double>(p + 1) * extent))};
}

}  // namespace roi_pool

namespace {

using roi_pool::bin_of;
using roi_pool::region_of;

using roi_align::samples_of;
using roi_align::Span;
using roi_align::span_of;
using roi_align::Taps;
using roi_align::taps_at;

constexpr int64_t kMaxPooled = int64_t{1} << 24;  ///< output height or width

void require_image(const InferContext& ctx) {
  require_rank(ctx, 0, 4);
  for (size_t i : {2, 3})
    if (ctx.dims(0)[i] == Dim(0)) ctx.error("input has dims {}", to_text(ctx.dims(0)));
}

// ---- RoiAlign -----------------------------------------------------------------------------------

void infer_align(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  check_dtype(ctx, 2, type_set({DType::kI64}));
  require_image(ctx);
  require_rank(ctx, 1, 2);
  const Dim regions = ctx.dims(1)[0];
  require_dims(ctx, 1, {regions, 4});
  require_vector(ctx, 2, regions);
  ctx.set(0, ctx.dtype(0),
          {regions, ctx.dims(0)[1], ctx.attrs().get_int("output_height", 1),
           ctx.attrs().get_int("output_width", 1)});
}

void reference_align(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto x = double_values(ctx.inputs[0]), rois = double_values(ctx.inputs[1]);
  const auto batch = int_values(ctx.inputs[2]);
  const auto in = ctx.inputs[0].dims, dims = ctx.outputs[0].dims;
  const bool maximum = ctx.attrs().get_string("mode", "avg") == "max";
  std::vector<double> out;
  for (int64_t r = 0; r < dims[0]; ++r) {
    const int64_t image = batch[static_cast<size_t>(r)];
    if (image < 0 || image >= in[0])
      fail(Status::kRange, "batch index {} is outside [0, {})", image, in[0]);
    const double* roi = rois.data() + r * 4;  // x1, y1, x2, y2
    const Span across = span_of(*ctx.node, roi[0], roi[2], dims[3]);
    const Span down = span_of(*ctx.node, roi[1], roi[3], dims[2]);
    const auto count = static_cast<double>(std::max<int64_t>(samples_of(down, across), 1));
    for (int64_t c = 0; c < dims[1]; ++c) {
      const double* plane = x.data() + (image * in[1] + c) * in[2] * in[3];
      for (int64_t ph = 0; ph < dims[2]; ++ph)
        for (int64_t pw = 0; pw < dims[3]; ++pw) {
          double sum = 0, best = -std::numeric_limits<double>::infinity();
          for (int64_t iy = 0; iy < down.samples; ++iy)
            for (int64_t ix = 0; ix < across.samples; ++ix) {
              const Taps taps = taps_at(down.at(ph, iy), across.at(pw, ix), in[2], in[3]);
              if (taps.count == 0) best = std::max(best, 0.0);
              // The standard's maximum is over the weighted taps, not the interpolated samples.
              for (int64_t k = 0; k < taps.count; ++k) {
                const double term = taps.weight[k] * plane[taps.index[k]];
                sum += term;
                best = std::max(best, term);
              }
            }
          if (down.samples * across.samples == 0) best = 0;
          out.push_back(maximum ? best : sum / count);
        }
    }
  }
  write_dense(ctx.outputs[0], out);
}

// ---- MaxRoiPool ---------------------------------------------------------------------------------

void infer_pool(InferContext& ctx) {
  check_dtype(ctx, 0, kFloats);
  require_same_dtype(ctx, 1);
  require_image(ctx);
  require_rank(ctx, 1, 2);
  const Dim regions = ctx.dims(1)[0];
  require_dims(ctx, 1, {regions, 5});
  const auto pooled = ctx.attrs().get_ints("pooled_shape");
  if (pooled.size() != 2) ctx.error("attribute 'pooled_shape' has {} entries", pooled.size());
  ctx.set(0, ctx.dtype(0), {regions, ctx.dims(0)[1], pooled[0], pooled[1]});
}

void reference_pool(const ReferenceContext& ctx) {
  check_shapes(ctx);
  const auto x = double_values(ctx.inputs[0]), rois = double_values(ctx.inputs[1]);
  const auto in = ctx.inputs[0].dims, dims = ctx.outputs[0].dims;
  const double scale = ctx.attrs().get_float("spatial_scale", 1);
  std::vector<double> out;
  for (int64_t r = 0; r < dims[0]; ++r) {
    const auto [image, x1, y1, x2, y2] = region_of(rois.data() + r * 5, scale, in[0]);
    for (int64_t c = 0; c < dims[1]; ++c) {
      const double* plane = x.data() + (image * in[1] + c) * in[2] * in[3];
      for (int64_t ph = 0; ph < dims[2]; ++ph)
        for (int64_t pw = 0; pw < dims[3]; ++pw) {
          const auto [h0, h1] = bin_of(y1, y2, dims[2], ph, in[2]);
          const auto [w0, w1] = bin_of(x1, x2, dims[3], pw, in[3]);
          double best = h0 < h1 && w0 < w1 ? -std::numeric_limits<double>::infinity() : 0.0;
          for (int64_t h = h0; h < h1; ++h)
            for (int64_t w = w0; w < w1; ++w) best = std::max(best, plane[h * in[3] + w]);
          out.push_back(best);
        }
    }
  }
  write_dense(ctx.outputs[0], out);
}

}  // namespace

void register_roi(OpList& ops) {
  OpDef align;
  align.name = "RoiAlign";
  align.min_inputs = align.max_inputs = 3;
  align.attrs = {{"coordinate_transformation_mode", AttrKind::kString, false, 0, 0,
                  "half_pixel|output_half_pixel"},
                 {"mode", AttrKind::kString, false, 0, 0, "avg|max"},
                 {"output_height", AttrKind::kInt, false, 1, kMaxPooled},
                 {"output_width", AttrKind::kInt, false, 1, kMaxPooled},
                 {"sampling_ratio", AttrKind::kInt, false, 0, 1 << 10},
                 {"spatial_scale", AttrKind::kFloat}};
  align.infer = infer_align;
  align.reference = reference_align;
  align.weight = 32;
  align.tolerance = Tolerance::kReduction;
  ops.push_back(std::move(align));

  OpDef pool;
  pool.name = "MaxRoiPool";
  pool.min_inputs = pool.max_inputs = 2;
  pool.attrs = {{"pooled_shape", AttrKind::kInts, true, 1, kMaxPooled},
                {"spatial_scale", AttrKind::kFloat}};
  pool.infer = infer_pool;
  pool.reference = reference_pool;
  pool.weight = 16;
  pool.tolerance = Tolerance::kExact;
  ops.push_back(std::move(pool));
}

}  // namespace xc
