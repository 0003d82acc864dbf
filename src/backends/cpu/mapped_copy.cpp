// Ops that take every output element from an input element found axis by axis: Pad (all modes) and
// nearest Resize, "xc.mapped"; interpolating Resize, "xc.resize", resamples one axis after another.

#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/control_inputs.h"
#include "backends/cpu/element_bytes.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/resize_axis.h"
#include "ops/support.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 64 << 10;
constexpr int64_t kFill = INT64_MIN;  ///< no source: the constant

/// Per axis of the result: the source's element offset, or kFill.
using AxisMaps = std::vector<std::vector<int64_t>>;

/// The axes of `y` from the largest stride to the smallest: walked so, the result is written in the
/// order of its memory, row-major or channels-last.
std::vector<size_t> memory_order(const OperandView& y) {
  std::vector<size_t> order(y.dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    // The stride of an axis of size 1 means nothing.
    const int64_t sa = y.dims[a] == 1 ? INT64_MAX : std::abs(y.strides[a]);
    const int64_t sb = y.dims[b] == 1 ? INT64_MAX : std::abs(y.strides[b]);
    return sa > sb;
  });
  return order;
}
template <class T>
std::vector<T> permuted(const std::vector<T>& values, const std::vector<size_t>& order) {
  std::vector<T> out;
  for (size_t i : order) out.push_back(values[i]);
  return out;
}

/// y[i, j, ...] = x[maps[0][i] + maps[1][j] + ...] over rows [first, last) of all axes but the
/// last.
template <class T>
void copy_mapped(const T* x, T* y, const Dims& dims, const Dims& strides, const AxisMaps& maps,
                 T filling, int64_t first, int64_t last) {
  const size_t inner = dims.size() - 1;
  const int64_t n = dims[inner], step = strides[inner];
  const int64_t* map = maps[inner].data();
  for (int64_t row = first; row < last; ++row) {
    int64_t rest = row, from = 0, to = 0;
    bool filled = false;
    for (size_t axis = inner; axis-- > 0;) {
      const int64_t at = rest % dims[axis];
      rest /= dims[axis];
      const int64_t source = maps[axis][static_cast<size_t>(at)];
      filled |= source == kFill;
      from += source == kFill ? 0 : source;
      to += at * strides[axis];
    }
    T* out = y + to;
    if (filled) {
      for (int64_t i = 0; i < n; ++i) out[i * step] = filling;
      continue;
    }
    // Runs of adjacent sources, which padding and upsampling of outer axes consist of.
    for (int64_t i = 0; i < n;) {
      if (map[i] == kFill) {
        out[i++ * step] = filling;
        continue;
      }
      int64_t run = 1;
      while (i + run < n && map[i + run] == map[i] + run) ++run;
      if (step == 1 && run >= 8) {
        std::memcpy(out + i, x + from + map[i], static_cast<size_t>(run) * sizeof(T));
      } else {
        for (int64_t k = 0; k < run; ++k) out[(i + k) * step] = x[from + map[i] + k];
      }
      i += run;
    }
  }
}

// ---- Pad
// -----------------------------------------------------------------------------------------

AxisMaps pad_maps(const StepSpec& spec, const OperandViews& views, const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const size_t rank = x.dims.size();
  const std::string mode = spec.attrs().get_string("mode", "constant");
  const std::vector<int64_t> pads = control.ints(1);
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (control.has(3)) axes = normalise_axes(control.ints(3), rank);
  if (pads.size() != 2 * axes.size()) fail(Status::kRange, "{} pads", pads.size());
  std::vector<std::pair<int64_t, int64_t>> around(rank, {0, 0});
  for (size_t i = 0; i < axes.size(); ++i) around[axes[i]] = {pads[i], pads[i + axes.size()]};
  AxisMaps maps(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto [begin, end] = around[axis];
    const int64_t size = x.dims[axis];
    if (begin < -size || end < -size || begin > y.dims[axis] || end > y.dims[axis])
      fail(Status::kRange, "axis {} of size {} padded by {} and {}", axis, size, begin, end);
    // What cropping leaves: [crop, crop + kept).
    const int64_t crop = std::max<int64_t>(-begin, 0);
    const int64_t kept = size - crop - std::max<int64_t>(-end, 0);
    const int64_t before = std::max<int64_t>(begin, 0), after = std::max<int64_t>(end, 0);
    if (kept < 0 || before + kept + after != y.dims[axis])
      fail(Status::kRange, "axis {} of size {} padded by {} and {} has not {} elements", axis, size,
           begin, end, y.dims[axis]);
    if (kept == 0 && before + after > 0 && mode != "constant")
      fail(Status::kRange, "nothing to repeat: mode {} pads an empty axis", mode);
    for (int64_t o = -before; o < kept + after; ++o) {
      int64_t i = o;
      if (mode == "constant") {
        if (i < 0 || i >= kept) {
          maps[axis].push_back(kFill);
          continue;
        }
      } else if (mode == "edge") {
        i = std::clamp<int64_t>(i, 0, kept - 1);
      } else if (mode == "wrap") {
        i -= floor_div(i, kept) * kept;
      } else {
        const int64_t period = std::max<int64_t>(2 * (kept - 1), 1);
        i -= floor_div(i, period) * period;
        i = kept == 1 ? 0 : std::min(i, period - i);
      }
      maps[axis].push_back((crop + i) * x.strides[axis]);
    }
  }
  return maps;
}

