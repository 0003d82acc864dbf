#pragma once
// Any convolution of f32 by the own kernels ("xc.conv", "xc.conv groups", "xc.conv depthwise"), in
// the place of a primitive of the library that there is no time to make: a tenth of a millisecond
// to some for each size, all its code is generated anew. Those of long signals take so much longer
// to make, and are so little faster, that they are never made where vectors are wide. And in the
// place of what the library does without a kernel for it.

#include <memory>
#include <mutex>
#include <optional>

#include "backends/cpu/own_conv.h"

namespace xc::cpu {

class StandInConv {
 public:
  /// There is an Epilogue of all that stands behind the sums.
  explicit StandInConv(const StepSpec& spec);
  /// Null where it could not serve, or is expected to lose more time than it takes to make the
  /// primitive. `conv` is of the step with the operands of the context; `packed`: the library's
  /// weights are. Any number of threads.
  std::shared_ptr<BoundKernel> bind(const BindContext& context, const SqueezedConv& conv,
                                    bool packed) const;
  /// To stay, for what the library has no kernel; null where it is not one channel and one result
  /// per group.
  std::shared_ptr<BoundKernel> bind_depthwise(const BindContext& context,
                                              const SqueezedConv& conv) const;

 private:
  std::shared_ptr<const OwnConv> own() const;  ///< needs the mutex
  bool pays(const ConvProblem& problem, bool packs) const;

  StepSpec spec_;
  std::optional<OwnConvKind> kind_;  ///< that takes it
  bool may_change_;                  ///< bits may, when the library follows
  bool one_size_;                    ///< it is never bound for another
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const OwnConv> own_;  ///< as long as some are bound
  /// The same where sizes change: the next one would pack the weights again. They are small, or
  /// packing would not have paid.
  mutable std::shared_ptr<const OwnConv> kept_;
};

}  // namespace xc::cpu
