#include "backends/cpu/pixel_conv_transpose.h"

#include <algorithm>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/vector/rows_fn.h"
#include "base/checked.h"
#include "ops/conv_transpose.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;
constexpr int64_t kBlock = 192;    ///< pixels of a product
constexpr int64_t kColumns = 512;  ///< of a product: its result stays in the second-level cache
constexpr int64_t kFewest = 8;     ///< channels of the result that are worth a row

/// Weights [slice of output channels][input channel][kernel position][channel of the slice].
struct SlicedWeights {
  explicit SlicedWeights(const StepSpec& spec) {
    const Tensor w = spec.inputs[kW].constant.held();
    in_channels = w.dims()[0];
    out_channels = w.dims()[1];
    kernel = element_count(std::span(w.dims()).subspan(2));
    width = std::clamp<int64_t>(kColumns / std::max<int64_t>(kernel, 1), kFewest, out_channels);
    slices = ceil_div(out_channels, width);
    values.resize(static_cast<size_t>(w.count()));
    for (int64_t s = 0; s < slices; ++s) {
      const Dims dims{in_channels, kernel, columns(s)};
      CopyPlan(dims, Dims{out_channels * kernel, 1, kernel}, contiguous_strides(dims), 4)
          .run(w.as<float>() + s * width * kernel, values.data() + at(s));
    }
  }
  /// Channels of slice s.
  int64_t columns(int64_t s) const { return std::min(width, out_channels - s * width); }
  int64_t at(int64_t s) const { return s * width * in_channels * kernel; }

  int64_t in_channels = 0, out_channels = 0, kernel = 1;
  int64_t width = 0, slices = 1;
  std::vector<float> values;
};

bool lies_channels_last(const OperandView& view) {
  return view.dims[1] > 1 && view.strides[1] == 1;
}

