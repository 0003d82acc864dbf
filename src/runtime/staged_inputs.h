#pragma once
// Copies of inputs that steps cannot read where they are. Steps are bound for row-major inputs
// (which strides a caller has is no part of a signature), and a run writes results while it still
// reads inputs: an output may lie in an input's memory where the plan updates that in place.

#include <memory>
#include <vector>

#include "backends/step.h"
#include "base/memory_budget.h"
#include "plan/bound.h"
#include "runtime/growing_memory.h"
#include "runtime/output_pool.h"

namespace xc {

/// The inputs of a run that copies some of them, and a pointer to each, which is set.
struct Staging {
  std::span<const TensorView> inputs;
  void** data;
};

/// Of a run context: memory and copies that are there serve later runs of the same dims and
/// strides.
class StagedInputs {
 public:
  explicit StagedInputs(const Engine& engine) : engine_(&engine), memory_(engine) {}

  /// Whether an input is copied for its strides. Objects (strings) are not, nor what has no
  /// elements.
  static bool takes(const TensorView& input) {
    return !input.contiguous() && !holds_objects(input.dtype) && input.count() != 0;
  }
  /// Decides for a run what is copied: what takes() says, and inputs in whose memory an output
  /// lies, but for `updated`. data[i] is input i where it is not copied.
  void choose(const Staging& staging, const OutputPorts& outputs,
              std::span<const SharedPort> updated);
  /// Whether choose() takes no memory for so many inputs.
  bool has_room(size_t inputs) const { return chosen_.capacity() >= inputs; }
  /// Whether place() takes no memory for these inputs, chosen before.
  bool ready(std::span<const TensorView> inputs) const;
  /// data[i] = where input i will lie, for each that is chosen. Charges `budget`, which may be
  /// null, first.
  void place(const Staging& staging, MemoryBudget* budget);
  /// Copies the elements of those inputs, placed before, by the engine's threads. Allocates
  /// nothing.
  void copy(std::span<const TensorView> inputs) const;
  /// Their memory, which place() takes anew.
  GrowingMemory& memory() { return memory_; }
  const GrowingMemory& memory() const { return memory_; }

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
  std::vector<uint8_t> chosen_;  ///< per input
  GrowingMemory memory_;
  std::vector<Copy> copies_;  ///< of the last run's inputs, in their order
};

}  // namespace xc
