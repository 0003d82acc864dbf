#pragma once
// A bounded copy of some values of one live run, taken by the running thread as the run makes them:
// what a tier verifies a new kernel on.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/program.h"

namespace xc {

struct Program::Capture {
  const void* who = nullptr;  ///< asked for it
  uint64_t bound_serial = 0;
  std::vector<uint32_t> values;  ///< PlanValues of that Bound's plan
  std::vector<uint32_t> after;   ///< step position after which each is there
  std::function<void(std::vector<Tensor>)> keep;
  static constexpr uint32_t kNoStep = UINT32_MAX;
  /// Instead of `values`: the operands of the step at this position, inputs as it finds them.
  uint32_t step = kNoStep;
  std::atomic<bool> taken{false};
};

/// What was asked for last. Runs read it without a lock: a request makes another list.
struct Program::Captures {
  static constexpr size_t kMost = 8;
  std::vector<std::shared_ptr<Capture>> wanted;
};

/// Does nothing, at the price of one load, unless a capture of this Bound is requested and this run
/// is the first to take it.
class CaptureScope {
 public:
  /// `pointers`: of the Bound's steps, resolved. `allowed`: this run may be the one.
  CaptureScope(Program& program, const Bound& bound, void* const* inputs, void* const* pointers,
               bool allowed);
  explicit operator bool() const { return capture_ != nullptr; }
  void after_step(size_t position, void* const* pointers);
  void finish();

 private:
  /// A copy is taken or not: what it throws, for want of memory say, is no failure of the run.
  template <class F>
  void attempt(F&& work) noexcept;
  void copy_at_start(void* const* inputs, void* const* pointers);
  void copy_made(size_t position, void* const* pointers);
  void copy(size_t index, const void* data);
  /// Copies the inputs or outputs of the step asked for.
  void copy_operands(void* const* pointers, bool outputs);
  const Bound& bound_;
  Program::Capture* capture_ = nullptr;
  std::vector<Tensor> tensors_;
};

}  // namespace xc
