#include "backends/cpu/pixel_norms.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/vector/pixels_fn.h"
#include "base/checked.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskChannels = 64;  ///< at least, where there are so many

/// A task is some groups of one sample: its channels over all pixels, three times over.
class PixelNormBound final : public BoundKernel {
 public:
  PixelNormBound(const StepSpec& spec, const BindContext& context, int64_t groups, float epsilon)
      : views_(spec, context),
        fns_(pixel_fns(cpu_info().isa)),
        groups_(groups),
        epsilon_(static_cast<double>(epsilon)) {
    const std::span<const int64_t> dims = views_.inputs[0].dims;
    channels_ = dims[1];
    pixels_ = element_count(dims.subspan(2));
    group_ = channels_ / groups_;
    task_groups_ = std::clamp<int64_t>(ceil_div(kTaskChannels, group_), 1, groups_);
    parts_ = ceil_div(groups_, task_groups_);
    tasks = checked_mul(dims[0], parts_);
    const int64_t most = task_groups_ * group_;
    floats_at_ = align_up(most * 8, 64);
    scratch_bytes = floats_at_ + 3 * align_up(most * 4, 64);
    in_place = 1;
    held_bytes += views_.bytes() + 256;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const int64_t most = task_groups_ * group_;
    auto* sums = static_cast<double*>(args.scratch);
    auto* mean = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + floats_at_);
    float *factor = mean + align_up(most, 16), *shift = factor + align_up(most, 16);
    const auto* scale = static_cast<const float*>(args.buffers[1]);
    const auto* bias = static_cast<const float*>(args.buffers[2]);
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    const auto count = static_cast<double>(group_ * pixels_);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t sample = task / parts_, first_group = task % parts_ * task_groups_;
      const int64_t groups = std::min(task_groups_, groups_ - first_group);
      const int64_t first = first_group * group_, channels = groups * group_;
      const Pixels p{static_cast<const float*>(args.buffers[0]) + sample * x.strides[0] + first,
                     pixels_, channels_, channels};
      std::fill_n(sums, channels, 0.0);
      fns_.sums(p, sums);
      for (int64_t g = 0; g < groups; ++g)
        std::fill_n(mean + g * group_, group_, static_cast<float>(group_sum(sums, g) / count));
      std::fill_n(sums, channels, 0.0);
      fns_.squares(p, mean, sums);
      for (int64_t g = 0; g < groups; ++g) {
        const double inverse = 1 / std::sqrt(group_sum(sums, g) / count + epsilon_);
        for (int64_t c = g * group_; c < (g + 1) * group_; ++c) {
          const double s = scale[(first + c) * views_.inputs[1].strides[0]];
          factor[c] = static_cast<float>(inverse * s);
          shift[c] = bias[(first + c) * views_.inputs[2].strides[0]];
        }
      }
      float* out = static_cast<float*>(args.buffers[3]) + sample * y.strides[0] + first;
      fns_.affine(p, mean, factor, shift, out, channels_);
    }
  }

 private:
  double group_sum(const double* sums, int64_t group) const {
    double out = 0;
    for (int64_t c = group * group_; c < (group + 1) * group_; ++c) out += sums[c];
    return out;
  }

  OperandViews views_;
  const PixelFns& fns_;
  int64_t groups_, channels_ = 0, pixels_ = 0, group_ = 1;
  int64_t task_groups_ = 1, parts_ = 1;
  int64_t floats_at_ = 0;
  double epsilon_;
};

}  // namespace

std::shared_ptr<const BoundKernel> bind_pixel_norm(const StepSpec& spec, const BindContext& context,
                                                   int64_t groups, float epsilon) {
  const BoundOperand &x = context.inputs[0], &y = context.outputs[0];
  if (element_count(x.dims) == 0 || !lies_channels_last(x.dims, x.strides) ||
      !lies_channels_last(y.dims, y.strides))
    return nullptr;
  return std::make_shared<PixelNormBound>(spec, context, groups, epsilon);
}

}  // namespace xc::cpu
