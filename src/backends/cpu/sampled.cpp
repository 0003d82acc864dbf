// Images read between their pixels, "xc.sampled": GridSample and DeformConv in f32 (RoiAlign:
// roi_align.cpp); GridSample by the nearest pixel for elements of any type. Grids are f32 or f64.
//
// Which pixels a point reads, and by which weight, is the same for every channel: it is worked out
// once per point, then each channel is gathered by that.

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/control_inputs.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/convolve.h"
#include "ops/grid_sampler.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kPoints = PointTaps::kMost;  ///< worked out at a time
constexpr int64_t kMostPixels = int64_t{1} << 30;
constexpr size_t kMostSpatial = 3;  ///< axes interpolated over

/// The taps of kPoints points, in memory that holds anything.
PointTaps taps_in(void* scratch, int64_t taps) {
  auto* const index = static_cast<int32_t*>(scratch);
  return {index, reinterpret_cast<float*>(index + taps * kPoints), taps};
}
class GridSampleBound final : public BoundKernel {
 public:
  GridSampleBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const GridSampler sampler(*spec.node);
    const std::span<const int64_t> x = views_.inputs[0].dims, y = views_.outputs[0].dims;
    spatial_ = x.size() - 2;
    each_ = static_cast<int64_t>(sampler.taps());
    axis_.mode = sampler.mode();
    axis_.padding = sampler.padding();
    axis_.align_corners = sampler.align_corners();
    axis_.wide = views_.inputs[1].dtype == DType::kF64;
    axis_.step = static_cast<int64_t>(spatial_);
    int64_t taps = 1, longest = 0;
    for (size_t axis = 0; axis < spatial_; ++axis) {
      taps = checked_mul(taps, each_);
      plane_ = checked_mul(plane_, x[axis + 2]);
      points_ = checked_mul(points_, y[axis + 2]);
      longest = std::max(longest, x[axis + 2]);
    }
    const bool nearest = axis_.mode == SampleMode::kNearest;
    if ((nearest ? longest : plane_) >= kMostPixels)
      fail(Status::kLimit, "{} pixels, at most {} are sampled", nearest ? longest : plane_,
           kMostPixels - 1);
    blocks_ = ceil_div(points_, kPoints);
    tasks = checked_mul(x[0], blocks_);
    taps_ = taps;
    scratch_bytes = nearest ? kPoints * 8 : checked_mul(taps, PointTaps::bytes(1));
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (axis_.mode == SampleMode::kNearest)
      return with_element_bytes(element_size(views_.inputs[0].dtype), [&](auto element) {
        run_nearest<decltype(element)>(args, begin, end);
      });
    const std::span<const int64_t> x = views_.inputs[0].dims;
    const PointTaps taps = taps_in(args.scratch, taps_);
    for_each_block(begin, end, [&](int64_t image, int64_t first, int64_t count) {
      std::array<SampledTaps, kMostSpatial> along;
      for (size_t axis = 0; axis < spatial_; ++axis)
        fns_.axis_taps(sampled(args, image * points_ + first, count, axis), along[axis]);
      fns_.join_taps(along.data(), x.data() + 2, static_cast<int64_t>(spatial_), each_, count,
                     taps);
      for (int64_t c = image * x[1]; c < (image + 1) * x[1]; ++c)
        fns_.pick_taps(static_cast<const float*>(args.buffers[0]) + c * plane_, taps, count,
                       static_cast<float*>(args.buffers[2]) + c * points_ + first);
    });
  }

 private:
  /// Calls body(image, first point, points) for tasks [begin, end).
  template <class Body>
  void for_each_block(int64_t begin, int64_t end, Body&& body) const {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks_ * kPoints;
      body(task / blocks_, first, std::min(kPoints, points_ - first));
    }
  }

  /// `count` points along an axis; a point of the grid names the innermost one first.
  SampledAxis sampled(const StepArgs& args, int64_t point, int64_t count, size_t axis) const {
    SampledAxis out = axis_;
    const int64_t at = point * axis_.step + static_cast<int64_t>(spatial_ - 1 - axis);
    out.at = static_cast<const std::byte*>(args.buffers[1]) + at * (axis_.wide ? 8 : 4);
    out.n = count;
    out.size = views_.inputs[0].dims[axis + 2];
    return out;
  }

  /// Elements are moved, whatever they are.
  template <class T>
  void run_nearest(const StepArgs& args, int64_t begin, int64_t end) const {
    const std::span<const int64_t> x = views_.inputs[0].dims;
    auto* const sources = static_cast<int64_t*>(args.scratch);
    for_each_block(begin, end, [&](int64_t image, int64_t first, int64_t count) {
      SampledTaps along;
      std::fill_n(sources, count, 0);
      for (size_t axis = 0; axis < spatial_; ++axis) {
        fns_.axis_taps(sampled(args, image * points_ + first, count, axis), along);
        for (int64_t p = 0; p < count; ++p) {
          const int64_t index = along.index[0][p];
          sources[p] = (index | sources[p]) < 0 ? -1 : sources[p] * x[axis + 2] + index;
        }
      }
      for (int64_t c = image * x[1]; c < (image + 1) * x[1]; ++c) {
        const T* plane = static_cast<const T*>(args.buffers[0]) + c * plane_;
        T* y = static_cast<T*>(args.buffers[2]) + c * points_ + first;
        for (int64_t p = 0; p < count; ++p) y[p] = sources[p] < 0 ? T{} : plane[sources[p]];
      }
    });
  }

  OperandViews views_;
  const LineFns& fns_ = line_fns(cpu_info().isa);
  SampledAxis axis_{};  ///< what all points and axes have in common
  size_t spatial_ = 0;
  int64_t each_ = 1, taps_ = 1;  ///< of a point along one axis, and along all
  int64_t plane_ = 1, points_ = 1, blocks_ = 0;
};

