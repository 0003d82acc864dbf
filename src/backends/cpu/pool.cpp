// MaxPool and AveragePool in f32, MaxPool in bf16 too: "xc.pool". Channels-last operands are pooled
// pixel by pixel over adjacent channels; where the last spatial axis is adjacent (row-major), line
// by line: the rows of a window are folded into one, then that along its length. Other strides are
// converted to channels-last in scratch, and so is bf16 that does not lie so.

#include <algorithm>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/pool_fn.h"
#include "base/checked.h"
#include "ops/window.h"
#include "tensor/half.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 32 << 10;
constexpr int64_t kLongestLine = 1 << 20;  ///< floats; beyond (padding by millions) channels-last

bool is_max(const OpDef& op) {
  return op.name == "MaxPool";
}

class PoolBound final : public BoundKernel {
 public:
  PoolBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context), max_(is_max(*spec.op)), fns_(pool_fns(cpu_info().isa)) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const WindowAttrs window = window_attrs(*spec.node, x.dims.size() - 2);
    axes_ = window_axes_3d(window_axes(window, x.dims, window.kernel, y.dims));
    include_pad_ = spec.attrs().get_int("count_include_pad", 0) != 0;
    // Strides of N, C and three spatial axes.
    const auto padded = [](const Dims& s) {
      std::array<int64_t, 5> out{s[0], s[1], 0, 0, 0};
      std::copy(s.begin() + 2, s.end(), out.begin() + 2 + static_cast<ptrdiff_t>(5 - s.size()));
      return out;
    };
    xs_ = padded(x.strides);
    ys_ = padded(y.strides);
    batch_ = x.dims[0];
    channels_ = x.dims[1];
    held_bytes += views_.bytes() + 512;
    if (element_count(y.dims) == 0) return;
    const bool last = x.strides[1] == 1 && y.strides[1] == 1;
    const int64_t bytes = element_size(x.dtype);
    const WindowAxis& w = axes_[2];
    line_ =
        std::max((w.output + kLineSlack) * w.stride + w.kernel * w.dilation, w.pad_begin + w.input);
    if (x.dtype == DType::kF32 && xs_[4] == 1 && ys_[4] == 1 && (!last || channels_ == 1) &&
        line_ <= kLongestLine) {
      plan_lines();
      tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, units_);
      return;
    }
    if (!last && channels_ != 1) {
      // Through channels-last copies of both.
      const auto stage = [&](const OperandView& v, std::array<int64_t, 5>& strides, CopyPlan& plan,
                             bool in) {
        const Dims dense = channels_last_strides(v.dims);
        plan = in ? CopyPlan(v.dims, v.strides, dense, bytes)
                  : CopyPlan(v.dims, dense, v.strides, bytes);
        strides = padded(dense);
        return align_up(v.count() * bytes, 64);
      };
      x_bytes_ = stage(x, xs_, load_, true);
      scratch_bytes = x_bytes_ + stage(y, ys_, store_, false);
      staged_ = true;
    }
    units_ = batch_ * axes_[0].output * axes_[1].output;
    taps_at_ = scratch_bytes;
    scratch_bytes = checked_add(scratch_bytes, checked_mul(most_taps(axes_), 8));
    if (staged_) return;
    tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, units_);
    by_rows = !context.rows.empty() && x.dims.size() == 4;
    if (!by_rows) return;
    parts_.assign(context.rows.begin(), context.rows.end());
    tasks = batch_ * static_cast<int64_t>(parts_.size());
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (units_ == 0) return;
    if (!columns_.empty())
      return lines(static_cast<const float*>(args.buffers[0]), static_cast<float*>(args.buffers[1]),
                   static_cast<float*>(args.scratch), units_ * begin / tasks, units_ * end / tasks);
    if (views_.inputs[0].dtype == DType::kBF16)
      over_channels<uint16_t>(args, begin, end);
    else
      over_channels<float>(args, begin, end);
  }

 private:
  template <class T>
  void over_channels(const StepArgs& args, int64_t begin, int64_t end) const {
    const auto* x = static_cast<const T*>(args.buffers[0]);
    auto* y = static_cast<T*>(args.buffers[1]);
    auto* taps = reinterpret_cast<int64_t*>(static_cast<std::byte*>(args.scratch) + taps_at_);
    if (by_rows) {
      const auto parts = static_cast<int64_t>(parts_.size());
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / parts * axes_[1].output;
        const RowRange& part = parts_[static_cast<size_t>(task % parts)];
        rows(x, y, first + part.begin, first + part.end, taps);
      }
      return;
    }
    if (!staged_) return rows(x, y, units_ * begin / tasks, units_ * end / tasks, taps);
    load_.run(x, args.scratch);
    auto* out = reinterpret_cast<T*>(static_cast<std::byte*>(args.scratch) + x_bytes_);
    rows(static_cast<const T*>(args.scratch), out, 0, units_, taps);
    store_.run(out, y);
  }

  /// Elements of a window over these axes that are no padding, at most.
  static int64_t most_taps(std::span<const WindowAxis> axes) {
    int64_t taps = 1;
    for (const WindowAxis& axis : axes) taps = checked_mul(taps, std::min(axis.kernel, axis.input));
    return taps;
  }

  /// Positions of a window on one axis that are not padding: [first, last), and how many count.
  struct Span {
    int64_t first, last, counted;
  };
  Span span(const WindowAxis& axis, int64_t o) const {
    const RowRange inside = axis.positions(o, 0, axis.input);
    return {inside.begin, inside.end,
            axis.positions(o, axis.at(o, 0), axis.input + axis.pad_end).end};
  }

  /// Of sizes of a window, whose product need not fit in an integer.
  static float product_of(int64_t a, int64_t b, int64_t c) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) *
                              static_cast<double>(c));
  }

  void largest(const float* x, std::span<const int64_t> taps, float* y) const {
    fns_.max(x, taps.data(), static_cast<int64_t>(taps.size()), y, channels_);
  }
  void largest(const uint16_t* x, std::span<const int64_t> taps, uint16_t* y) const {
    fns_.max_bf16(x, taps.data(), static_cast<int64_t>(taps.size()), y, channels_);
  }

  /// What a window of nothing but padding gives.
  template <class T>
  T empty_window() const {
    const float value = max_ ? -std::numeric_limits<float>::infinity() : 0.0f;
    if constexpr (std::is_same_v<T, float>) return value;
    return float_to_bf16(value);
  }

  template <class T>
  void rows(const T* x, T* y, int64_t first, int64_t last, int64_t* taps) const {
    const auto& [d, h, w] = axes_;
    for (int64_t row = first; row < last; ++row) {
      const int64_t oh = row % h.output, od = row / h.output % d.output,
                    n = row / (h.output * d.output);
      const Span ds = span(d, od), hs = span(h, oh);
      for (int64_t ow = 0; ow < w.output; ++ow) {
        const Span ws = span(w, ow);
        size_t count = 0;
        for (int64_t kd = ds.first; kd < ds.last; ++kd)
          for (int64_t kh = hs.first; kh < hs.last; ++kh)
            for (int64_t kw = ws.first; kw < ws.last; ++kw)
              taps[count++] = n * xs_[0] + d.at(od, kd) * xs_[2] + h.at(oh, kh) * xs_[3] +
                              w.at(ow, kw) * xs_[4];
        T* to = y + n * ys_[0] + od * ys_[2] + oh * ys_[3] + ow * ys_[4];
        if (count == 0) {
          std::fill_n(to, channels_, empty_window<T>());
        } else if (max_) {
          largest(x, {taps, count}, to);
        } else if constexpr (std::is_same_v<T, float>) {
          const float divisor = include_pad_ ? product_of(ds.counted, hs.counted, ws.counted)
                                             : static_cast<float>(count);
          fns_.average(x, taps, static_cast<int64_t>(count), divisor, to, channels_);
        }
      }
    }
  }

  /// What is the same for every line: how many columns count for each result, and the buffer.
  void plan_lines() {
    const auto& [d, h, w] = axes_;
    units_ = batch_ * channels_ * d.output * h.output;
    for (int64_t o = 0; o < w.output; ++o) {
      const Span s = span(w, o);
      const int64_t counted = include_pad_ ? s.counted : s.last - s.first;
      columns_.push_back(static_cast<float>(std::max<int64_t>(1, counted)));
    }
    scratch_bytes =
        checked_add(align_up(line_ * 4, 64), checked_mul(most_taps(std::span(axes_).first(2)), 8));
    held_bytes += w.output * 4;
  }

  /// Lines of results [first, last), counted over batch, channels and the outer spatial axes. In
  /// scratch: a row of the input between its padding, then the offsets of the rows of a window.
  void lines(const float* x, float* y, float* row, int64_t first, int64_t last) const {
    const auto& [d, h, w] = axes_;
    auto* taps = reinterpret_cast<int64_t*>(row + align_up(line_ * 4, 64) / 4);
    const float padding = max_ ? -std::numeric_limits<float>::infinity() : 0.0f;
    std::fill_n(row, line_, padding);
    const LineWindow window{w.kernel, w.dilation, w.stride};
    for (int64_t unit = first; unit < last; ++unit) {
      int64_t rest = unit;
      const int64_t oh = rest % h.output;
      rest /= h.output;
      const int64_t od = rest % d.output;
      rest /= d.output;
      const int64_t c = rest % channels_, n = rest / channels_;
      const Span ds = span(d, od), hs = span(h, oh);
      int64_t count = 0;
      for (int64_t kd = ds.first; kd < ds.last; ++kd)
        for (int64_t kh = hs.first; kh < hs.last; ++kh)
          taps[count++] = n * xs_[0] + c * xs_[1] + d.at(od, kd) * xs_[2] + h.at(oh, kh) * xs_[3];
      float* to = y + n * ys_[0] + c * ys_[1] + od * ys_[2] + oh * ys_[3];
      if (count == 0) {
        std::fill_n(to, w.output, padding);
        continue;
      }
      float* inside = row + w.pad_begin;
      if (max_) {
        fns_.max(x, taps, count, inside, w.input);
        fns_.max_line(row, window, to, w.output);
      } else {
        fns_.average(x, taps, count, 1, inside, w.input);
        const float rows =
            include_pad_ ? product_of(ds.counted, hs.counted, 1) : static_cast<float>(count);
        fns_.average_line(row, window, columns_.data(), rows, to, w.output);
      }
    }
  }

  OperandViews views_;
  bool max_, include_pad_ = false, staged_ = false;
  const PoolFns& fns_;
  std::array<WindowAxis, 3> axes_;
  std::array<int64_t, 5> xs_{}, ys_{};
  int64_t batch_ = 0, channels_ = 0, x_bytes_ = 0, taps_at_ = 0;
  int64_t units_ =
      0;  ///< lines of results; rows of pixels over all channels where those are adjacent
  std::vector<RowRange> parts_;  ///< by_rows
  CopyPlan load_, store_;
  std::vector<float> columns_;  ///< line by line: what counts of each window along the last axis
  int64_t line_ = 0;            ///< floats of the buffer for a line
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const bool halves = is_max(*spec.op) && spec.inputs[0].dtype == DType::kBF16;
  if (spec.inputs[0].dtype != DType::kF32 && !halves)
    return Verdict::no(fmt::format("elements of type {}", name(spec.inputs[0].dtype)));
  if (!spec.outputs[0].present()) return Verdict::no("values are not wanted");
  if (spec.outputs.size() > 1 && spec.outputs[1].present())
    return Verdict::no("indices are wanted");
  const size_t rank = spec.inputs[0].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  return Verdict::ok();
}

}  // namespace

void add_pool(Rows& rows) {
  for (std::string_view op : {"MaxPool", "AveragePool"})
    rows.push_back({"xc.pool", op, supports, create_bound_by<PoolBound, true>, any_order});
}

}  // namespace xc::cpu
