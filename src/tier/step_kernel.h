#pragma once
// A step's kernel as that of a region with the same nodes, whose operands may come in another
// order: a region has every operand once, a step has places for absent ones.

#include <memory>
#include <optional>
#include <vector>

#include "backends/step.h"

namespace xc {

class StepKernel final : public Kernel {
 public:
  /// `operands`: per operand of the step, inputs then outputs, which of the region it is; nullopt:
  /// absent. `outputs`: how many of them, the last ones, are outputs. `region_inputs`: the
  /// region's.
  StepKernel(std::shared_ptr<const Kernel> kernel, std::vector<std::optional<uint32_t>> operands,
             size_t outputs, size_t region_inputs)
      : kernel_(std::move(kernel)),
        operands_(std::move(operands)),
        outputs_(outputs),
        region_inputs_(region_inputs) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override;

 private:
  std::shared_ptr<const Kernel> kernel_;
  std::vector<std::optional<uint32_t>> operands_;
  size_t outputs_, region_inputs_;
};

}  // namespace xc
