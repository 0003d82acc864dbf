#pragma once
// A BoundKernel that runs a ChunkProgram over strided operands of any rank, split into tasks.

#include <memory>

#include "backends/cpu/chunk_program.h"
#include "backends/cpu/strided_space.h"
#include "backends/step.h"

namespace xc::cpu {

/// Runs the program over the whole space; pointers[k] is operand k's first element.
/// `space` has at least three axes.
void run_over(const ChunkProgram& program, const StridedSpace& space, std::byte* const* pointers,
              void* scratch);

class StridedProgram final : public BoundKernel {
 public:
  /// `space.strides` has one entry per operand of the program, in order, and at least three axes.
  /// `buffer_of[k]` is the index of operand k in StepArgs::buffers.
  StridedProgram(std::shared_ptr<const ChunkProgram> program, StridedSpace space,
                 std::vector<uint32_t> buffer_of);
  void run(const StepArgs& args, int64_t begin, int64_t end) const override;

 private:
  void run_rows(const StepArgs& args, int64_t first, int64_t last) const;
  /// Parts [first, last) of a row's columns.
  void run_columns(const StepArgs& args, int64_t row, int64_t first, int64_t last) const;

  std::shared_ptr<const ChunkProgram> program_;
  StridedSpace space_;
  std::vector<uint32_t> buffer_of_;
  std::vector<uint8_t> bytes_;  ///< element size per operand
  int64_t rows_ = 1;            ///< product of all axes but the last
  int64_t cols_ = 1;
  int64_t parts_ = 1;  ///< of the columns: tasks are rows, or parts of them
};

}  // namespace xc::cpu
