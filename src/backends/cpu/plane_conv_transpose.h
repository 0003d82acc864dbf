#pragma once
// Transposed convolutions into few channels whose operands lie plane by plane, by vectors along the
// rows of each phase, part of "xc.conv_transpose".

#include <memory>
#include <mutex>

#include "backends/step.h"

namespace xc::cpu {

struct PlaneTransposeModel;

class PlaneConvTranspose {
 public:
  explicit PlaneConvTranspose(const StepSpec& spec);
  /// The bound convolution, or null where operands do not lie so, or where others gain more. Any
  /// number of threads.
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const;

 private:
  StepSpec spec_;
  bool possible_ = false;
  int64_t planes_ = 0;  ///< of a group of the input
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PlaneTransposeModel> model_;
};

}  // namespace xc::cpu
