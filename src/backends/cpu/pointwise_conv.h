#pragma once
// 1x1 convolutions between channels-last images as products of all pixels with packed weights
// (packed_product.h), where matrix units multiply these faster than the library convolves
// (bf16x3_product.h).

#include <memory>
#include <mutex>

#include "backends/cpu/gemm_step.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

class PointwiseConv {
 public:
  /// Of a step of f32 with a constant kernel of one element; null for others, and without units.
  static std::unique_ptr<PointwiseConv> create(const StepSpec& spec);
  /// The bound convolution, or null where it does not pay with these sizes and strides. Packs the
  /// weights when there first is one. Any number of threads.
  std::shared_ptr<BoundKernel> bind(const BindContext& context) const;
  /// Packs anew for what is bound from now on.
  void forget_weights();

 private:
  PointwiseConv(const StepSpec& spec, MatMulSettings settings);

  StepSpec spec_;
  MatMulSettings settings_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace xc::cpu
