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

/// What a request is handed: its copies, and behind them, as one tensor more, the sizes of the run
/// they are of. That may be any run of the plan, for sizes may never come again.
struct Captured {
  Captured(std::vector<Tensor> all);  // NOLINT: what takes this takes what is handed
  std::vector<Tensor> copies;
  std::vector<int64_t> symbols;  ///< Bound::symbols
};

struct Program::Capture {
  const void* who = nullptr;  ///< asked for it
  uint64_t plan_serial = 0;   ///< of a run of this plan's segment
  uint32_t segment = 0;
  int64_t max_bytes = 0;
  std::vector<uint32_t> values;                                    ///< PlanValues
  std::function<bool(std::span<const int64_t>)> wanted = nullptr;  ///< of what sizes; null = any
  static constexpr uint32_t kNoStep = UINT32_MAX;
  /// Instead of `values`: the operands of this step of the plan, inputs as it finds them.
  uint32_t step = kNoStep;
  /// Takes what makes a Captured.
  std::function<void(std::vector<Tensor>)> keep;
  std::atomic<bool> taken{false};

  /// Whether a run of the Bound, of that plan and segment, has all of it and not more than that.
  bool fits(const Bound& bound) const;
  /// Whether such a run serves: it is of sizes that are wanted too. One that cannot be asked does
  /// not.
  bool is_served_by(const Bound& bound) const noexcept;
};

/// What was asked for last. Runs read it without a lock: a request makes another list.
struct Program::Captures {
  static constexpr size_t kMost = 8;
  std::vector<std::shared_ptr<Capture>> wanted;
};

/// Does nothing, at the price of one load, unless a capture of what this Bound runs is requested
/// and this run is the first to take it.
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
  /// Finds out when each copy is to be made.
  void look_up();
  void copy_at_start(void* const* inputs, void* const* pointers);
  void copy_made(size_t position, void* const* pointers);
  void copy(size_t index, const void* data);
  /// Copies the inputs or outputs of the step asked for.
  void copy_operands(void* const* pointers, bool outputs);
  const Bound& bound_;
  Program::Capture* capture_ = nullptr;
  std::vector<uint32_t> after_;     ///< per value: step position after which it is there
  uint32_t position_ = UINT32_MAX;  ///< of the step whose operands are copied
  std::vector<Tensor> tensors_;
};

}  // namespace xc
