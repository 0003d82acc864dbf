#include "backends/cpu/control_inputs.h"

#include <algorithm>

namespace xc::cpu {

Tensor ControlInputs::tensor(size_t i) const {
  const Operand& operand = spec_.inputs[i];
  if (operand.constant) return operand.constant;
  if (!buffers_) fail(Status::kInternal, "input {} is not known before the run", i);
  const OperandView& view = views_.inputs[i];
  Tensor out(view.dtype, copied(view.dims));
  copy_elements(view.at(buffers_[i]), out.view());
  return out;
}

std::vector<int64_t> ControlInputs::ints(size_t i) const {
  const Tensor& constant = spec_.inputs[i].constant;
  return constant ? constant.to_int64s() : tensor(i).to_int64s();
}
std::vector<double> ControlInputs::doubles(size_t i) const {
  return tensor(i).to_doubles();
}

bool ControlInputs::constant(const StepSpec& spec, size_t first, size_t last) {
  for (size_t i = first; i < std::min(last, spec.inputs.size()); ++i)
    if (spec.inputs[i].present() && !spec.inputs[i].constant) return false;
  return true;
}

std::string movable_reason(DType type) {
  const int64_t bytes = type == DType::kString ? 0 : element_size(type);
  if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16) return {};
  return fmt::format("elements of type {}", name(type));
}

}  // namespace xc::cpu
