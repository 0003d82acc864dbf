#pragma once
// Copies of the dims and strides a BoundKernel keeps: BindContext only borrows them.

#include <span>
#include <vector>

#include "backends/step.h"

namespace xc::cpu {

/// Belongs to an OperandViews, which holds what it refers to.
struct OperandView {
  std::span<const int64_t> dims, strides;
  DType dtype = DType::kUndefined;
  bool present() const { return dtype != DType::kUndefined; }
  int64_t count() const { return element_count(dims); }
  TensorView at(void* data) const { return {data, dtype, dims, strides}; }
};

/// Of a view, to be changed or for a function that asks for a vector.
inline Dims copied(std::span<const int64_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Every operand of a step with concrete dims; absent ones keep dtype kUndefined. Two blocks of
/// memory for all: binding a new shape makes one of these for most steps.
class OperandViews {
 public:
  std::span<const OperandView> inputs, outputs;

  OperandViews() = default;
  OperandViews(const StepSpec& spec, const BindContext& context);
  OperandViews(OperandViews&&) = default;
  OperandViews& operator=(OperandViews&&) = default;
  OperandViews(const OperandViews&) = delete;
  OperandViews& operator=(const OperandViews&) = delete;

  int64_t bytes() const {
    return static_cast<int64_t>(views_.size() * sizeof(OperandView) +
                                numbers_.size() * sizeof(int64_t));
  }

 private:
  std::vector<OperandView> views_;  ///< inputs, then outputs
  std::vector<int64_t> numbers_;    ///< of each its dims and its strides
};

}  // namespace xc::cpu
