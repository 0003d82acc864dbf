#pragma once
// Copies of the dims and strides a BoundKernel keeps: BindContext only borrows them.

#include "backends/step.h"

namespace xc::cpu {

struct OperandView {
  Dims dims;
  Dims strides;
  DType dtype = DType::kUndefined;
  bool present() const { return dtype != DType::kUndefined; }
  int64_t count() const { return element_count(dims); }
  TensorView at(void* data) const { return {data, dtype, dims, strides}; }
};

/// Every operand of a step with concrete dims; absent ones keep dtype kUndefined.
struct OperandViews {
  std::vector<OperandView> inputs, outputs;
  OperandViews() = default;
  OperandViews(const StepSpec& spec, const BindContext& context) {
    const auto fill = [](const std::vector<Operand>& of, std::span<const BoundOperand> bound,
                         std::vector<OperandView>& to) {
      XC_CHECK(bound.size() == of.size());
      to.resize(of.size());
      for (size_t i = 0; i < of.size(); ++i) {
        if (!of[i].present()) continue;
        to[i].dtype = of[i].dtype;
        to[i].dims.assign(bound[i].dims.begin(), bound[i].dims.end());
        to[i].strides.assign(bound[i].strides.begin(), bound[i].strides.end());
      }
    };
    fill(spec.inputs, context.inputs, inputs);
    fill(spec.outputs, context.outputs, outputs);
  }
  int64_t bytes() const {
    int64_t total = 0;
    for (const auto* list : {&inputs, &outputs})
      for (const OperandView& view : *list)
        total += static_cast<int64_t>(sizeof(view) + 16 * view.dims.size());
    return total;
  }
};

}  // namespace xc::cpu
