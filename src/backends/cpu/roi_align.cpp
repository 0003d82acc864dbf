// RoiAlign of f32, "xc.sampled". The samples of a bin lie on a grid, and so does what they read: a
// bin's mean is a weighted sum over rows of weighted sums over columns, the pixels of each axis
// worked out once per region. A plane's rows are added up in vectors, then its columns; where
// columns are few and far apart, or lie otherwise, pairs of a row and a column are gathered; where
// a pixel's channels lie side by side, rows of channels are added up. The largest of a bin is over
// the weighted pixels of every sample, which are gathered.

#include <algorithm>
#include <limits>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/lines_fn.h"
#include "ops/roi_align.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaps = 1024;    ///< gathered at a time
constexpr int64_t kLineRoom = 16;  ///< elements of a vector at most, behind a line

/// The pixels that the bins of a region read along one axis, each once per bin, and what they count
/// in its mean: of a bin without samples none. Lies in scratch memory.
class AxisBins {
 public:
  static int64_t bytes(int64_t size, int64_t bins) {
    return align_up(8 * (bins + 1) + 20 * room(size, bins), 64);
  }
  AxisBins(void* memory, int64_t size, int64_t bins)
      : size_(size),
        bins_(bins),
        first_(static_cast<int64_t*>(memory)),
        index_(first_ + bins + 1),
        exact_(reinterpret_cast<double*>(index_ + room(size, bins))),
        weight_(reinterpret_cast<float*>(exact_ + room(size, bins))) {}

  void fill(const roi_align::Span& span) {
    count_ = 0;
    low_ = size_;
    high_ = -1;
    const double share = 1.0 / static_cast<double>(std::max<int64_t>(span.samples, 1));
    for (int64_t bin = 0; bin < bins_; ++bin) {
      first_[bin] = count_;
      for (int64_t i = 0; i < span.samples; ++i) {
        const roi_align::AxisTap tap = roi_align::axis_tap(span.at(bin, i), size_);
        if (tap.outside()) continue;
        add(first_[bin], tap.low, (1 - tap.part) * share);
        add(first_[bin], tap.high, tap.part * share);
        low_ = std::min({low_, tap.low, tap.high});
        high_ = std::max({high_, tap.low, tap.high});
      }
    }
    first_[bins_] = count_;
    std::transform(exact_, exact_ + count_, weight_,
                   [](double w) { return static_cast<float>(w); });
  }

  int64_t taps() const { return count_; }
  /// From the first pixel that is read to the last.
  int64_t extent() const { return count_ > 0 ? high_ - low_ + 1 : 0; }
  AxisTable table() const { return {first_, index_, weight_, count_ > 0 ? low_ : 0}; }

 private:
  /// Bins follow each other in one direction: each shares two pixels at most with those before it.
  static int64_t room(int64_t size, int64_t bins) { return size + 2 * bins; }

  /// Samples follow each other too: what a bin has read already is among the last three.
  void add(int64_t begin, int64_t index, double weight) {
    for (int64_t k = count_; k-- > std::max(begin, count_ - 3);)
      if (index_[k] == index) {
        exact_[k] += weight;
        return;
      }
    index_[count_] = index;
    exact_[count_++] = weight;
  }

  int64_t size_, bins_;
  int64_t* first_;
  int64_t* index_;
  double* exact_;
  float* weight_;
  int64_t count_ = 0, low_ = 0, high_ = -1;
};

/// Weighted pixels of a plane, any number per point, point after point. Lies in scratch memory.
class TapList {
 public:
  static int64_t bytes(int64_t points, int64_t taps) { return 8 * points + 12 * taps; }

  /// Room for so many points with so many taps together.
  TapList(void* memory, int64_t points, int64_t taps)
      : ends_(static_cast<int64_t*>(memory)),
        index_(ends_ + points),
        weight_(reinterpret_cast<float*>(index_ + taps)) {}

  void clear() { points_ = taps_ = 0; }
  int64_t points() const { return points_; }
  int64_t taps() const { return taps_; }
  /// A tap of the next point.
  void add(int64_t index, float weight) {
    index_[taps_] = index;
    weight_[taps_++] = weight;
  }
  void end_point() { ends_[points_++] = taps_; }

  /// All taps, as rows of a table.
  WeightedTaps weighted() const { return {index_, weight_, taps_}; }

  /// y[p] += sum over the taps of point p.
  void add_to(const float* plane, float* y) const {
    int64_t t = 0;
    for (int64_t p = 0; p < points_; ++p) {
      float sum = 0;
      for (const int64_t end = ends_[p]; t < end; ++t) sum += weight_[t] * plane[index_[t]];
      y[p] += sum;
    }
  }
  /// y[p] becomes the largest of the taps of point p where that is larger; NaN is not.
  void raise_to(const float* plane, float* y) const {
    int64_t t = 0;
    for (int64_t p = 0; p < points_; ++p) {
      float most = y[p];
      for (const int64_t end = ends_[p]; t < end; ++t) {
        const float term = weight_[t] * plane[index_[t]];
        most = term > most ? term : most;
      }
      y[p] = most;
    }
  }

