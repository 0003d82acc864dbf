#include "backends/cpu/pointwise_conv.h"

#include <algorithm>

#include "backends/cpu/bf16x3_product.h"
#include "backends/cpu/packed_product.h"

namespace xc::cpu {
namespace {

constexpr size_t kX = 0, kW = 1, kB = 2;

/// Operands with the axis of channels behind all others.
class ChannelsBehind {
 public:
  ChannelsBehind(const StepSpec& spec, const BindContext& context)
      : rank_(context.outputs[0].dims.size()) {
    const BoundOperand& w = context.inputs[kW];
    dims_.reserve(context.inputs.size() + 1);
    strides_.reserve(context.inputs.size() + 1);
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      if (i == kW)
        inputs_.push_back({w.dims.first(2), w.strides.first(2)});
      else if (i == kB || (i < spec.inputs.size() && !spec.inputs[i].present()))
        inputs_.push_back(context.inputs[i]);  // one element for each channel
      else
        inputs_.push_back(turned(context.inputs[i]));
    }
    outputs_.push_back(turned(context.outputs[0]));
    background_ = context.background;
  }
  BindContext context() const { return {inputs_, outputs_, background_}; }

 private:
  /// An operand that is repeated over leading axes has all of them.
  BoundOperand turned(const BoundOperand& operand) {
    Dims dims(rank_, 1), strides(rank_, 0);
    const size_t missing = rank_ - operand.dims.size();
    std::ranges::copy(operand.dims, dims.begin() + static_cast<ptrdiff_t>(missing));
    std::ranges::copy(operand.strides, strides.begin() + static_cast<ptrdiff_t>(missing));
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
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

}  // namespace

std::unique_ptr<PointwiseConv> PointwiseConv::create(const StepSpec& spec) {
  if (!bf16x3_fns() || spec.numerics == Numerics::kStrict || !spec.inputs[kW].constant ||
      spec.inputs[kX].dtype != DType::kF32 || !is_pointwise(spec))
    return nullptr;
  auto settings = settings_of(spec);
  if (!settings) return nullptr;
  return std::unique_ptr<PointwiseConv>(new PointwiseConv(spec, std::move(*settings)));
}

PointwiseConv::PointwiseConv(const StepSpec& spec, MatMulSettings settings)
    : spec_(spec), settings_(std::move(settings)) {}

std::shared_ptr<BoundKernel> PointwiseConv::bind(const BindContext& context) const {
  const ChannelsBehind turned(spec_, context);
  const BoundProduct product = bound_product(turned.context(), settings_);
  const MatMulProblem& p = product.p;
  if (!product.folded || !Bf16x3Product::pays(p) || p.a_k != 1 || p.c_n != 1 || p.c_m < p.n)
    return nullptr;
  const std::lock_guard lock(mutex_);
  if (!weights_) {
    const Tensor& w = spec_.inputs[kW].constant;
    weights_ = pack_weights(w.reshaped({w.dims()[0], w.dims()[1]}), true,
                            {DType::kF32, DType::kF32, DType::kF32}, spec_.threads);
  }
  if (!weights_->for_units) return nullptr;
  return bind_packed_product(spec_, product.flat.context(), settings_, weights_, p, true);
}

void PointwiseConv::forget_weights() {
  const std::lock_guard lock(mutex_);
  weights_ = nullptr;
}

}  // namespace xc::cpu
