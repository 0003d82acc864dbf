#include "backends/cpu/product_conv.h"

#include <algorithm>

#include "backends/cpu/bf16x3_product.h"
#include "backends/cpu/conv_problem.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/dense_left.h"
#include "backends/cpu/packed_product.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;

/// Fewer windows are left to products of few rows (few_pixel_conv.h).
constexpr int64_t kLeastWindows = 65;

/// The rows of the product: windows of channels-last data, or of a copy that lies so.
struct Windows {
  size_t axis;     ///< spatial, with several positions of the kernel
  int64_t count;   ///< outputs along it
  int64_t image;   ///< elements from one image to the next
  int64_t stride;  ///< elements from one window to the next
  int64_t length;  ///< elements, side by side
  std::optional<DenseLeft::Place> copy;
};
/// Of a convolution along one axis, without dilation; none of others.
std::optional<Windows> windows_of(const SqueezedConv& conv) {
  const ConvProblem& p = conv.problem;
  if (p.axes.size() != 1 || p.groups != 1 || p.axes[0].dilation != 1) return std::nullopt;
  const WindowAxis& axis = p.axes[0];
  const int64_t channels = p.in_channels, padded = axis.pad_begin + axis.input + axis.pad_end;
  Windows out{conv.kept[0],           axis.output, conv.x.strides[0], axis.stride * channels,
              axis.kernel * channels, {}};
  if (padded == axis.input && conv.x.strides[1] == 1 && conv.x.strides[2] == channels) return out;
  out.image = padded * channels;
  out.copy =
      DenseLeft::Place{{out.image, 1, channels}, axis.pad_begin * channels, p.batch * out.image};
  return out;
}

/// Operands with the axis of channels behind all others; in place of its data a convolution with
/// several positions of the kernel has its windows.
class ChannelsBehind {
 public:
  ChannelsBehind(const StepSpec& spec, const BindContext& context,
                 const std::optional<Windows>& windows)
      : rank_(context.outputs[0].dims.size()) {
    dims_.reserve(context.inputs.size() + 1);
    strides_.reserve(context.inputs.size() + 1);
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      if (i == kW)
        inputs_.push_back(rows_of_weights(context.inputs[kW]));
      else if (i == kB || (i < spec.inputs.size() && !spec.inputs[i].present()))
        inputs_.push_back(context.inputs[i]);  // one element for each channel
      else
        inputs_.push_back(turned(context.inputs[i], i == kX ? windows : std::nullopt));
    }
    outputs_.push_back(turned(context.outputs[0], std::nullopt));
    background_ = context.background;
  }
  BindContext context() const { return {inputs_, outputs_, background_}; }

 private:
  /// [out, kernel position and in]: as they are packed.
  BoundOperand rows_of_weights(const BoundOperand& w) {
    dims_.push_back({w.dims[0], element_count(w.dims.subspan(1))});
    strides_.push_back({dims_.back()[1], 1});
    return {dims_.back(), strides_.back()};
  }
  /// An operand that is repeated over leading axes has all of them.
  BoundOperand turned(const BoundOperand& operand, const std::optional<Windows>& windows) {
    Dims dims(rank_, 1), strides(rank_, 0);
    const size_t missing = rank_ - operand.dims.size();
    std::ranges::copy(operand.dims, dims.begin() + static_cast<ptrdiff_t>(missing));
    std::ranges::copy(operand.strides, strides.begin() + static_cast<ptrdiff_t>(missing));
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
    if (windows) {
      strides[0] = windows->image;
      dims[1 + windows->axis] = windows->count;
      strides[1 + windows->axis] = windows->stride;
      dims.back() = windows->length;
      strides.back() = 1;
    }
    dims_.push_back(std::move(dims));
    strides_.push_back(std::move(strides));
    return {dims_.back(), strides_.back()};
  }

  size_t rank_;
  std::vector<Dims> dims_, strides_;
  std::vector<BoundOperand> inputs_, outputs_;
  bool background_;
};

bool is_pointwise(const StepSpec& spec) {
  const auto all = [](std::span<const int64_t> values, int64_t value) {
    return std::ranges::all_of(values, [&](int64_t v) { return v == value; });
  };
  return all(std::span(spec.inputs[kW].constant.dims()).subspan(2), 1) &&
         spec.attrs().get_int("group", 1) == 1 && all(spec.attrs().get_ints("strides"), 1) &&
         all(spec.attrs().get_ints("pads"), 0);
}

