#pragma once
// Small integer operands that steer a kernel (axes, starts, pads): read at bind when constant, else
// from the buffers of each run.

#include <optional>

#include "backends/cpu/bound_views.h"

namespace xc::cpu {

class ControlInputs {
 public:
  ControlInputs(const StepSpec& spec, const OperandViews& views) : spec_(spec), views_(views) {}
  ControlInputs(const StepSpec& spec, const OperandViews& views, void* const* buffers)
      : spec_(spec), views_(views), buffers_(buffers) {}
  bool has(size_t i) const { return i < spec_.inputs.size() && spec_.inputs[i].present(); }
  /// Elements of input i in row-major order; fails with kInternal when not known yet.
  std::vector<int64_t> ints(size_t i) const;
  std::vector<double> doubles(size_t i) const;
  /// True when inputs [first, last) are constants or absent: everything is known at bind.
  static bool constant(const StepSpec& spec, size_t first, size_t last = SIZE_MAX);

 private:
  Tensor tensor(size_t i) const;
  const StepSpec& spec_;
  const OperandViews& views_;
  void* const* buffers_ = nullptr;
};

/// "elements of type string" and the like, or empty for types moved as 1, 2, 4, 8 or 16 bytes.
std::string movable_reason(DType type);

}  // namespace xc::cpu
