#pragma once
// Any ungrouped convolution of f32 by rows ("xc.conv"), in the place of a primitive of the library
// that there is no time to make: half a millisecond to one for each size, all its code is generated
// anew. Small convolutions take less than that by rows.

#include <memory>
#include <mutex>

#include "backends/step.h"

namespace xc::cpu {

class StandInConv {
 public:
  explicit StandInConv(const StepSpec& spec);
  /// Null where it could not serve, or would take longer than making the primitive. Packs the
  /// weights at the first one. Any number of threads.
  std::shared_ptr<BoundKernel> bind(const BindContext& context) const;
  /// Packs anew for what is bound from now on.
  void forget_weights();

 private:
  StepSpec spec_;
  bool possible_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const struct RowConvModel> model_;
};

}  // namespace xc::cpu
