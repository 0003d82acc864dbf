#pragma once
// A kernel for a first operand that lies in some way, behind a copy of one that lies otherwise.

#include <memory>
#include <optional>

#include "backends/cpu/copy.h"
#include "backends/step.h"

namespace xc::cpu {

/// Copies operand 0 into shared memory, then runs `inner`, which was bound for that. For products
/// by packed weights, whose rows have to be evenly apart: the copy takes little beside them.
class DenseLeft final : public BoundKernel {
 public:
  /// Where the copy lies among zeros, in elements.
  struct Place {
    Dims strides;
    int64_t offset, elements;
  };
  /// `left`: operand 0 as it lies; `operands`: of the step, inputs and outputs. Without `place`
  /// the copy is row-major.
  DenseLeft(const BoundOperand& left, int64_t element_bytes, size_t operands,
            std::shared_ptr<const BoundKernel> inner, std::optional<Place> place = {});
  void start(const StepArgs& args) const override;
  void run(const StepArgs& args, int64_t begin, int64_t end) const override;
  void finish(const StepArgs& args) const override;

  static constexpr size_t kMostOperands = 32;

 private:
  /// Calls f with the arguments of the inner kernel.
  template <class F>
  void with_dense(const StepArgs& args, F&& f) const;

  size_t operands_;
  int64_t offset_ = 0;  ///< bytes
  bool has_zeros_;
  CopyPlan copy_;
  std::shared_ptr<const BoundKernel> inner_;
  int64_t inner_at_ = 0;  ///< in shared memory
};

}  // namespace xc::cpu
