// MaxRoiPool: "xc.roi_pool". The bins of a region are the same for every channel; the rows of those
// that lie side by side are folded into one first.

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "base/checked.h"
#include "ops/roi_align.h"

namespace xc::cpu {
namespace {

/// The larger one; a NaN in v is passed over.
float larger(float best, float v) {
  return v > best ? v : best;
}

class MaxRoiPoolBound final : public BoundKernel {
 public:
  MaxRoiPoolBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context), scale_(spec.attrs().get_float("spatial_scale", 1)) {
    const std::span<const int64_t> x = views_.inputs[0].dims, y = views_.outputs[0].dims;
    images_ = x[0];
    channels_ = x[1];
    height_ = x[2];
    width_ = x[3];
    down_ = y[2];
    across_ = y[3];
    tasks = y[0];
    row_at_ = checked_mul(down_ + across_, static_cast<int64_t>(sizeof(Bin)));
    scratch_bytes = checked_add(row_at_, checked_mul(width_, sizeof(float)));
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    auto* const rows = static_cast<Bin*>(args.scratch);
    auto* const line = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + row_at_);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = find_bins(static_cast<const float*>(args.buffers[1]) + task * 5, rows);
      const float* x =
          static_cast<const float*>(args.buffers[0]) + image * channels_ * height_ * width_;
      float* y = static_cast<float*>(args.buffers[2]) + task * channels_ * down_ * across_;
      for (int64_t c = 0; c < channels_; ++c, x += height_ * width_)
        for (int64_t p = 0; p < down_; ++p, y += across_)
          pool_row(x, rows[p], rows + down_, line, y);
    }
  }

 private:
  struct Bin {
    int64_t begin, end;
    bool empty() const { return begin >= end; }
  };

  /// Of the region: bins down, then across. Returns its image.
  int64_t find_bins(const float* numbers, Bin* bins) const {
    double region[5];
    std::copy_n(numbers, 5, region);
    const auto [image, x1, y1, x2, y2] = roi_pool::region_of(region, scale_, images_);
    const auto bin = [](std::pair<int64_t, int64_t> b) { return Bin{b.first, b.second}; };
    for (int64_t p = 0; p < down_; ++p) bins[p] = bin(roi_pool::bin_of(y1, y2, down_, p, height_));
    for (int64_t p = 0; p < across_; ++p)
      bins[down_ + p] = bin(roi_pool::bin_of(x1, x2, across_, p, width_));
    return image;
  }

  /// A row of bins of a plane; the bins' pixels across rise.
  void pool_row(const float* plane, const Bin& rows, const Bin* bins, float* line, float* y) const {
    if (rows.empty()) {
      std::fill_n(y, across_, 0.0f);
      return;
    }
    const int64_t first = bins[0].begin, last = bins[across_ - 1].end;
    if (first < last)
      std::fill_n(line + first, last - first, -std::numeric_limits<float>::infinity());
    for (int64_t h = rows.begin; h < rows.end; ++h)
      for (int64_t w = first; w < last; ++w) line[w] = larger(line[w], plane[h * width_ + w]);
    for (int64_t p = 0; p < across_; ++p) {
      float best = bins[p].empty() ? 0.0f : -std::numeric_limits<float>::infinity();
      for (int64_t w = bins[p].begin; w < bins[p].end; ++w) best = larger(best, line[w]);
      y[p] = best;
    }
  }

  OperandViews views_;
  double scale_;
  int64_t images_ = 0, channels_ = 0, height_ = 0, width_ = 0, down_ = 0, across_ = 0, row_at_ = 0;
};

}  // namespace

void add_roi_pool(Rows& rows) {
  rows.push_back({"xc.roi_pool", "MaxRoiPool", dense_f32, create_bound_by<MaxRoiPoolBound>});
}

}  // namespace xc::cpu