// ---- Resize
// --------------------------------------------------------------------------------------

std::optional<ResizeMode> resize_mode(const Attrs& attrs) {
  ResizeMode out;
  out.interpolation = attrs.get_string("mode", out.interpolation);
  out.coordinates = attrs.get_string("coordinate_transformation_mode", out.coordinates);
  out.nearest = attrs.get_string("nearest_mode", out.nearest);
  out.cubic_a = attrs.get_float("cubic_coeff_a", out.cubic_a);
  out.exclude_outside = attrs.get_int("exclude_outside", 0) != 0;
  out.antialias = attrs.get_int("antialias", 0) != 0;
  return out;
}

/// Samples of every axis; empty where the axis is kept.
std::vector<std::vector<ResizeSample>> resize_axes(const StepSpec& spec, const OperandViews& views,
                                                   const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const size_t rank = x.dims.size();
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  if (spec.attrs().has("axes")) axes = normalise_axes(spec.attrs().get_ints("axes"), rank);
  std::vector<double> scales;
  if (control.has(2)) scales = control.doubles(2);
  std::vector<std::vector<ResizeSample>> out(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i];
    if (scales.empty() ? x.dims[axis] == y.dims[axis] : scales[i] == 1) continue;
    ResizeAxis along{x.dims[axis], y.dims[axis], {}, 0, 1};
    if (!scales.empty())
      along.scale = {scales[i], 1};
    else
      along.scale = {static_cast<double>(along.output), static_cast<double>(along.input)};
    out[axis] = resize_samples(*resize_mode(spec.attrs()), along);
  }
  return out;
}

AxisMaps nearest_maps(const StepSpec& spec, const OperandViews& views,
                      const ControlInputs& control) {
  const OperandView &x = views.inputs[0], &y = views.outputs[0];
  const auto samples = resize_axes(spec, views, control);
  AxisMaps maps(x.dims.size());
  for (size_t axis = 0; axis < maps.size(); ++axis)
    for (int64_t i = 0; i < y.dims[axis]; ++i)
      maps[axis].push_back(
          (samples[axis].empty() ? i : samples[axis][static_cast<size_t>(i)].index[0]) *
          x.strides[axis]);
  return maps;
}

class MappedBound final : public BoundKernel {
 public:
  MappedBound(const StepSpec& spec, const BindContext& context)
      : spec_(spec), views_(spec, context), pad_(spec.op->name == "Pad") {
    // Pad's value (input 2) is read at each run anyway.
    dynamic_ = pad_ ? !ControlInputs::constant(spec, 1, 2) || !ControlInputs::constant(spec, 3)
                    : !ControlInputs::constant(spec, 1);
    const OperandView& y = views_.outputs[0];
    if (!dynamic_ && y.count() > 0) maps_ = make(ControlInputs(spec_, views_));
    order_ = memory_order(y);
    dims_ = permuted(y.dims, order_);
    strides_ = permuted(y.strides, order_);
    if (!maps_.empty()) maps_ = permuted(maps_, order_);
    rows_ = y.count() == 0 ? 0 : y.dims.empty() ? 1 : y.count() / dims_.back();
    tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, std::max<int64_t>(1, rows_));
    if (dynamic_) tasks = 1;
    held_bytes += views_.bytes();
    for (const auto& map : maps_) held_bytes += static_cast<int64_t>(map.size() * 8);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (rows_ == 0) return;
    const AxisMaps live =
        dynamic_ ? permuted(make(ControlInputs(spec_, views_, args.buffers)), order_) : AxisMaps{};
    const AxisMaps& maps = dynamic_ ? live : maps_;
    const OperandView& y = views_.outputs[0];
    with_element_bytes(element_size(y.dtype), [&](auto element) {
      using T = decltype(element);
      T filling{};
      if (pad_ && spec_.inputs.size() > 2 && spec_.inputs[2].present())
        filling = *static_cast<const T*>(args.buffers[2]);
      const T* x = static_cast<const T*>(args.buffers[0]);
      T* to = static_cast<T*>(args.buffers[spec_.inputs.size()]);
      if (y.dims.empty()) {
        *to = *x;
        return;
      }
      copy_mapped(x, to, dims_, strides_, maps, filling, rows_ * begin / tasks,
                  rows_ * end / tasks);
    });
  }

 private:
  AxisMaps make(const ControlInputs& control) const {
    return pad_ ? pad_maps(spec_, views_, control) : nearest_maps(spec_, views_, control);
  }
  StepSpec spec_;
  OperandViews views_;
  bool pad_;
  bool dynamic_ = false;
  AxisMaps maps_;  ///< in the order of order_, as are the next two
  Dims dims_, strides_;
  std::vector<size_t> order_;
  int64_t rows_ = 0;
};

// ---- interpolation
// -------------------------------------------------------------------------------

