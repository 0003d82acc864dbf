// Conv in f64, "xc.conv gathered": the library has none. Some pixels of the result at a time, what
// their windows hold becomes the columns of a matrix, which is multiplied by the weights as they
// lie.

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/convolve.h"

namespace xc::cpu {
namespace {

constexpr int64_t kColumnElements = 64 << 10;  ///< of a task's matrix: half a megabyte
constexpr int64_t kFewestPixels = 16, kMostPixels = 512;

class GatheredConvBound final : public BoundKernel {
 public:
  GatheredConvBound(const StepSpec& spec, const BindContext& context)
      : inputs_(spec.inputs.size()), biased_(inputs_ > 2 && spec.inputs[2].present()) {
    const auto& w = context.inputs[1].dims;
    shape_ = conv_shape(*spec.node, context.inputs[0].dims, w, context.outputs[0].dims);
    const auto& [d, h, v] = shape_.axes;
    plane_ = checked_mul(checked_mul(d.input, h.input), v.input);
    pixels_ = checked_mul(checked_mul(d.output, h.output), v.output);
    terms_ =
        checked_mul(checked_mul(checked_mul(d.kernel, h.kernel), v.kernel), shape_.in_channels);
    // Whole rows of the result, or a part of one.
    const int64_t most =
        std::clamp(kColumnElements / std::max<int64_t>(terms_, 1), kFewestPixels, kMostPixels);
    width_ = std::clamp<int64_t>(v.output, 1, most);
    height_ = v.output <= most ? std::max<int64_t>(1, most / width_) : 1;
    across_ = ceil_div(v.output, width_);
    down_ = ceil_div(d.output * h.output, height_);
    tasks = context.outputs[0].dims[1] == 0
                ? 0
                : checked_mul(shape_.batch * shape_.groups, checked_mul(down_, across_));
    const int64_t columns = checked_mul(height_, width_);
    room_at_ = align_up(checked_mul(checked_mul(terms_, columns), 8), 64);
    room_ = gemm_room<double>(shape_.out_channels, columns, terms_);
    scratch_bytes = room_at_ + room_ * 8;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* const w = static_cast<const double*>(args.buffers[1]);
    const auto* const bias = biased_ ? static_cast<const double*>(args.buffers[2]) : nullptr;
    auto* const columns = static_cast<double*>(args.scratch);
    const int64_t rows = shape_.axes[0].output * shape_.axes[1].output;
    const int64_t outputs = shape_.out_channels;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % (down_ * across_), image_group = task / (down_ * across_);
      const int64_t group = image_group % shape_.groups;
      const Block part{block / across_ * height_, std::min(rows, (block / across_ + 1) * height_),
                       block % across_ * width_,
                       std::min(shape_.axes[2].output, (block % across_ + 1) * width_)};
      const int64_t count = (part.row1 - part.row0) * (part.column1 - part.column0);
      gather(
          static_cast<const double*>(args.buffers[0]) + image_group * shape_.in_channels * plane_,
          part, columns);
      double* const y = static_cast<double*>(args.buffers[inputs_]) +
                        image_group * outputs * pixels_ + part.row0 * shape_.axes[2].output +
                        part.column0;
      for (int64_t m = 0; m < outputs; ++m)
        std::fill_n(y + m * pixels_, count, bias ? bias[group * outputs + m] : 0.0);
      if (terms_ == 0) continue;
      own_gemm<double>(
          {.m = outputs,
           .n = count,
           .k = terms_,
           .alpha = 1.0,
           .a = w + group * outputs * terms_,
           .lda = terms_,
           .b = columns,
           .ldb = count,
           .beta = 1.0,
           .c = y,
           .ldc = pixels_,
           .room = reinterpret_cast<double*>(static_cast<std::byte*>(args.scratch) + room_at_),
           .room_elements = room_});
    }
  }

 private:
  /// Rows of the result, counted over the outer axes, and columns of each.
  struct Block {
    int64_t row0, row1, column0, column1;
  };

  /// What the windows of a block hold: [channel, kernel position][pixel].
  void gather(const double* x, const Block& block, double* to) const {
    const auto& [d, h, v] = shape_.axes;
    for (int64_t c = 0; c < shape_.in_channels; ++c, x += plane_)
      for (int64_t k0 = 0; k0 < d.kernel; ++k0)
        for (int64_t k1 = 0; k1 < h.kernel; ++k1)
          for (int64_t k2 = 0; k2 < v.kernel; ++k2) {
            const RowRange there = v.outputs(k2);
            const int64_t first = std::clamp(there.begin, block.column0, block.column1),
                          last = std::clamp(there.end, first, block.column1);
            for (int64_t row = block.row0; row < block.row1; ++row) {
              const int64_t i0 = d.at(row / h.output, k0), i1 = h.at(row % h.output, k1);
              const bool inside = d.inside(i0) && h.inside(i1);
              const int64_t begin = inside ? first : block.column0,
                            end = inside ? last : block.column0;
              to = std::fill_n(to, begin - block.column0, 0.0);
              if (begin < end) {
                const double* from = x + (i0 * h.input + i1) * v.input + v.at(begin, k2);
                for (int64_t i = begin; i < end; ++i, from += v.stride) *to++ = *from;
              }
              to = std::fill_n(to, block.column1 - end, 0.0);
            }
          }
  }

  size_t inputs_;
  bool biased_;
  ConvShape shape_;
  int64_t plane_ = 1, pixels_ = 1, terms_ = 1;              ///< terms: of a sum
  int64_t width_ = 1, height_ = 1, across_ = 1, down_ = 1;  ///< of blocks, and how many
  int64_t room_at_ = 0, room_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (spec.inputs[0].dims.size() > 5) return Verdict::no("more than three spatial axes");
  return dense_of(spec, DType::kF64, DType::kF64);
}

}  // namespace

void add_gathered_conv(Rows& rows) {
  rows.push_back({"xc.conv gathered", "Conv", supports, create_bound_by<GatheredConvBound>});
}

}  // namespace xc::cpu
