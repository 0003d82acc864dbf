#pragma once
// A kernel of f32 for a step that stores operand 0 or its result otherwise, in halves for example.

#include <memory>
#include <optional>

#include "backends/cpu/chunk_program.h"
#include "backends/cpu/strided_space.h"
#include "backends/step.h"
#include "base/function_ref.h"

namespace xc::cpu {

/// The step with operand 0 and its result in f32.
StepSpec in_f32(const StepSpec& spec);

/// A strided copy into another type. From f32 to u8 saturating, what rounding took below a whole
/// number forgiven.
class Conversion {
 public:
  Conversion(DType from, DType to, std::span<const int64_t> dims,
             std::span<const int64_t> from_strides, std::span<const int64_t> to_strides);
  int64_t scratch_bytes() const { return align_up(program_->scratch_bytes(), 64); }
  void run(const void* from, void* to, void* scratch) const;

 private:
  std::shared_ptr<ChunkProgram> program_;
  StridedSpace space_;
};

/// The kernel of f32 between conversions in scratch, which are whole operands: what runs until a
/// kernel that reads halves is there, and sizes and strides that it does not serve. One task.
class BetweenCasts final : public BoundKernel {
 public:
  using Bind = FunctionRef<std::shared_ptr<const BoundKernel>(const BindContext&)>;
  /// `bind` makes the kernel, for operand 0 and the result row-major in f32; it shares no memory
  /// between tasks.
  BetweenCasts(const StepSpec& spec, const BindContext& context, Bind bind);
  void run(const StepArgs& args, int64_t begin, int64_t end) const override;

 private:
  static constexpr size_t kMostBuffers = 32;

  size_t result_;  ///< among the buffers
  std::optional<Conversion> load_, store_;
  std::shared_ptr<const BoundKernel> inner_;
  int64_t result_at_ = 0, inner_at_ = 0;  ///< in scratch
};

}  // namespace xc::cpu
