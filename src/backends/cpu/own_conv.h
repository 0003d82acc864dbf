#pragma once
// The own convolutions that go over channels-last rows, for those who decide themselves when to use
// one.

#include <memory>

#include "backends/cpu/conv_problem.h"
#include "backends/step.h"

namespace xc::cpu {

/// What binding does not depend on: packed weights, and what stands behind the sums. What is bound
/// keeps it.
class OwnConv : public std::enable_shared_from_this<OwnConv> {
 public:
  virtual ~OwnConv() = default;
  /// `conv` is of the step with the operands of the context. Any number of threads.
  virtual std::shared_ptr<BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                            const SqueezedConv& conv) const = 0;
};

/// A kind of them. `takes` looks at weights and windows, not at what stands behind the sums, for
/// which there must be an Epilogue, nor at what the library does faster.
struct OwnConvKind {
  Verdict (*takes)(const StepSpec& spec);
  std::shared_ptr<const OwnConv> (*make)(const StepSpec& spec);
};
OwnConvKind row_conv();        ///< one group
OwnConvKind group_conv();      ///< groups of any width
OwnConvKind depthwise_conv();  ///< one channel and one result per group

template <class Model>
std::shared_ptr<const OwnConv> make_own_conv(const StepSpec& spec) {
  return std::make_shared<const Model>(spec);
}

/// A base of the model `Model`, whose convolutions are bound as `Bound`(spec, context, conv,
/// model).
template <class Model, class Bound>
std::shared_ptr<BoundKernel> bind_own_conv(const Model& model, const StepSpec& spec,
                                           const BindContext& context, const SqueezedConv& conv) {
  return std::make_shared<Bound>(spec, context, conv,
                                 std::static_pointer_cast<const Model>(model.shared_from_this()));
}

}  // namespace xc::cpu
