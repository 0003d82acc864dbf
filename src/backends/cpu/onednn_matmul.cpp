// f32 matrix products over oneDNN: "onednn.matmul"; "onednn.matmul bf16" where operands may be
// rounded to that (StepSpec::multiplied_as()).
//
// Two ways. The own product takes any sizes and strides without a primitive, so a new shape costs
// nothing. A constant right side is packed in prepare(), once, and products bound afterwards read
// it so (packed_product.h). In strict mode only the own product is used, one call per part, so that
// results never change.
//
// Where the processor multiplies bf16 and operands may be rounded, weights are packed as bf16.
// Without packed weights both sides are rounded (rounded_product.h), where the model holds them so.

#include <mutex>

#include "backends/cpu/between_casts.h"
#include "backends/cpu/dense_left.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/gemm_step.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/packed_product.h"
#include "backends/cpu/sparse_matmul.h"

namespace xc::cpu {

namespace {

constexpr int64_t kPackSmallest = 64 << 10;  ///< bytes of weights worth packing
constexpr int64_t kHeldSmallest = 4 << 10;   ///< and where the model holds them in bf16
Verdict supports(const StepSpec& spec) {
  return supports_gemm(spec, DType::kF32);
}

/// Why the right side is not packed; empty when it is.
std::string why_not_packed(const StepSpec& spec, const MatMulSettings& settings) {
  const Tensor& weights = spec.inputs[1].constant;
  if (!weights) return "the right side is not constant";
  if (weights.rank() != 2) return "the right side has batches";
  if (settings.strict) return "packed weights change the order of sums";
  if (settings.transpose_a) return "the left side is transposed";
  if (settings.alpha != 1) return "the product is scaled";
  if (weights.byte_size() < (spec.held_in() == DType::kBF16 ? kHeldSmallest : kPackSmallest))
    return "the right side is small";
  return {};
}

bool stored_in_f32(const StepSpec& spec) {
  return spec.inputs[0].dtype == DType::kF32 && !spec.narrows();
}

Verdict supports_bf16(const StepSpec& spec) {
  if (!has_bf16_products()) return Verdict::no("the processor has no bf16 products");
  for (const Operand& operand : {spec.inputs[0], spec.outputs[0]})
    if (operand.dtype != DType::kF32 && operand.dtype != DType::kBF16)
      return Verdict::no(fmt::format("an operand of {}", name(operand.dtype)));
  if (const Verdict plain = supports(in_f32(spec)); !plain.yes()) return plain;
  // Where the model does not ask for it, only what reads weights at half the bytes is worth the
  // digits.
  if (spec.held_in() == DType::kBF16 && stored_in_f32(spec)) return Verdict::ok();
  std::string reason;
  const auto settings = matmul_settings(spec, reason, true);
  return {settings ? why_not_packed(spec, *settings) : reason};
}

/// Of a product worth a copy of its left side.
constexpr int64_t kLeastColumns = 16;

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const StepSpec& spec, DType operands) : spec_(spec) {
    settings_ = matmul_settings(spec, operands == DType::kBF16);
    settings_.operands = operands;
    packable_ = why_not_packed(spec, settings_).empty();
    if (stored_in_f32(spec)) return;
    wide_spec_ = in_f32(spec);
    wide_settings_ = matmul_settings(wide_spec_);
    wide_settings_.operands = operands;
  }

  bool wants_prepare() const override { return packable_ && !this->packed(); }
  void prepare() override {
    if (!packable_) return;
    auto packed = pack_weights(spec_.inputs[1].constant, settings_.transpose_b,
                               {settings_.operands, settings_.operands, DType::kF32},
                               settings_.operands == DType::kBF16 ? 1 : spec_.threads);
    const std::lock_guard lock(mutex_);
    packed_ = std::move(packed);
  }

  bool may_skip_zeros() const override {
    return settings_.operands == DType::kF32 && !settings_.strict;
  }
  std::shared_ptr<Kernel> skipping_zeros() const override {
    return may_skip_zeros() ? create_sparse_matmul(spec_, settings_, packed()) : nullptr;
  }

  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    std::shared_ptr<const PackedWeights> packed = this->packed();
    const BoundProduct product = bound_product(context, settings_);
    bool fits = packed && takes_packed(product);
    if (fits) {
      if (auto bound = bind_packed(context, product, packed)) return bound;
    } else if (packed && !product.folded && product.p.n >= kLeastColumns &&
               context.inputs.size() + 1 <= DenseLeft::kMostOperands) {
      // Rows that are not evenly apart (those of a transposed view) are where they are copied.
      const BoundOperand& left = context.inputs[0];
      const Dims strides = contiguous_strides(Dims(left.dims.begin(), left.dims.end()));
      std::vector<BoundOperand> inputs(context.inputs.begin(), context.inputs.end());
      inputs[0].strides = strides;
      const BindContext dense{inputs, context.outputs, context.background};
      const BoundProduct even = bound_product(dense, settings_);
      fits = takes_packed(even);
      if (fits)
        if (auto bound = bind_packed(dense, even, packed))
          return std::make_shared<DenseLeft>(left, element_size(spec_.inputs[0].dtype),
                                             context.inputs.size() + 1, std::move(bound));
    }
    auto bound = bind_unpacked(context, product);
    bound->provisional |= fits;
    return bound;
  }

 private:
  static bool takes_packed(const BoundProduct& product) {
    const MatMulProblem& p = product.p;
    return product.folded && p.k > 0 && (p.m == 1 || p.c_m >= p.n) && (p.a_k == 1 || p.k == 1) &&
           (p.c_n == 1 || p.n == 1);
  }

  /// Null where that takes too long on the caller's path.
  std::shared_ptr<BoundKernel> bind_packed(const BindContext& context, const BoundProduct& product,
                                           std::shared_ptr<const PackedWeights> packed) const {
    const bool make = context.background || product.p.flops() > kHurryFlops;
    return bind_packed_product(spec_, product.flat.context(), settings_, std::move(packed),
                               product.p, make);
  }

  std::shared_ptr<const PackedWeights> packed() const {
    const std::lock_guard lock(mutex_);
    return packed_;
  }

  std::shared_ptr<BoundKernel> bind_unpacked(const BindContext& context,
                                             const BoundProduct& product) const {
    if (stored_in_f32(spec_)) return bind_gemm(spec_, context, settings_, product);
    return std::make_shared<BetweenCasts>(spec_, context, [&](const BindContext& wide) {
      return bind_gemm(wide_spec_, wide, wide_settings_, bound_product(wide, wide_settings_));
    });
  }

  StepSpec spec_;
  MatMulSettings settings_;
  StepSpec wide_spec_;  ///< in_f32(), where operands are stored otherwise, with settings of its own
  MatMulSettings wide_settings_;
  bool packable_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const PackedWeights> packed_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<MatMulKernel>(spec, DType::kF32);
}
std::unique_ptr<Kernel> create_bf16(const StepSpec& spec) {
  return std::make_unique<MatMulKernel>(spec, DType::kBF16);
}

}  // namespace

void add_onednn_matmul(Rows& rows) {
  for (const std::string_view op : {"MatMul", "Gemm"}) {
    rows.push_back({"onednn.matmul bf16", op, supports_bf16, create_bf16, nullptr, DType::kBF16});
    rows.push_back({"onednn.matmul", op, supports, create});
  }
}

}  // namespace xc::cpu
