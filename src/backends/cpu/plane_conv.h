#pragma once
// Convolutions of few planes each by vectors along the rows of the result, for kernels that go over
// channels-last images: where operands lie plane by plane nothing is turned around.

#include <memory>
#include <mutex>

#include "backends/cpu/conv_problem.h"
#include "backends/step.h"

namespace xc::cpu {

struct PlaneConvModel;

class PlaneConv {
 public:
  explicit PlaneConv(const StepSpec& spec);
  /// The bound convolution, or null where operands do not lie so, or where channels fill vectors
  /// better. `conv` is of the step with the operands of the context. Any number of threads.
  std::shared_ptr<const BoundKernel> bind(const BindContext& context,
                                          const SqueezedConv& conv) const;

 private:
  StepSpec spec_;
  bool possible_ = false;
  bool in_registers_ = false;  ///< what is behind it
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const PlaneConvModel> model_;
};

}  // namespace xc::cpu
