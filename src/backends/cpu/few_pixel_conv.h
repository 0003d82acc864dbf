#pragma once
// Convolutions into a result of few pixels (the last ones of image networks), with more weights
// than the second-level cache holds, fewer where they are 1x1, or of 1x1 between row-major
// operands: products of a few rows, which read the weights once (own_product.h), where the
// library's kernels wait for them or take vectors of pixels that they do not fill.

#include <atomic>
#include <memory>
#include <mutex>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/epilogue.h"

namespace xc::cpu {

class FewPixelConv {
 public:
  /// `epilogue`: everything behind the sums and the bias.
  FewPixelConv(const StepSpec& spec, Epilogue epilogue);
  // Any number of threads; `conv` is of the step with the operands of the context.
  /// Whether the library does not do as well with these sizes and strides.
  bool suits(const SqueezedConv& conv) const;
  /// What suits. Packs the weights when there first is one.
  std::shared_ptr<BoundKernel> bind(const BindContext& context, const SqueezedConv& conv) const;
  /// Whether they are. Does not wait for who packs.
  bool packed() const { return packed_; }
  /// Packs anew for what is bound from now on.
  void forget_weights();

 private:
  StepSpec spec_;
  Epilogue epilogue_;
  bool possible_ = false;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const std::vector<float>> panels_;
  mutable std::atomic<bool> packed_ = false;
};

}  // namespace xc::cpu