 private:
  int64_t* ends_;
  int64_t* index_;
  float* weight_;
  int64_t points_ = 0, taps_ = 0;
};

class RoiAlignBound final : public BoundKernel {
 public:
  RoiAlignBound(const StepSpec& spec, const BindContext& context)
      : node_(spec.node), views_(spec, context) {
    const std::span<const int64_t> x = views_.inputs[0].dims, y = views_.outputs[0].dims;
    tasks = y[0];
    channels_ = y[1];
    down_ = y[2];
    across_ = y[3];
    bins_ = checked_mul(down_, across_);
    largest_ = spec.attrs().get_string("mode", "avg") == "max";
    abreast_ = !largest_ && lies_channels_last(context.inputs[0].dims, context.inputs[0].strides);
    columns_at_ = AxisBins::bytes(x[2], down_);
    rest_at_ = columns_at_ + AxisBins::bytes(x[3], across_);
    lines_at_ = rest_at_ + align_up(TapList::bytes(kTaps, kTaps), 64);
    scratch_bytes = lines_at_;
    if (abreast_) {
      const int64_t dims[] = {channels_, bins_}, from[] = {1, channels_}, to[] = {bins_, 1};
      turn_ = CopyPlan(dims, from, to, 4);
      // A bin after the other, then the rest of a bin of many taps.
      scratch_bytes += checked_mul(checked_mul(channels_, bins_ + 1), 4);
    } else {
      scratch_bytes += (x[3] + kLineRoom) * 4;
    }
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OperandView& in = views_.inputs[0];
    AxisBins rows(args.scratch, in.dims[2], down_);
    AxisBins columns(at(args.scratch, columns_at_), in.dims[3], across_);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t image = static_cast<const int64_t*>(args.buffers[2])[r];
      if (image < 0 || image >= in.dims[0])
        fail(Status::kRange, "batch index {} is outside [0, {})", image, in.dims[0]);
      const float* roi = static_cast<const float*>(args.buffers[1]) + r * 4;  // x1, y1, x2, y2
      const roi_align::Span across = roi_align::span_of(*node_, roi[0], roi[2], across_);
      const roi_align::Span down = roi_align::span_of(*node_, roi[1], roi[3], down_);
      roi_align::samples_of(down, across);
      const float* x = static_cast<const float*>(args.buffers[0]) + image * in.strides[0];
      float* y = static_cast<float*>(args.buffers[3]) + r * channels_ * bins_;
      if (largest_) {
        by_samples(args.scratch, down, across, x, y);
        continue;
      }
      rows.fill(down);
      columns.fill(across);
      if (abreast_)
        all_channels(args.scratch, rows, columns, x, y);
      else if (in.strides[3] == 1 && columns.extent() <= kLineRoom + 4 * columns.taps())
        by_lines(args.scratch, rows, columns, x, y);
      else
        by_pairs(args.scratch, rows, columns, x, y);
    }
  }

 private:
  static std::byte* at(void* scratch, int64_t offset) {
    return static_cast<std::byte*>(scratch) + offset;
  }

  void by_lines(void* scratch, const AxisBins& rows, const AxisBins& columns, const float* x,
                float* y) const {
    const OperandView& in = views_.inputs[0];
    const PlaneBins bins{rows.table(), columns.table(), down_,
                         across_,      in.strides[2],   columns.extent()};
    auto* line = reinterpret_cast<float*>(at(scratch, lines_at_));
    for (int64_t c = 0; c < channels_; ++c)
      fns_.pooled_plane(x + c * in.strides[1], bins, line, y + c * bins_);
  }

  /// Calls take(row, column, weight) for what a bin reads.
  template <class Take>
  void each_pair(const AxisBins& rows, const AxisBins& columns, int64_t bin, Take&& take) const {
    const AxisTable down = rows.table(), across = columns.table();
    const int64_t p = bin / across_, q = bin % across_;
    for (int64_t i = down.first[p]; i < down.first[p + 1]; ++i)
      for (int64_t j = across.first[q]; j < across.first[q + 1]; ++j)
        take(down.index[i], across.index[j], down.weight[i] * across.weight[j]);
  }

  /// Gathers what bins read into y, which holds what they begin with: each_tap(bin, take) calls
  /// take(row, column, weight), merge(taps, plane, y) is of one channel.
  template <class EachTap, class Merge>
  void gather(void* scratch, const float* x, float* y, EachTap&& each_tap, Merge&& merge) const {
    const OperandView& in = views_.inputs[0];
    TapList list(at(scratch, rest_at_), kTaps, kTaps);
    int64_t first = 0;  // bin that the list begins with
    list.clear();
    // A bin of many taps goes on in the next list.
    const auto flush = [&](int64_t next) {
      list.end_point();
      for (int64_t c = 0; c < channels_; ++c)
        merge(list, x + c * in.strides[1], y + c * bins_ + first);
      list.clear();
      first = next;
    };
    for (int64_t bin = 0; bin < bins_; ++bin) {
      each_tap(bin, [&](int64_t row, int64_t column, float weight) {
        if (list.taps() == kTaps) flush(bin);
        list.add(row * in.strides[2] + column * in.strides[3], weight);
      });
      if (bin + 1 == bins_ || list.points() + 2 > kTaps)
        flush(bin + 1);
      else
        list.end_point();
    }
  }

  void by_pairs(void* scratch, const AxisBins& rows, const AxisBins& columns, const float* x,
                float* y) const {
    std::fill_n(y, channels_ * bins_, 0.0f);
    gather(
        scratch, x, y, [&](int64_t bin, auto&& take) { each_pair(rows, columns, bin, take); },
        [](const TapList& taps, const float* plane, float* to) { taps.add_to(plane, to); });
  }

  /// The largest weighted pixel of all samples; 0 for one outside, and where there is none.
  void by_samples(void* scratch, const roi_align::Span& down, const roi_align::Span& across,
                  const float* x, float* y) const {
    const OperandView& in = views_.inputs[0];
    const auto each_sample = [&](int64_t bin, auto&& visit) {
      for (int64_t i = 0; i < down.samples; ++i) {
        const auto row = roi_align::axis_tap(down.at(bin / across_, i), in.dims[2]);
        for (int64_t j = 0; j < across.samples; ++j)
          visit(row, roi_align::axis_tap(across.at(bin % across_, j), in.dims[3]));
      }
    };
    for (int64_t bin = 0; bin < bins_; ++bin) {
      bool zero = down.samples == 0 || across.samples == 0;
      each_sample(bin, [&](const auto& row, const auto& column) {
        zero = zero || row.outside() || column.outside();
      });
      for (int64_t c = 0; c < channels_; ++c)
        y[c * bins_ + bin] = zero ? 0.0f : -std::numeric_limits<float>::infinity();
    }
    gather(
        scratch, x, y,
        [&](int64_t bin, auto&& take) {
          each_sample(bin, [&](const auto& row, const auto& column) {
            if (row.outside() || column.outside()) return;
            const auto weight = [](double a, double b) { return static_cast<float>(a * b); };
            take(row.low, column.low, weight(1 - row.part, 1 - column.part));
            take(row.low, column.high, weight(1 - row.part, column.part));
            take(row.high, column.low, weight(row.part, 1 - column.part));
            take(row.high, column.high, weight(row.part, column.part));
          });
        },
        [](const TapList& taps, const float* plane, float* to) { taps.raise_to(plane, to); });
  }

  /// Of values that lie channels-last: a pixel's channels in vectors.
  void all_channels(void* scratch, const AxisBins& rows, const AxisBins& columns, const float* x,
                    float* y) const {
    TapList list(at(scratch, rest_at_), 1, kTaps);
    auto* means = reinterpret_cast<float*>(at(scratch, lines_at_));
    float* rest = means + bins_ * channels_;
    for (int64_t bin = 0; bin < bins_; ++bin) {
      float* mean = means + bin * channels_;
      bool begun = false;
      list.clear();
      const auto flush = [&] {
        fns_.weighted_rows(x, list.weighted(), channels_, begun ? rest : mean);
        if (begun)
          for (int64_t c = 0; c < channels_; ++c) mean[c] += rest[c];
        list.clear();
        begun = true;
      };
      each_pair(rows, columns, bin, [&](int64_t row, int64_t column, float weight) {
        if (list.taps() == kTaps) flush();
        list.add(row * views_.inputs[0].dims[3] + column, weight);
      });
      flush();
    }
    turn_.run(means, y);
  }

  const Node* node_;
  OperandViews views_;
  const LineFns& fns_ = line_fns(cpu_info().isa);
  int64_t channels_ = 0, down_ = 0, across_ = 0, bins_ = 0;
  int64_t columns_at_ = 0, rest_at_ = 0, lines_at_ = 0;  ///< in the scratch
  bool largest_ = false, abreast_ = false;
  CopyPlan turn_;  ///< bins by channels to channels by bins
};

Verdict supports(const StepSpec& spec) {
  return dense_of(spec, DType::kF32, DType::kI64, 0);
}
std::vector<Order> orders(const StepSpec& spec) {
  const bool largest = spec.attrs().get_string("mode", "avg") == "max";
  return {largest ? Order::kAny : Order::kChannelsLast, Order::kRowMajor, Order::kRowMajor,
          Order::kRowMajor};
}

}  // namespace

void add_roi_align(Rows& rows) {
  rows.push_back({"xc.sampled", "RoiAlign", supports, create_bound_by<RoiAlignBound>, orders});
}

}  // namespace xc::cpu