/// A task is a slice of the channels of one image.
class PixelConvTransposeBound final : public BoundKernel {
 public:
  PixelConvTransposeBound(const StepSpec& spec, const BindContext& context,
                          std::shared_ptr<const SlicedWeights> weights)
      : views_(spec, context),
        weights_(std::move(weights)),
        add_(fold_fns(Fold::kSum, DType::kF32, cpu_info().isa)) {
    unread = 1u << kW;
    const OperandView &x = views_.inputs[kX], &y = views_.outputs[0];
    axes_ = conv_transpose_axes(*spec.node, x.dims, views_.inputs[kW].dims, y.dims);
    for (const WindowAxis& axis : axes_) {
      pixels_ = checked_mul(pixels_, axis.input);
      plane_ = checked_mul(plane_, axis.output);
    }
    tasks = y.count() == 0 ? 0 : checked_mul(y.dims[0], weights_->slices);
    x_last_ = lies_channels_last(x);
    staged_ = !lies_channels_last(y);
    product_bytes_ = align_up(checked_mul(kBlock * weights_->kernel, weights_->width * 4), 64);
    scratch_bytes = product_bytes_;
    if (staged_)
      scratch_bytes = checked_add(scratch_bytes, checked_mul(plane_, weights_->width * 4));
    held_bytes += views_.bytes() + 256;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const SlicedWeights& w = *weights_;
    const auto* bias = views_.inputs.size() > kB && views_.inputs[kB].present()
                           ? static_cast<const float*>(args.buffers[kB])
                           : nullptr;
    auto* product = static_cast<float*>(args.scratch);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / w.slices, slice = task % w.slices;
      const int64_t first = slice * w.width, columns = w.columns(slice);
      const auto* x = static_cast<const float*>(args.buffers[kX]) + image * pixels_ * w.in_channels;
      float* y =
          static_cast<float*>(args.buffers[views_.inputs.size()]) + image * plane_ * w.out_channels;
      // [pixel of the result][channel of the slice], where it belongs or in scratch.
      float* to = y + first;
      int64_t step = w.out_channels;
      if (staged_) {
        to = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + product_bytes_);
        step = columns;
      }
      for (int64_t p = 0; p < plane_; ++p)
        if (bias)
          std::copy_n(bias + first, columns, to + p * step);
        else
          std::fill_n(to + p * step, columns, 0.0f);
      for (int64_t p = 0; w.in_channels > 0 && p < pixels_; p += kBlock) {
        const int64_t block = std::min(kBlock, pixels_ - p);
        const int64_t n = w.kernel * columns;
        own_gemm<float>({!x_last_, false, block, n, w.in_channels, 1.0f,
                         x_last_ ? x + p * w.in_channels : x + p, x_last_ ? w.in_channels : pixels_,
                         w.values.data() + w.at(slice), n, 0.0f, product, n});
        for (int64_t i = 0; i < block; ++i) add_up(p + i, product + i * n, columns, to, step);
      }
      if (staged_) {
        const Dims dims{columns, plane_}, from{1, columns}, rows{plane_, 1};
        CopyPlan(dims, from, rows, 4).run(to, y + first * plane_);
      }
    }
  }

 private:
  /// What one pixel adds: [kernel position][channel].
  void add_up(int64_t pixel, const float* from, int64_t columns, float* to, int64_t step) const {
    const auto& [a0, a1, a2] = axes_;
    const int64_t i2 = pixel % a2.input, i1 = pixel / a2.input % a1.input,
                  i0 = pixel / a2.input / a1.input;
    for (int64_t k0 = 0; k0 < a0.kernel; ++k0)
      for (int64_t k1 = 0; k1 < a1.kernel; ++k1)
        for (int64_t k2 = 0; k2 < a2.kernel; ++k2, from += columns) {
          const int64_t o0 = a0.at(i0, k0), o1 = a1.at(i1, k1), o2 = a2.at(i2, k2);
          if (!in_result(a0, o0) || !in_result(a1, o1) || !in_result(a2, o2)) continue;
          add_.columns(from, 1, columns, columns,
                       to + ((o0 * a1.output + o1) * a2.output + o2) * step);
        }
  }

  OperandViews views_;
  std::shared_ptr<const SlicedWeights> weights_;
  FoldFns add_;
  std::array<WindowAxis, 3> axes_;
  int64_t pixels_ = 1, plane_ = 1;
  bool x_last_ = false, staged_ = false;
  int64_t product_bytes_ = 0;
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const SlicedWeights>& weights) {
  return std::make_shared<PixelConvTransposeBound>(spec, context, weights);
}

/// Dense, row-major or channels-last.
bool lies_well(const Operand& operand) {
  return operand.contiguous() || operand.strides == channels_last_strides(operand.dims);
}

}  // namespace

Verdict supports_pixel_conv_transpose(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.inputs[kX].dims.size() > 5) return Verdict::no("more than three spatial axes");
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands)
      if (operand.present() && operand.dtype != DType::kF32)
        return Verdict::no(fmt::format("elements of type {}", name(operand.dtype)));
  const Tensor& w = spec.inputs[kW].constant;
  if (!w || !is_contiguous(w.dims(), w.strides())) return Verdict::no("weights are not constant");
  if (spec.attrs().get_int("group", 1) != 1) return Verdict::no("groups");
  if (w.dims()[1] < kFewest) return Verdict::no("few channels of the result");
  if (spec.inputs.size() > kB && spec.inputs[kB].present() && !spec.inputs[kB].contiguous())
    return Verdict::no("a bias with gaps");
  if (!lies_well(spec.inputs[kX]) || !lies_well(spec.outputs[0]))
    return Verdict::no("operands that are neither row-major nor channels-last");
  return Verdict::ok();
}

std::unique_ptr<Kernel> create_pixel_conv_transpose(const StepSpec& spec) {
  return create_prepared<SlicedWeights, bind>(spec);
}

}  // namespace xc::cpu