std::optional<MatMulSettings> settings_of(const StepSpec& spec) {
  std::vector<Epilogue::Addend> bias;
  if (spec.inputs.size() > kB && spec.inputs[kB].present()) bias.push_back({kB, 1});
  std::string reason;
  auto epilogue = Epilogue::build(spec, bias, reason, true);
  if (!epilogue) return std::nullopt;
  MatMulSettings out;
  out.transpose_b = true;
  out.epilogue = std::move(*epilogue);
  return out;
}

/// Whether the library waits for the weights of a convolution along one axis.
bool has_long_windows(const StepSpec& spec) {
  const Tensor& w = spec.inputs[kW].constant;
  const auto kernel = std::span(w.dims()).subspan(2);
  const auto along = std::ranges::count_if(kernel, [](int64_t taps) { return taps != 1; });
  return cpu_info().isa >= Isa::kAvx512 && along == 1 && spec.attrs().get_int("group", 1) == 1 &&
         w.contiguous() && w.count() * 4 > cpu_info().l2_bytes;
}

/// Weights [out, in, kernel...] as [out, kernel position and in].
Tensor rows_of_weights(const Tensor& w) {
  const int64_t out = w.dims()[0], in = w.dims()[1],
                taps = w.count() / std::max<int64_t>(1, out * in);
  if (taps == 1) return w.reshaped({out, in});
  const Tensor held = w.held();
  Tensor rows(DType::kF32, {out, taps * in});
  for (int64_t o = 0; o < out; ++o)
    copy_matrix({taps, in, 1, taps, in, 1, 4}, held.as<float>() + o * in * taps,
                rows.as<float>() + o * in * taps);
  held.forget();
  return rows;
}

}  // namespace

std::unique_ptr<ProductConv> ProductConv::create(const StepSpec& spec) {
  if (spec.numerics == Numerics::kStrict || !spec.inputs[kW].constant ||
      spec.inputs[kX].dtype != DType::kF32)
    return nullptr;
  const bool on_units = bf16x3_fns() && is_pointwise(spec);
  if (!on_units && !has_long_windows(spec)) return nullptr;
  auto settings = settings_of(spec);
  if (!settings) return nullptr;
  return std::unique_ptr<ProductConv>(new ProductConv(spec, std::move(*settings), on_units));
}

ProductConv::ProductConv(const StepSpec& spec, MatMulSettings settings, bool on_units)
    : spec_(spec), settings_(std::move(settings)), on_units_(on_units) {}

std::shared_ptr<BoundKernel> ProductConv::bind(const BindContext& context,
                                               const SqueezedConv& conv) const {
  const size_t operands = context.inputs.size() + context.outputs.size();
  std::optional<Windows> windows;
  if (!on_units_) {
    windows = windows_of(conv);
    if (!windows || windows->count < kLeastWindows || conv.problem.batch == 0) return nullptr;
    if (windows->copy && operands > DenseLeft::kMostOperands) return nullptr;
  }
  const ChannelsBehind turned(spec_, context, windows);
  const BoundProduct product = bound_product(turned.context(), settings_);
  const MatMulProblem& p = product.p;
  if (!product.folded || (on_units_ && !Bf16x3Product::pays(p)) || p.a_k != 1 || p.c_n != 1 ||
      p.c_m < p.n)
    return nullptr;
  const std::lock_guard lock(mutex_);
  if (!weights_)
    weights_ = pack_weights(rows_of_weights(spec_.inputs[kW].constant), true,
                            {DType::kF32, DType::kF32, DType::kF32}, spec_.threads);
  if (on_units_ && !weights_->for_units) return nullptr;
  auto bound = bind_packed_product(spec_, product.flat.context(), settings_, weights_, p, true);
  if (!windows || !windows->copy || !bound) return bound;
  return std::make_shared<DenseLeft>(conv.x.operand(), 4, operands, std::move(bound),
                                     windows->copy);
}

void ProductConv::forget_weights() {
  const std::lock_guard lock(mutex_);
  weights_ = nullptr;
}

}  // namespace xc::cpu