/// Samples of every point of the result, times the weights: gathered plane by plane, or, where a
/// point's channels are enough for vectors, as rows of channels from a copy that lies
/// channels-last.
class DeformConvBound final : public BoundKernel {
 public:
  DeformConvBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    const OperandViews& v = views_;
    shape_ = conv_shape(*spec.node, v.inputs[kX].dims, v.inputs[kW].dims, v.outputs[0].dims);
    offset_groups_ = spec.attrs().get_int("offset_group", 1);
    kernel_ = shape_.axes[1].kernel * shape_.axes[2].kernel;
    points_ = checked_mul(shape_.axes[1].output, shape_.axes[2].output);
    channels_ = v.inputs[kX].dims[1];
    blocks_ = ceil_div(points_, kPoints);
    tasks = checked_mul(shape_.batch, blocks_);
    plane_ = checked_mul(shape_.axes[1].input, shape_.axes[2].input);
    if (plane_ >= kMostPixels)
      fail(Status::kLimit, "an image of {} x {} pixels, fewer than {} are sampled",
           shape_.axes[1].input, shape_.axes[2].input, kMostPixels);
    room_at_ = align_up(
        kTapBytes + checked_mul(checked_mul(checked_mul(channels_, kernel_), kPoints), 4), 64);
    room_ = gemm_room<float>(shape_.out_channels, std::min(kPoints, points_),
                             shape_.in_channels * kernel_);
    scratch_bytes = room_at_ + room_ * 4;
    held_bytes += views_.bytes();
    plan_abreast();
  }

  void start(const StepArgs& args) const override {
    turn_.run(args.buffers[kX], args.shared);
    turn_weights_.run(args.buffers[kW], at(args.shared, weights_at_));
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / blocks_, first = task % blocks_ * kPoints;
      const int64_t count = std::min(kPoints, points_ - first);
      sample(args, image, first, count);
      for (int64_t g = 0; g < shape_.groups; ++g) multiply(args, image, g, first, count);
    }
  }

 private:
  // X [N, C, H, W], W [M, C/group, kh, kw], offset [N, groups * kh * kw * 2, oh, ow], B [M],
  // mask [N, groups * kh * kw, oh, ow].
  static constexpr size_t kX = 0, kW = 1, kOffset = 2, kB = 3, kMask = 4;
  static constexpr int64_t kFewChannels = 8;                 ///< are gathered
  static constexpr int64_t kMostCopied = int64_t{64} << 20;  ///< bytes

  void plan_abreast() {
    const int64_t images = checked_mul(checked_mul(shape_.batch, channels_), plane_) * 4;
    if (shape_.groups != 1 || channels_ / offset_groups_ < kFewChannels || images > kMostCopied ||
        images == 0)
      return;
    abreast_ = true;
    const auto turned = [](int64_t n, int64_t rows, int64_t columns) {
      const int64_t dims[] = {n, rows, columns}, from[] = {rows * columns, columns, 1},
                    to[] = {rows * columns, 1, rows};
      return CopyPlan(dims, from, to, 4);
    };
    turn_ = turned(shape_.batch, channels_, plane_);
    turn_weights_ = turned(shape_.out_channels, channels_, kernel_);
    weights_at_ = align_up(images, 64);
    shared_bytes =
        weights_at_ + checked_mul(checked_mul(shape_.out_channels, channels_), kernel_) * 4;
  }

  static float* at(void* memory, int64_t offset) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory) + offset);
  }
  const float* input(const StepArgs& args, size_t i) const {
    return i < views_.inputs.size() && views_.inputs[i].present()
               ? static_cast<const float*>(args.buffers[i])
               : nullptr;
  }

  /// The masked samples of `count` points from `first` on: [channel][kernel position][point], or
  /// [point][kernel position][channel].
  void sample(const StepArgs& args, int64_t image, int64_t first, int64_t count) const {
    const WindowAxis &down = shape_.axes[1], &across = shape_.axes[2];
    double rows[kPoints], places[kPoints];  // of the points' windows
    for (int64_t p = 0, i = first / across.output, j = first % across.output; p < count; ++p) {
      rows[p] = static_cast<double>(down.at(i, 0));
      places[p] = static_cast<double>(across.at(j, 0));
      if (++j == across.output) ++i, j = 0;
    }
    MovedPoints points{
        .row = rows, .column = places, .n = count, .height = down.input, .width = across.input};
    const PointTaps taps = taps_in(args.scratch, kTaps);
    const float *offsets = input(args, kOffset), *masks = input(args, kMask);
    for (int64_t group = 0; group < offset_groups_; ++group)
      for (int64_t k = 0; k < kernel_; ++k) {
        const int64_t number = (image * offset_groups_ + group) * kernel_ + k;
        points.kernel_row = static_cast<double>(k / across.kernel * down.dilation);
        points.kernel_column = static_cast<double>(k % across.kernel * across.dilation);
        points.down = offsets + number * 2 * points_ + first;
        points.across = points.down + points_;
        points.mask = masks ? masks + number * points_ + first : nullptr;
        fns_.moved_taps(points, taps);
        pick(args, image, group, k, taps, count);
      }
  }

  void pick(const StepArgs& args, int64_t image, int64_t group, int64_t k, const PointTaps& taps,
            int64_t count) const {
    float* const columns = at(args.scratch, kTapBytes);
    const int64_t each = channels_ / offset_groups_, first = group * each;
    if (abreast_) {
      const float* x = static_cast<const float*>(args.shared) + image * plane_ * channels_ + first;
      fns_.pick_rows(x, channels_, taps, count, each, columns + k * channels_ + first,
                     kernel_ * channels_);
      return;
    }
    for (int64_t c = first; c < first + each; ++c)
      fns_.pick_taps(input(args, kX) + (image * channels_ + c) * plane_, taps, count,
                     columns + (c * kernel_ + k) * count);
  }

  void multiply(const StepArgs& args, int64_t image, int64_t group, int64_t first,
                int64_t count) const {
    const int64_t outputs = shape_.out_channels, depth = shape_.in_channels * kernel_;
    const float* const bias = input(args, kB);
    float* const y = static_cast<float*>(args.buffers[views_.inputs.size()]) +
                     ((image * shape_.groups + group) * outputs) * points_ + first;
    for (int64_t m = 0; m < outputs; ++m)
      std::fill_n(y + m * points_, count, bias ? bias[group * outputs + m] : 0.0f);
    if (depth == 0) return;
    const float* const weights =
        abreast_ ? at(args.shared, weights_at_) : input(args, kW) + group * outputs * depth;
    const float* const samples = at(args.scratch, kTapBytes) + group * depth * count;
    own_gemm<float>({false, abreast_, outputs, count, depth, 1.0f, weights, depth, samples,
                     abreast_ ? depth : count, 1.0f, y, points_, 0, at(args.scratch, room_at_),
                     room_});
  }

  static constexpr int64_t kTaps = 4, kTapBytes = PointTaps::bytes(kTaps);

  const LineFns& fns_ = line_fns(cpu_info().isa);
  OperandViews views_;
  ConvShape shape_;
  int64_t offset_groups_ = 1, kernel_ = 1, points_ = 1, blocks_ = 0, channels_ = 0, plane_ = 0;
  int64_t room_at_ = 0, room_ = 0;
  bool abreast_ = false;
  int64_t weights_at_ = 0;  ///< in the shared memory, behind the images
  CopyPlan turn_, turn_weights_;
};

Verdict supports_grid(const StepSpec& spec) {
  const DType type = spec.inputs[0].dtype, grid = spec.inputs[1].dtype;
  if (grid != DType::kF32 && grid != DType::kF64)
    return Verdict::no(fmt::format("a grid of {}", name(grid)));
  if (spec.attrs().get_string("mode", "linear") != "nearest") {
    const size_t rank = spec.inputs[0].dims.size();
    if (rank > kMostSpatial + 2) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
    if (type != DType::kF32)
      return Verdict::no(fmt::format("an interpolated image of {}", name(type)));
  }
  // Elements of any type are moved.
  const std::string reason = movable_reason(type);
  if (!reason.empty()) return Verdict::no(reason);
  return dense_of(spec, grid, type);
}
}  // namespace

void add_sampled(Rows& rows) {
  rows.push_back({"xc.sampled", "GridSample", supports_grid, create_bound_by<GridSampleBound>});
  rows.push_back({"xc.sampled", "DeformConv", dense_f32, create_bound_by<DeformConvBound>});
}

}  // namespace xc::cpu