/// f32, axis by axis through two buffers in scratch, dense in the order of the result's axes.
class InterpolateBound final : public BoundKernel {
 public:
  InterpolateBound(const StepSpec& spec, const BindContext& context) : views_(spec, context) {
    if (views_.outputs[0].count() == 0) return;
    const std::vector<size_t> walk = memory_order(views_.outputs[0]);
    const auto samples = permuted(resize_axes(spec, views_, ControlInputs(spec, views_)), walk);
    for (OperandView* v : {&views_.inputs[0], &views_.outputs[0]}) {
      v->dims = permuted(v->dims, walk);
      v->strides = permuted(v->strides, walk);
    }
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    // Axes that shrink first, so that the intermediate stays small.
    std::vector<size_t> order;
    for (size_t axis = 0; axis < samples.size(); ++axis)
      if (!samples[axis].empty()) order.push_back(axis);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return y.dims[a] * x.dims[b] < y.dims[b] * x.dims[a];
    });
    Dims dims = x.dims;
    int64_t largest = x.count();
    for (size_t axis : order) {
      Pass pass;
      pass.outer = product(dims, 0, axis);
      pass.inner = product(dims, axis + 1, dims.size());
      pass.input = dims[axis];
      pass.first.push_back(0);
      for (const ResizeSample& sample : samples[axis]) {
        for (size_t k = 0; k < sample.index.size(); ++k) {
          pass.index.push_back(sample.index[k]);
          pass.weight.push_back(static_cast<float>(sample.weight[k]));
        }
        pass.first.push_back(pass.index.size());
      }
      dims[axis] = y.dims[axis];
      largest = std::max(largest, element_count(dims));
      passes_.push_back(std::move(pass));
    }
    half_ = align_up(largest * 4, 64);
    scratch_bytes = 2 * half_;
    held_bytes += views_.bytes() + 4096;
  }

  void run(const StepArgs& args, int64_t, int64_t) const override {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    if (y.count() == 0) return;
    auto* from = static_cast<float*>(args.scratch);
    auto* to = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + half_);
    const Dims dense_x = contiguous_strides(x.dims), dense_y = contiguous_strides(y.dims);
    copy_elements(x.at(args.buffers[0]), {from, DType::kF32, x.dims, dense_x});
    for (const Pass& pass : passes_) {
      resample(pass, from, to);
      std::swap(from, to);
    }
    copy_elements({from, DType::kF32, y.dims, dense_y}, y.at(args.buffers[views_.inputs.size()]));
  }

 private:
  struct Pass {
    int64_t outer, input, inner;
    std::vector<size_t> first;  ///< of each output element's entries below
    std::vector<int64_t> index;
    std::vector<float> weight;
  };
  static void resample(const Pass& pass, const float* from, float* to) {
    const size_t outputs = pass.first.size() - 1;
    for (int64_t outer = 0; outer < pass.outer; ++outer) {
      const float* plane = from + outer * pass.input * pass.inner;
      for (size_t o = 0; o < outputs; ++o) {
        for (int64_t i = 0; i < pass.inner; ++i) to[i] = 0;
        for (size_t k = pass.first[o]; k < pass.first[o + 1]; ++k) {
          const float weight = pass.weight[k];
          const float* row = plane + pass.index[k] * pass.inner;
          for (int64_t i = 0; i < pass.inner; ++i) to[i] += weight * row[i];
        }
        to += pass.inner;
      }
    }
  }

  OperandViews views_;
  std::vector<Pass> passes_;
  int64_t half_ = 0;
};

// ---- rows
// ----------------------------------------------------------------------------------------

Verdict supports_pad(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const std::string reason = movable_reason(spec.inputs[0].dtype);
  if (!reason.empty() || element_size(spec.inputs[0].dtype) == 16)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  return Verdict::ok();
}

Verdict supports_resize(const StepSpec& spec, bool nearest) {
  const Attrs& attrs = spec.attrs();
  const std::string mode = attrs.get_string("mode", "nearest");
  if ((mode == "nearest") != nearest) return Verdict::no(fmt::format("mode {}", mode));
  if (attrs.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return Verdict::no("tf_crop_and_resize");
  if (attrs.get_string("keep_aspect_ratio_policy", "stretch") != "stretch")
    return Verdict::no("a policy that keeps the aspect ratio");
  return Verdict::ok();
}
Verdict supports_nearest(const StepSpec& spec) {
  const Verdict movable = supports_pad(spec);
  return movable.yes() ? supports_resize(spec, true) : movable;
}
Verdict supports_interpolate(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[0].dtype != DType::kF32)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  if (!ControlInputs::constant(spec, 1)) return Verdict::no("scales or sizes of the run");
  return supports_resize(spec, false);
}

}  // namespace

void add_mapped_copy(Rows& rows) {
  rows.push_back({"xc.mapped", "Pad", supports_pad, create_bound_by<MappedBound>, any_order});
  rows.push_back(
      {"xc.mapped", "Resize", supports_nearest, create_bound_by<MappedBound>, any_order});
  rows.push_back(
      {"xc.resize", "Resize", supports_interpolate, create_bound_by<InterpolateBound>, any_order});
}

}  // namespace xc::cpu
