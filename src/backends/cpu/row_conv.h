#pragma once
// Any ungrouped convolution of f32 by rows ("xc.conv"), in the place of a primitive of the library
// that there is no time to make: half a millisecond to one for each size, all its code is generated
// anew. Small convolutions take less than that by rows. Those of long signals take so much longer
// to make, and are so little faster, that they are never made where vectors are wide.

#include <memory>
#include <mutex>

#include "backends/step.h"

namespace xc::cpu {

struct RowConvModel;

class StandInConv {
 public:
  /// There is an Epilogue of all that stands behind the sums.
  explicit StandInConv(const StepSpec& spec);
  /// Null where it could not serve, or would take longer than making the primitive. Any number of
  /// threads.
  std::shared_ptr<BoundKernel> bind(const BindContext& context) const;

 private:
  StepSpec spec_;
  bool possible_;
  bool may_change_;  ///< bits may, when the library follows
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const RowConvModel> model_;  ///< packed weights: as long as some are bound
};

}  // namespace xc::cpu
