#pragma once
// Convolutions between channels-last operands that are products of rows with packed weights
// (packed_product.h):
// - 1x1, where matrix units multiply all pixels faster than the library convolves
//   (bf16x3_product.h);
// - along one axis, with more weights than the second-level cache holds: a window is a row, which
//   overlaps the next one where windows do, of the data or of a copy among the zeros of padding.
//   The library's convolution waits for such weights (with AVX-512; README).

#include <memory>
#include <mutex>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/gemm_step.h"
#include "backends/cpu/packed_weights.h"

namespace xc::cpu {

class ProductConv {
 public:
  /// Of a step of f32 with constant weights; null for those that are no such convolution.
  static std::unique_ptr<ProductConv> create(const StepSpec& spec);
  /// The bound convolution, or null where it does not pay with these sizes and strides. Packs the
  /// weights when there first is one. `conv` is of the step with the operands of the context. Any
  /// number of threads.
  std::shared_ptr<BoundKernel> bind(const BindContext& context, const SqueezedConv& conv) const;
  /// Packs anew for what is bound from now on.
  void forget_weights();

 private:
  ProductConv(const StepSpec& spec, MatMulSettings settings, bool on_units);

  StepSpec spec_;
  MatMulSettings settings_;
  bool on_units_;  ///< 1x1
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PackedWeights> weights_;
};

}  // namespace xc::cpu
