#pragma once
// Row-major copies of inputs that lie otherwise. Steps are bound for row-major inputs: which
// strides a caller has is no part of a signature.

#include <memory>
#include <vector>

#include "backends/step.h"
#include "base/memory_budget.h"
#include "runtime/growing_memory.h"

namespace xc {

/// Of a run context: memory and copies that are there serve later runs of the same dims and
/// strides.
class StagedInputs {
 public:
  explicit StagedInputs(const Engine& engine) : engine_(&engine), memory_(engine) {}

  /// Whether an input is copied here. Objects (strings) are not, nor what has no elements.
  static bool takes(const TensorView& input) {
    return !input.contiguous() && !holds_objects(input.dtype) && input.count() != 0;
  }
  /// Whether place() takes no memory for these inputs.
  bool ready(std::span<const TensorView> inputs) const;
  /// data[i] = where input i will lie, for each that is taken. Charges `budget`, which may be null,
  /// first.
  void place(std::span<const TensorView> inputs, void** data, MemoryBudget* budget);
  /// Copies the elements of those inputs, placed before, by the engine's threads. Allocates
  /// nothing.
  void copy(std::span<const TensorView> inputs) const;

 private:
  struct Copy {
    DType dtype;
    Dims dims, strides;
    std::shared_ptr<const BoundKernel> kernel;
    int64_t offset = 0;  ///< in memory_
    bool of(const TensorView& input) const;
  };
  static int64_t bytes_of(const TensorView& input);
  Copy copy_of(const TensorView& input) const;

  const Engine* engine_;
  GrowingMemory memory_;
  std::vector<Copy> copies_;  ///< of the last run's inputs, in their order
};

}  // namespace xc
