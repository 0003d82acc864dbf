#include "backends/cpu/bound_views.h"

#include <algorithm>
#include <utility>

namespace xc::cpu {

OperandViews::OperandViews(const StepSpec& spec, const BindContext& context) {
  XC_CHECK(context.inputs.size() == spec.inputs.size() &&
           context.outputs.size() == spec.outputs.size());
  const auto each_present = [&](auto&& visit) {
    OperandView* view = views_.data();
    const auto all = [&](const std::vector<Operand>& of, std::span<const BoundOperand> bound) {
      for (size_t i = 0; i < of.size(); ++i, ++view)
        if (of[i].present()) visit(*view, of[i], bound[i]);
    };
    all(spec.inputs, context.inputs);
    all(spec.outputs, context.outputs);
  };
  views_.resize(spec.inputs.size() + spec.outputs.size());
  size_t numbers = 0;
  each_present([&](OperandView&, const Operand&, const BoundOperand& bound) {
    numbers += bound.dims.size() + bound.strides.size();
  });
  numbers_.resize(numbers);
  int64_t* to = numbers_.data();
  const auto kept = [&](std::span<const int64_t> from) {
    int64_t* const at = std::exchange(to, std::copy(from.begin(), from.end(), to));
    return std::span<const int64_t>(at, from.size());
  };
  each_present([&](OperandView& view, const Operand& operand, const BoundOperand& bound) {
    view.dtype = operand.dtype;
    view.dims = kept(bound.dims);
    view.strides = kept(bound.strides);
  });
  inputs = std::span(views_).first(spec.inputs.size());
  outputs = std::span(views_).subspan(spec.inputs.size());
}

}  // namespace xc::cpu
