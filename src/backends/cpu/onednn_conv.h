#pragma once
// The library's convolution of f32, for a kernel that leaves some sizes to it.

#include <memory>

#include "backends/step.h"

namespace xc::cpu {

class OnednnConv {
 public:
  /// Whether the library has it.
  static Verdict supports(const StepSpec& spec);
  explicit OnednnConv(const StepSpec& spec);
  ~OnednnConv();
  /// Any number of threads. `provisional`: what BoundKernel has to say of that.
  std::shared_ptr<const BoundKernel> bind(const BindContext& context, bool provisional) const;
  /// Weights that were packed for what is bound already are not kept for what will be.
  void forget_weights();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xc::cpu
