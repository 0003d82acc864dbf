// MaxPool and AveragePool in f32, MaxPool in bf16 and bytes too: "xc.pool". Channels-last operands
// are pooled over adjacent channels: pixel by pixel, or, where windows overlap so much that it
// takes less, the rows of the windows folded into one first. Where the last spatial axis is
// adjacent (row-major), line by line, always in those two steps. Other strides are converted to
// channels-last in scratch, and so are other types that do not lie so.

#include <algorithm>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/pool_fn.h"
#include "base/checked.h"
#include "ops/support.h"
#include "ops/window.h"
#include "tensor/half.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 32 << 10;
/// Elements; beyond (padding by millions) no line is folded.
constexpr int64_t kLongestLine = 1 << 20;

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
    for (size_t i = 0; i < 3; ++i) inner_[i] = whole_windows(axes_[i]);
    include_pad_ = spec.attrs().get_int("count_include_pad", 0) != 0;
    xs_ = window_strides_3d(x.strides);
    ys_ = window_strides_3d(y.strides);
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
    // What does not lie channels-last, through a copy that does.
    const auto stage = [&](const OperandView& v, std::array<int64_t, 5>& strides, CopyPlan& plan,
                           bool in) {
      const Dims dense = channels_last_strides(copied(v.dims));
      plan = in ? CopyPlan(v.dims, v.strides, dense, bytes)
                : CopyPlan(v.dims, dense, v.strides, bytes);
      strides = window_strides_3d(dense);
      return align_up(v.count() * bytes, 64);
    };
    if (channels_ != 1 && x.strides[1] != 1) {
      x_bytes_ = stage(x, xs_, load_, true);
      loads_ = true;
    }
    scratch_bytes = x_bytes_;
    if (channels_ != 1 && y.strides[1] != 1) {
      scratch_bytes += stage(y, ys_, store_, false);
      stores_ = true;
    }
    units_ = batch_ * axes_[0].output * axes_[1].output;
    taps_at_ = scratch_bytes;
    plan_rows(bytes);
    if (loads_ || stores_) return;
    tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, units_);
    by_rows = !context.rows.empty() && x.dims.size() == 4;
    if (!by_rows) return;
    parts_.assign(context.rows.begin(), context.rows.end());
    tasks = batch_ * static_cast<int64_t>(parts_.size());
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (units_ == 0) return;
    if (by_lines_)
      return lines(static_cast<const float*>(args.buffers[0]), static_cast<float*>(args.buffers[1]),
                   static_cast<std::byte*>(args.scratch), units_ * begin / tasks,
                   units_ * end / tasks);
    switch (views_.inputs[0].dtype) {
      case DType::kBF16:
        return over_channels<uint16_t>(args, begin, end);
      case DType::kI8:
        return over_channels<int8_t>(args, begin, end);
      case DType::kU8:
        return over_channels<uint8_t>(args, begin, end);
      default:
        return over_channels<float>(args, begin, end);
    }
  }

 private:
  template <class T>
  void over_channels(const StepArgs& args, int64_t begin, int64_t end) const {
    const auto* x = static_cast<const T*>(args.buffers[0]);
    auto* y = static_cast<T*>(args.buffers[1]);
    auto* scratch = static_cast<std::byte*>(args.scratch) + taps_at_;
    if (by_rows) {
      const auto parts = static_cast<int64_t>(parts_.size());
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task / parts * axes_[1].output;
        const RowRange& part = parts_[static_cast<size_t>(task % parts)];
        rows(x, y, first + part.begin, first + part.end, scratch);
      }
      return;
    }
    if (loads_) load_.run(x, args.scratch);
    const T* const from = loads_ ? static_cast<const T*>(args.scratch) : x;
    T* const to =
        stores_ ? reinterpret_cast<T*>(static_cast<std::byte*>(args.scratch) + x_bytes_) : y;
    rows(from, to, units_ * begin / tasks, units_ * end / tasks, scratch);
    if (stores_) store_.run(to, y);
  }

  /// Positions of a window on one axis that are not padding: [first, last), and how many count.
  struct Span {
    int64_t first, last, counted;
  };
  /// On axis i.
  Span span(size_t i, int64_t o) const {
    const WindowAxis& axis = axes_[i];
    if (o >= inner_[i].begin && o < inner_[i].end) return {0, axis.kernel, axis.kernel};
    const RowRange inside = axis.positions(o, 0, axis.input);
    return {inside.begin, inside.end,
            axis.positions(o, axis.at(o, 0), axis.input + axis.pad_end).end};
  }

  /// Of sizes of a window, whose product need not fit in an integer.
  static float product_of(int64_t a, int64_t b, int64_t c) {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) *
                              static_cast<double>(c));
  }

  /// The windows of a run of pixels.
  void fold(const float* x, std::span<const int64_t> taps, float divisor, float* y,
            int64_t channels, const PixelRun& run) const {
    const auto count = static_cast<int64_t>(taps.size());
    if (max_)
      fns_.max(x, taps.data(), count, y, channels, run);
    else
      fns_.average(x, taps.data(), count, divisor, y, channels, run);
  }
  void fold(const uint16_t* x, std::span<const int64_t> taps, float, uint16_t* y, int64_t channels,
            const PixelRun& run) const {
    fns_.max_bf16(x, taps.data(), static_cast<int64_t>(taps.size()), y, channels, run);
  }
  void fold(const int8_t* x, std::span<const int64_t> taps, float, int8_t* y, int64_t channels,
            const PixelRun& run) const {
    fns_.max_i8(x, taps.data(), static_cast<int64_t>(taps.size()), y, channels, run);
  }
  void fold(const uint8_t* x, std::span<const int64_t> taps, float, uint8_t* y, int64_t channels,
            const PixelRun& run) const {
    fns_.max_u8(x, taps.data(), static_cast<int64_t>(taps.size()), y, channels, run);
  }

  /// What a window of nothing but padding gives.
  template <class T>
  T empty_window() const {
    if constexpr (sizeof(T) == 1) return std::numeric_limits<T>::lowest();
    const float value = max_ ? -std::numeric_limits<float>::infinity() : 0.0f;
    if constexpr (std::is_same_v<T, uint16_t>) return float_to_bf16(value);
    return static_cast<T>(value);
  }

  /// Results whose windows hold no padding on their axis.
  static RowRange whole_windows(const WindowAxis& axis) {
    const int64_t begin = std::min(axis.output, ceil_div(axis.pad_begin, axis.stride));
    const int64_t last = axis.input - 1 - (axis.kernel - 1) * axis.dilation + axis.pad_begin;
    return {begin, last < 0 ? begin : std::clamp(last / axis.stride + 1, begin, axis.output)};
  }

  /// What is the same for every row of pixels: whether rows of the windows are folded first: to
  /// KH + KW steps for a result from KH * KW, but over the whole input.
  void plan_rows(int64_t bytes) {
    const WindowAxis& w = axes_[2];
    const int64_t rows = most_taps(std::span(axes_).first(2));
    const double at_once = static_cast<double>(rows) * static_cast<double>(w.kernel);
    const double in_two = static_cast<double>(w.stride) * static_cast<double>(rows + 1) +
                          static_cast<double>(w.kernel);
    folds_rows_ =
        rows > 1 && in_two < at_once && xs_[4] == channels_ && line_ <= kLongestLine / channels_;
    if (!folds_rows_) {
      scratch_bytes = checked_add(scratch_bytes, checked_mul(most_taps(axes_), 8));
      return;
    }
    plan_columns();
    held_bytes += w.output * 4;
    scratch_bytes = checked_add(scratch_bytes, align_up(line_ * channels_ * bytes, 64));
    scratch_bytes = checked_add(scratch_bytes, checked_mul(rows + w.kernel, 8));
  }

  /// Rows of results [first, last), counted over batch and the outer spatial axes. In scratch: the
  /// taps of a window, behind a row of the input between its padding where that is folded first.
  template <class T>
  void rows(const T* x, T* y, int64_t first, int64_t last, std::byte* scratch) const {
    const auto& [d, h, w] = axes_;
    T* const line = reinterpret_cast<T*>(scratch);
    auto* const taps = reinterpret_cast<int64_t*>(
        scratch + (folds_rows_ ? align_up(line_ * channels_ * int64_t{sizeof(T)}, 64) : 0));
    if (folds_rows_) std::fill_n(line, line_ * channels_, empty_window<T>());
    for (int64_t row = first; row < last; ++row) {
      const int64_t oh = row % h.output, od = row / h.output % d.output,
                    n = row / (h.output * d.output);
      const Span ds = span(0, od), hs = span(1, oh);
      const T* const from = x + n * xs_[0];
      T* const to = y + n * ys_[0] + od * ys_[2] + oh * ys_[3];
      if (ds.first == ds.last || hs.first == hs.last)
        for (int64_t ow = 0; ow < w.output; ++ow)
          std::fill_n(to + ow * ys_[4], channels_, empty_window<T>());
      else if (folds_rows_)
        in_two_steps(from, ds, od, hs, oh, line, taps, to);
      else
        at_once(from, ds, od, hs, oh, taps, to);
    }
  }

  /// Offsets of what a window reads along the outer axes and, of the last, at kernel positions
  /// `columns` of the first pixel.
  std::span<const int64_t> taps_of(const Span& ds, int64_t od, const Span& hs, int64_t oh,
                                   RowRange columns, int64_t* taps) const {
    const auto& [d, h, w] = axes_;
    size_t count = 0;
    for (int64_t kd = ds.first; kd < ds.last; ++kd)
      for (int64_t kh = hs.first; kh < hs.last; ++kh)
        for (int64_t kw = columns.begin; kw < columns.end; ++kw)
          taps[count++] = d.at(od, kd) * xs_[2] + h.at(oh, kh) * xs_[3] + kw * w.dilation * xs_[4];
    return {taps, count};
  }

  template <class T>
  void at_once(const T* x, const Span& ds, int64_t od, const Span& hs, int64_t oh, int64_t* taps,
               T* y) const {
    const WindowAxis& w = axes_[2];
    const auto divisor = [&](int64_t counted, size_t taken) {
      return include_pad_ ? product_of(ds.counted, hs.counted, counted) : static_cast<float>(taken);
    };
    const auto edge = [&](int64_t begin, int64_t end) {
      for (int64_t ow = begin; ow < end; ++ow) {
        const Span ws = span(2, ow);
        const auto taken = taps_of(ds, od, hs, oh, {ws.first, ws.last}, taps);
        if (taken.empty())
          std::fill_n(y + ow * ys_[4], channels_, empty_window<T>());
        else
          fold(x + w.at(ow, 0) * xs_[4], taken, divisor(ws.counted, taken.size()), y + ow * ys_[4],
               channels_, {});
      }
    };
    const RowRange inner = inner_[2];
    edge(0, inner.begin);
    if (const int64_t pixels = inner.end - inner.begin; pixels > 0) {
      const auto taken = taps_of(ds, od, hs, oh, {0, w.kernel}, taps);
      fold(x + w.at(inner.begin, 0) * xs_[4], taken, divisor(w.kernel, taken.size()),
           y + inner.begin * ys_[4], channels_, {pixels, w.stride * xs_[4], ys_[4]});
    }
    edge(inner.end, w.output);
  }

  template <class T>
  void in_two_steps(const T* x, const Span& ds, int64_t od, const Span& hs, int64_t oh, T* line,
                    int64_t* taps, T* y) const {
    const WindowAxis& w = axes_[2];
    const auto rows = taps_of(ds, od, hs, oh, {0, 1}, taps);
    fold(x, rows, 1, line + w.pad_begin * channels_, w.input * channels_, {});
    int64_t* const columns = taps + rows.size();
    for (int64_t k = 0; k < w.kernel; ++k) columns[k] = k * w.dilation * channels_;
    const std::span<const int64_t> along(columns, static_cast<size_t>(w.kernel));
    const float counted =
        include_pad_ ? product_of(ds.counted, hs.counted, 1) : static_cast<float>(rows.size());
    // Runs of pixels with one divisor: all, for the largest.
    for (int64_t begin = 0, end = 0; begin < w.output; begin = end) {
      const float of_column = columns_[static_cast<size_t>(begin)];
      end = begin + 1;
      while (end < w.output && (max_ || columns_[static_cast<size_t>(end)] == of_column)) ++end;
      fold(line + begin * w.stride * channels_, along, of_column * counted, y + begin * ys_[4],
           channels_, {end - begin, w.stride * channels_, ys_[4]});
    }
  }

  /// How many columns count for each result.
  void plan_columns() {
    const WindowAxis& w = axes_[2];
    columns_.reserve(static_cast<size_t>(w.output));
    for (int64_t o = 0; o < w.output; ++o) {
      const Span s = span(2, o);
      const int64_t counted = include_pad_ ? s.counted : s.last - s.first;
      columns_.push_back(static_cast<float>(std::max<int64_t>(1, counted)));
    }
  }

  /// What is the same for every line, and what a worker has: some rows of the input between their
  /// padding, so many that the first of them has left the store buffer when it is read again, then
  /// what their windows hold.
  void plan_lines() {
    constexpr int64_t kBufferFloats = 2 << 10, kDescribedBytes = 32 << 10, kWidest = 16;
    const WindowAxis& w = axes_[2];
    // Of rows that a narrower vector holds, loads of wider ones would only cross more cache lines.
    if (w.input <= kWidest / 2) line_fns_ = &pool_fns(std::min(cpu_info().isa, Isa::kAvx2));
    by_lines_ = true;
    units_ = batch_ * channels_ * axes_[0].output * axes_[1].output;
    plan_columns();
    held_bytes += w.output * 4;
    const int64_t inside = align_up(w.pad_begin, kWidest);
    const int64_t pitch = align_up(
        std::max(inside - w.pad_begin + line_, inside + align_up(w.input, kWidest)), kWidest);
    lines_ = {{w.kernel, w.dilation, w.stride},
              w.input,
              w.output,
              inside - w.pad_begin,
              inside,
              pitch,
              max_ ? -std::numeric_limits<float>::infinity() : 0.0f,
              nullptr};
    const int64_t rows = axes_[0].output * axes_[1].output;
    at_a_time_ = std::clamp<int64_t>(kBufferFloats / pitch, 1, units_);
    const int64_t taps = most_taps(std::span(axes_).first(2));
    const int64_t bytes = checked_add(checked_mul(taps, 8), int64_t{sizeof(PoolLine)});
    described_once_ = checked_mul(bytes, checked_add(rows, at_a_time_)) <= kDescribedBytes;
    const int64_t described = described_once_ ? rows + at_a_time_ : at_a_time_;
    taps_at_ = pitch * at_a_time_ * 4;
    lines_at_ = checked_add(taps_at_, checked_mul(taps * 8, described));
    scratch_bytes = checked_add(lines_at_, described * static_cast<int64_t>(sizeof(PoolLine)));
  }

  /// Lines from row `row` of a plane on, which may go on in the planes behind it.
  void describe_lines(int64_t row, int64_t count, int64_t* taps, PoolLine* lines) const {
    const auto& [d, h, w] = axes_;
    int64_t oh = row % h.output, od = row / h.output, x = 0, y = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Span ds = span(0, od), hs = span(1, oh);
      int64_t* const begin = taps;
      for (int64_t kd = ds.first; kd < ds.last; ++kd)
        for (int64_t kh = hs.first; kh < hs.last; ++kh)
          *taps++ = x + d.at(od, kd) * xs_[2] + h.at(oh, kh) * xs_[3];
      lines[i] = {
          begin, taps - begin, y + od * ys_[2] + oh * ys_[3],
          include_pad_ ? product_of(ds.counted, hs.counted, 1) : static_cast<float>(taps - begin)};
      if (++oh < h.output) continue;
      oh = 0;
      if (++od < d.output) continue;
      od = 0;
      x += xs_[1], y += ys_[1];
    }
  }

  /// Lines of results [first, last), counted over batch, channels and the outer spatial axes. What
  /// describes those of a plane of few, and some of the next, serves for all planes.
  void lines(const float* x, float* y, std::byte* scratch, int64_t first, int64_t last) const {
    const int64_t rows = axes_[0].output * axes_[1].output;
    PoolLines all = lines_;
    all.buffer = reinterpret_cast<float*>(scratch);
    std::fill_n(all.buffer, all.pitch * at_a_time_, all.padding);
    auto* const taps = reinterpret_cast<int64_t*>(scratch + taps_at_);
    auto* const described = reinterpret_cast<PoolLine*>(scratch + lines_at_);
    if (described_once_) describe_lines(0, rows + at_a_time_, taps, described);
    for (int64_t unit = first, count = 0; unit < last; unit += count) {
      const int64_t row = unit % rows, plane = unit / rows;
      const int64_t c = plane % channels_, n = plane / channels_;
      count = std::min({at_a_time_, last - unit, (channels_ - c) * rows - row});
      if (!described_once_) describe_lines(row, count, taps, described);
      const PoolLine* const some = described + (described_once_ ? row : 0);
      const float* const from = x + n * xs_[0] + c * xs_[1];
      float* const to = y + n * ys_[0] + c * ys_[1];
      if (max_)
        line_fns_->max_lines(from, to, some, count, all);
      else
        line_fns_->average_lines(from, to, some, count, all, columns_.data());
    }
  }

  OperandViews views_;
  bool max_, include_pad_ = false, loads_ = false, stores_ = false, by_lines_ = false,
             folds_rows_ = false, described_once_ = false;
  const PoolFns& fns_;
  const PoolFns* line_fns_ = &fns_;
  std::array<WindowAxis, 3> axes_;
  std::array<int64_t, 5> xs_{}, ys_{};
  int64_t batch_ = 0, channels_ = 0, x_bytes_ = 0, taps_at_ = 0;
  int64_t units_ =
      0;  ///< lines of results; rows of pixels over all channels where those are adjacent
  std::vector<RowRange> parts_;  ///< by_rows
  CopyPlan load_, store_;
  std::array<RowRange, 3> inner_;  ///< results whose windows hold no padding on that axis
  std::vector<float> columns_;     ///< in two steps: what counts of each window along the last axis
  int64_t line_ = 0;               ///< pixels of the buffer for a line
  PoolLines lines_{};              ///< by_lines_; its buffer is in scratch
  int64_t at_a_time_ = 1, lines_at_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const TypeSet types = is_max(*spec.op)
                            ? type_set({DType::kF32, DType::kBF16, DType::kI8, DType::kU8})
                            : type_set({DType::kF32});
  if (!contains(types, spec.inputs[0].dtype))
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
