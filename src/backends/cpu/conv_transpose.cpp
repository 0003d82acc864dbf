// ConvTranspose, "xc.conv_transpose": in f32 with constant weights phase by phase
// (phase_conv_transpose.h). Here the rest, f64, weights that are made by the run and few channels:
// one product makes what every input adds to the result, then the contributions are added up where
// they belong.

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/phase_conv_transpose.h"
#include "backends/cpu/plane_conv_transpose.h"
#include "backends/cpu/simple_kernel.h"
#include "ops/conv_transpose.h"

namespace xc::cpu {
namespace {

constexpr int64_t kScratchElements = 256 << 10;  ///< contributions at a time

template <class T>
class ConvTransposeBound final : public BoundKernel {
 public:
  ConvTransposeBound(const StepSpec& spec, const BindContext& context)
      : views_(spec, context), biased_(spec.inputs.size() > 2 && spec.inputs[2].present()) {
    const std::span<const int64_t> x = views_.inputs[0].dims, w = views_.inputs[1].dims,
                                   y = views_.outputs[0].dims;
    axes_ = conv_transpose_axes(*spec.node, x, w, y);
    groups_ = spec.attrs().get_int("group", 1);
    in_channels_ = x[1] / groups_;
    out_channels_ = w[1];
    for (const WindowAxis& axis : axes_) {
      pixels_ = checked_mul(pixels_, axis.input);
      plane_ = checked_mul(plane_, axis.output);
      kernel_ = checked_mul(kernel_, axis.kernel);
    }
    const int64_t each = checked_mul(kernel_, pixels_);
    at_once_ = std::clamp<int64_t>(kScratchElements / std::max<int64_t>(each, 1), 1,
                                   std::max<int64_t>(out_channels_, 1));
    chunks_ = ceil_div(out_channels_, at_once_);
    tasks = views_.outputs[0].count() == 0 ? 0 : y[0] * groups_ * chunks_;
    room_at_ = align_up(checked_mul(checked_mul(at_once_, each), sizeof(T)), 64);
    room_ = gemm_room<T>(at_once_ * kernel_, pixels_, in_channels_);
    scratch_bytes = checked_add(room_at_, room_ * int64_t{sizeof(T)});
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* w = static_cast<const T*>(args.buffers[1]);
    const auto* bias = biased_ ? static_cast<const T*>(args.buffers[2]) : nullptr;
    auto* columns = static_cast<T*>(args.scratch);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % chunks_ * at_once_, rest = task / chunks_;
      const int64_t count = std::min(at_once_, out_channels_ - first);
      const int64_t group = rest % groups_;
      const T* x = static_cast<const T*>(args.buffers[0]) + rest * in_channels_ * pixels_;
      const int64_t row = out_channels_ * kernel_;
      const Gemm<T> product{
          .transpose_a = true,
          .m = count * kernel_,
          .n = pixels_,
          .k = in_channels_,
          .alpha = 1,
          .a = w + group * in_channels_ * row + first * kernel_,
          .lda = row,
          .b = x,
          .ldb = pixels_,
          .beta = 0,
          .c = columns,
          .ldc = pixels_,
          .room = reinterpret_cast<T*>(static_cast<std::byte*>(args.scratch) + room_at_),
          .room_elements = room_,
      };
      if (in_channels_ == 0 || pixels_ == 0)
        std::fill_n(columns, count * kernel_ * pixels_, T{0});
      else
        own_gemm(product);
      for (int64_t m = 0; m < count; ++m) {
        const int64_t channel = group * out_channels_ + first + m;
        T* y = static_cast<T*>(args.buffers[views_.inputs.size()]) +
               (rest * out_channels_ + first + m) * plane_;
        std::fill_n(y, plane_, bias ? bias[channel] : T{0});
        add_up(columns + m * kernel_ * pixels_, y);
      }
    }
  }

 private:
  /// Contributions [kernel position][pixel] of one channel.
  void add_up(const T* from, T* y) const {
    const auto& [a0, a1, a2] = axes_;
    for (int64_t k0 = 0; k0 < a0.kernel; ++k0)
      for (int64_t k1 = 0; k1 < a1.kernel; ++k1)
        for (int64_t k2 = 0; k2 < a2.kernel; ++k2)
          for (int64_t i0 = 0; i0 < a0.input; ++i0)
            for (int64_t i1 = 0; i1 < a1.input; ++i1, from += a2.input) {
              const int64_t o0 = a0.at(i0, k0), o1 = a1.at(i1, k1);
              if (!in_result(a0, o0) || !in_result(a1, o1)) continue;
              // Inputs whose contribution lies in the row.
              const int64_t shift = a2.at(0, k2);
              const int64_t i2 = shift < 0 ? ceil_div(-shift, a2.stride) : 0;
              const int64_t last = std::min(
                  a2.input, shift >= a2.output ? 0 : (a2.output - 1 - shift) / a2.stride + 1);
              T* row = y + (o0 * a1.output + o1) * a2.output + shift;
              for (int64_t i = i2; i < last; ++i) row[i * a2.stride] += from[i];
            }
  }

  OperandViews views_;
  bool biased_;
  std::array<WindowAxis, 3> axes_;
  int64_t groups_ = 1, in_channels_ = 0, out_channels_ = 0;  ///< channels per group
  int64_t pixels_ = 1, plane_ = 1, kernel_ = 1, at_once_ = 1, chunks_ = 1;
  int64_t room_at_ = 0, room_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (supports_phase_conv_transpose(spec).yes()) return Verdict::ok();
  if (spec.inputs[0].dims.size() > 5) return Verdict::no("more than three spatial axes");
  const DType type = spec.inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return dense_of(spec, type, type);
}

/// Few channels of the result, or weights of the run.
std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const PlaneConvTranspose>& planes) {
  if (auto bound = planes->bind(context)) return bound;
  return std::make_shared<ConvTransposeBound<float>>(spec, context);
}

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  if (spec.inputs[0].dtype == DType::kF64) return create_bound_by<ConvTransposeBound<double>>(spec);
  return supports_phase_conv_transpose(spec).yes()
             ? create_phase_conv_transpose(spec)
             : create_prepared<PlaneConvTranspose, bind>(spec);
}

std::vector<Order> preferred(const StepSpec& spec) {
  const bool phases = supports_phase_conv_transpose(spec).yes();
  std::vector<Order> out(spec.inputs.size() + spec.outputs.size(), Order::kRowMajor);
  if (phases) out.front() = out.back() = Order::kChannelsLast;
  return out;
}

}  // namespace

void add_conv_transpose(Rows& rows) {
  rows.push_back({.name = "xc.conv_transpose",
                  .op = "ConvTranspose",
                  .supports = supports,
                  .create = create,
                  .preferred = preferred,
                  .takes_gaps = true});
}

}  // namespace xc::cpu
