#pragma once
// Executes one run: the steps of a Bound in order, segment by segment.

#include <span>

#include "runtime/output_pool.h"
#include "runtime/program.h"

namespace xc {

class Executor {
 public:
  Executor(Program& program, RunContext& context, const RunOptions& options)
      : program_(program), context_(context), options_(options) {}

  /// `turn`: how the run, the context's number `run`, takes its first segment; later ones are
  /// chosen on the way and left in RunContext::later. `slots` end up non-null; on failure those
  /// made here are released.
  void run(const Turn& turn, uint64_t run, void* const* inputs, const OutputPorts& outputs);

 private:
  struct Copy;
  /// Returns the ticks of the steps that a trial compares.
  uint64_t run_segment(const Turn& turn, void* const* inputs, const OutputPorts& outputs);
  /// The segments behind sizes that the run finds out; the last one's Bound.
  const Bound& run_later(const Turn& first, uint64_t run, void* const* inputs,
                         const OutputPorts& outputs);
  void point_to_made(const Bound& bound, void** pointers) const;
  void hand_out_made(const Bound& last, void* const* inputs, const OutputPorts& outputs);
  void** resolve(const Bound& bound, int side, bool reuse);
  void prepare_outputs(const Bound& bound, const OutputPorts& outputs);
  void patch(const Bound& bound, void** pointers, void* const* inputs, const OutputPorts& outputs);
  void run_opaque(const Bound& bound, const BoundStep& step, void** pointers);
  /// What a step of an operator with concrete views makes; none where it takes carry_out().
  std::vector<Tensor> cut_out(const Bound& bound, const Step& step, void* const* operands) const;
  std::vector<Tensor> carry_out(const Bound& bound, const Step& step, std::vector<Tensor> inputs);
  void set_dynamic(const Bound& bound, uint32_t value, Tensor tensor, void** pointers);
  /// What a dynamic or control step made, seen as the plan's value does (a view of it, maybe).
  Tensor dynamic_tensor(const Bound& bound, uint32_t value) const;
  TensorView view_of(const Bound& bound, uint32_t value, void* data) const;
  Tensor tensor_of(const Bound& bound, uint32_t value, void* data) const;
  void check_stop() const;
  /// Samples what a step is about to read.
  void look_at(const Bound& bound, const BoundStep& step, void* const* pointers, uint64_t number);

  Program& program_;
  RunContext& context_;
  const RunOptions& options_;
  std::vector<TracedStep>* traced_ = nullptr;  ///< of the run, when it is recorded
  uint64_t looked_ = 0;                        ///< ticks spent in look_at()
};

/// If, Loop, Scan and SequenceMap of `program` on whole tensors (control.cpp).
std::vector<Tensor> run_control(Program& program, const Node& node,
                                const std::vector<Tensor>& inputs, const RunOptions& options,
                                const std::function<void()>& check_stop);

}  // namespace xc
