// MaxPool that says where the largest elements are, and of types that "xc.pool" does not
// take: "xc.max_pool". Channels-last f32 goes pixel by pixel over adjacent channels, row-major f32
// line by line, the rows of the windows folded into one first; the rest element by element.
//
// Of equal elements the first one in row-major order of the plane is reported; NaN is the largest.

#include <algorithm>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/pool_fn.h"
#include "ops/support.h"
#include "ops/window.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 16 << 10;
/// Elements; beyond (padding by millions) no line is folded.
constexpr int64_t kLongestLine = 1 << 20;

template <class T>
constexpr T least() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::lowest();
  return -std::numeric_limits<T>::infinity();
}

class MaxPoolBound final : public BoundKernel {
 public:
  MaxPoolBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context),
        fns_(pool_fns(cpu_info().isa)),
        column_major_(spec.attrs().get_int("storage_order", 0) != 0) {
    const OperandView& x = views_.inputs[0];
    const OperandView& y = views_.outputs[wants(0) ? 0 : 1];
    const WindowAttrs window = window_attrs(*spec.node, x.dims.size() - 2);
    axes_ = window_axes_3d(window_axes(window, x.dims, window.kernel, y.dims));
    xs_ = window_strides_3d(x.strides);
    for (size_t k = 0; k < 2; ++k)
      if (wants(k)) ys_[k] = window_strides_3d(views_.outputs[k].strides);
    batch_ = x.dims[0];
    channels_ = x.dims[1];
    held_bytes += views_.bytes() + 512;
    if (y.count() == 0) return;
    const auto& [d, h, w] = axes_;
    plane_ = d.input * h.input * w.input;
    units_ = batch_ * channels_ * d.output * h.output;
    if (x.dtype == DType::kF32 && plane_ < kNowhere) choose_way();
    tasks = std::clamp<int64_t>(y.count() / kTaskElements, 1, units_);
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (units_ == 0) return;
    const int64_t first = units_ * begin / tasks, last = units_ * end / tasks;
    switch (way_) {
      case Way::kChannels:
        return for_each_row<float>(args, first, last,
                                   [&](const Row<float>& row) { channels(row, args.scratch); });
      case Way::kLines:
        clear_line(args.scratch);
        return for_each_row<float>(args, first, last,
                                   [&](const Row<float>& row) { line(row, args.scratch); });
      case Way::kElements:
        dispatch_number(views_.inputs[0].dtype, [&]<class T>() {
          if constexpr (std::is_arithmetic_v<T>)
            for_each_row<T>(args, first, last, [&](const Row<T>& row) { elements(row); });
        });
    }
  }

 private:
  enum class Way : uint8_t { kElements, kChannels, kLines };
  /// A row of results along the last axis, of one channel or, where those are adjacent, of all.
  template <class T>
  struct Row {
    const T* x;
    T* y;              ///< or null
    int64_t* indices;  ///< or null
    int64_t first;     ///< index of the plane's first element
    int64_t od, oh;
    RowRange d, h;  ///< positions that are no padding
  };
  /// What a worker has: a row of the input between its padding, a row of results, the elements of a
  /// window along the axes that are folded at once.
  struct Scratch {
    FoundLine row, result;
    int64_t* taps;
    int32_t* places;
  };

  bool wants(size_t k) const { return k < views_.outputs.size() && views_.outputs[k].present(); }

  void choose_way() {
    const auto& [d, h, w] = axes_;
    line_ =
        std::max((w.output + kLineSlack) * w.stride + w.kernel * w.dilation, w.pad_begin + w.input);
    if (xs_[1] == 1 && channels_ > 1) {
      way_ = Way::kChannels;
      units_ = batch_ * d.output * h.output;
      line_ = 0;
      results_ = channels_;
      taps_ = most_taps(axes_);
    } else if (xs_[4] == 1 && line_ <= kLongestLine) {
      way_ = Way::kLines;
      results_ = w.output;
      taps_ = most_taps(std::span(axes_).first(2));
    } else {
      return;
    }
    scratch_bytes = carve(nullptr).second;
  }

  std::pair<Scratch, int64_t> carve(void* memory) const {
    auto* const base = static_cast<std::byte*>(memory);
    int64_t at = 0;
    const auto next = [&]<class T>(T*& to, int64_t count) {
      to = base ? reinterpret_cast<T*>(base + at) : nullptr;
      at = checked_add(at, align_up(checked_mul(count, sizeof(T)), 64));
    };
    Scratch s{};
    next(s.row.value, line_);
    next(s.row.where, line_);
    next(s.result.value, results_);
    next(s.result.where, results_);
    next(s.taps, taps_);
    next(s.places, taps_);
    return {s, at};
  }
  /// The padding, which stays as it is.
  void clear_line(void* memory) const {
    const Scratch s = carve(memory).first;
    std::fill_n(s.row.value, line_, least<float>());
    std::fill_n(s.row.where, line_, kNowhere);
  }

  template <class T, class Body>
  void for_each_row(const StepArgs& args, int64_t begin, int64_t end, Body body) const {
    const auto& [d, h, w] = axes_;
    const int64_t planes = way_ == Way::kChannels ? 1 : channels_;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t rest = unit;
      const int64_t oh = rest % h.output;
      rest /= h.output;
      const int64_t od = rest % d.output;
      rest /= d.output;
      const int64_t c = rest % planes, n = rest / planes;
      const auto place = [&](size_t k) {
        return n * ys_[k][0] + c * ys_[k][1] + od * ys_[k][2] + oh * ys_[k][3];
      };
      body(Row<T>{
          static_cast<const T*>(args.buffers[0]) + n * xs_[0] + c * xs_[1],
          wants(0) ? static_cast<T*>(args.buffers[1]) + place(0) : nullptr,
          wants(1) ? static_cast<int64_t*>(args.buffers[2]) + place(1) : nullptr,
          (n * channels_ + c) * plane_,
          od,
          oh,
          d.positions(od, 0, d.input),
          h.positions(oh, 0, h.input),
      });
    }
  }

  /// Positions of a result's window on the last axis that are no padding.
  RowRange columns_of(int64_t o) const {
    const WindowAxis& w = axes_[2];
    const bool whole = w.at(o, 0) >= 0 && w.at(o, w.kernel - 1) < w.input;
    return whole ? RowRange{0, w.kernel} : w.positions(o, 0, w.input);
  }

  /// The index to report of a place in the plane.
  int64_t index_of(int64_t first, int64_t place) const {
    if (!column_major_) return first + place;
    return first + (plane_ < kNowhere ? turned<uint32_t>(place) : turned<uint64_t>(place));
  }
  /// A place with the last axis counted as the first. U: what divisions are in.
  template <class U>
  int64_t turned(int64_t place) const {
    const auto at = static_cast<U>(place), width = static_cast<U>(axes_[2].input),
               height = static_cast<U>(axes_[1].input);
    const U row = at / width, d = axes_[0].input == 1 ? 0 : row / height;
    return ((at - row * width) * height + (row - d * height)) * static_cast<U>(axes_[0].input) + d;
  }

  /// body(offset of the row, its place in the plane) for the rows of a window.
  template <class T, class Body>
  void for_each_window_row(const Row<T>& r, Body body) const {
    const auto& [d, h, w] = axes_;
    for (int64_t kd = r.d.begin; kd < r.d.end; ++kd)
      for (int64_t kh = r.h.begin; kh < r.h.end; ++kh) {
        const int64_t id = d.at(r.od, kd), ih = h.at(r.oh, kh);
        body(id * xs_[2] + ih * xs_[3], (id * h.input + ih) * w.input);
      }
  }

  /// Writes n results from `o` on, a step of axis `axis` apart; planes of indices are `planes`
  /// apart.
  void write(const Row<float>& r, int64_t o, size_t axis, const FoundLine& found, int64_t n,
             int64_t planes) const {
    if (r.y) {
      float* y = r.y + o * ys_[0][4];
      for (int64_t i = 0; i < n; ++i) y[i * ys_[0][axis]] = found.value[i];
    }
    if (!r.indices) return;
    int64_t* indices = r.indices + o * ys_[1][4];
    for (int64_t i = 0; i < n; ++i)
      indices[i * ys_[1][axis]] =
          found.where[i] == kNowhere ? -1 : index_of(r.first + i * planes, found.where[i]);
  }
  static void clear(const FoundLine& found, int64_t n) {
    std::fill_n(found.value, n, least<float>());
    std::fill_n(found.where, n, kNowhere);
  }

  void channels(const Row<float>& r, void* memory) const {
    const WindowAxis& w = axes_[2];
    const Scratch s = carve(memory).first;
    for (int64_t o = 0; o < w.output; ++o) {
      int64_t count = 0;
      const RowRange columns = columns_of(o);
      for_each_window_row(r, [&](int64_t offset, int64_t place) {
        for (int64_t k = columns.begin; k < columns.end; ++k) {
          s.taps[count] = offset + w.at(o, k) * xs_[4];
          s.places[count++] = static_cast<int32_t>(place + w.at(o, k));
        }
      });
      if (count == 0)
        clear(s.result, channels_);
      else
        fns_.find_max(r.x, s.taps, s.places, count, 0, s.result, channels_);
      write(r, o, 1, s.result, channels_, plane_);
    }
  }

  void line(const Row<float>& r, void* memory) const {
    const WindowAxis& w = axes_[2];
    const Scratch s = carve(memory).first;
    int64_t count = 0;
    for_each_window_row(r, [&](int64_t offset, int64_t place) {
      s.taps[count] = offset;
      s.places[count++] = static_cast<int32_t>(place);
    });
    if (count == 0) {
      clear(s.result, w.output);
    } else {
      fns_.find_max(r.x, s.taps, s.places, count, 1,
                    {s.row.value + w.pad_begin, s.row.where + w.pad_begin}, w.input);
      fns_.find_max_line(s.row, {w.kernel, w.dilation, w.stride}, s.result, w.output);
    }
    write(r, 0, 4, s.result, w.output, 0);
  }

  template <class T>
  void elements(const Row<T>& r) const {
    const WindowAxis& w = axes_[2];
    for (int64_t o = 0; o < w.output; ++o) {
      const RowRange columns = columns_of(o);
      T best = least<T>();
      int64_t where = -1;
      for_each_window_row(r, [&](int64_t offset, int64_t place) {
        for (int64_t k = columns.begin; k < columns.end; ++k) {
          const T v = r.x[offset + w.at(o, k) * xs_[4]];
          if (!(v > best) && where >= 0 && (v == v || best != best)) continue;
          best = v;
          where = place + w.at(o, k);
        }
      });
      if (r.y) r.y[o * ys_[0][4]] = best;
      if (r.indices) r.indices[o * ys_[1][4]] = where < 0 ? -1 : index_of(r.first, where);
    }
  }

  OperandViews views_;
  const PoolFns& fns_;
  bool column_major_;
  Way way_ = Way::kElements;
  std::array<WindowAxis, 3> axes_;
  std::array<int64_t, 5> xs_{};
  std::array<std::array<int64_t, 5>, 2> ys_{};  ///< of the values, of the indices
  int64_t batch_ = 0, channels_ = 0, plane_ = 0, units_ = 0;
  int64_t line_ = 0, results_ = 0, taps_ = 0;  ///< elements of a Scratch
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  const DType type = spec.inputs[0].dtype;
  if (type == DType::kF16 || type == DType::kBF16)
    return Verdict::no(fmt::format("elements of type {}", name(type)));
  const size_t rank = spec.inputs[0].dims.size();
  if (rank < 3 || rank > 5) return Verdict::no(fmt::format("{} spatial axes", rank - 2));
  for (int64_t pad : spec.attrs().get_ints("pads"))
    if (pad < 0) return Verdict::no("negative padding");
  return Verdict::ok();
}

}  // namespace

void add_max_pool(Rows& rows) {
  rows.push_back({"xc.max_pool", "MaxPool", supports, create_bound_by<MaxPoolBound>, any_order});
}

}  // namespace xc::cpu
