#include "tier/step_kernel.h"

#include "base/error.h"

namespace xc {
namespace {

class StepBound final : public BoundKernel {
 public:
  static constexpr size_t kMostOperands = 64;

  StepBound(std::shared_ptr<const BoundKernel> bound, std::vector<std::optional<uint32_t>> operands)
      : bound_(std::move(bound)), operands_(std::move(operands)) {
    XC_CHECK(operands_.size() <= kMostOperands);
    tasks = bound_->tasks;
    scratch_bytes = bound_->scratch_bytes;
    shared_bytes = bound_->shared_bytes;
    provisional = bound_->provisional;
    held_bytes = bound_->held_bytes + 256;
  }
  void start(const StepArgs& args) const override {
    void* buffers[kMostOperands];
    bound_->start(in_order(args, buffers));
  }
  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    void* buffers[kMostOperands];
    bound_->run(in_order(args, buffers), begin, end);
  }
  void finish(const StepArgs& args) const override {
    void* buffers[kMostOperands];
    bound_->finish(in_order(args, buffers));
  }

 private:
  StepArgs in_order(const StepArgs& args, void** buffers) const {
    for (size_t k = 0; k < operands_.size(); ++k)
      buffers[k] = operands_[k] ? args.buffers[*operands_[k]] : nullptr;
    return {buffers, args.scratch, args.shared};
  }

  std::shared_ptr<const BoundKernel> bound_;
  std::vector<std::optional<uint32_t>> operands_;
};

}  // namespace

std::shared_ptr<const BoundKernel> StepKernel::bind(const BindContext& context) const {
  std::vector<BoundOperand> operands;
  for (const auto& operand : operands_)
    operands.push_back(!operand                    ? BoundOperand{}
                       : *operand < region_inputs_ ? context.inputs[*operand]
                                                   : context.outputs[*operand - region_inputs_]);
  const size_t inputs = operands.size() - outputs_;
  const std::span<const BoundOperand> all(operands);
  return std::make_shared<StepBound>(
      kernel_->bind({all.first(inputs), all.subspan(inputs), context.background}), operands_);
}

}  // namespace xc
