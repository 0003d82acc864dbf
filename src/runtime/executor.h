#pragma once
// Executes one run: the steps of a Bound in order, segment by segment.

#include <span>

#include "runtime/output_pool.h"
#include "runtime/program.h"

namespace xc {

/// Where results go. A null slot receives a handle from `pool`; a given one is written in place.
struct OutputPorts {
  xc_tensor** slots = nullptr;
  size_t count = 0;
  OutputPool* pool = nullptr;
  const int64_t* offsets = nullptr;  ///< in bytes, into the memory of given slots; null = none
};

class Executor {
 public:
  Executor(Program& program, RunContext& context, const RunOptions& options)
      : program_(program), context_(context), options_(options) {}

  /// `version`: what the run executes; `side`: 0 active, 1 challenger. When `timed`, step and run
  /// times go to version.times. `slots` end up non-null; on failure those made here are released.
  void run(Version& version, int side, bool timed, void* const* inputs, const OutputPorts& outputs);

 private:
  struct Copy;
  void run_segment(const Bound& bound, int side, BoundTimes* times, void* const* inputs,
                   const OutputPorts& outputs, uint64_t* focus_ticks, const Version* version);
  void** resolve(const Bound& bound, int side, bool reuse);
  void prepare_outputs(const Bound& bound, const OutputPorts& outputs);
  void patch(const Bound& bound, void** pointers, void* const* inputs, const OutputPorts& outputs);
  void run_opaque(const Bound& bound, const BoundStep& step, void** pointers);
  void set_dynamic(const Bound& bound, uint32_t value, Tensor tensor, void** pointers);
  /// What a dynamic or control step made, seen as the plan's value does (a view of it, maybe).
  Tensor dynamic_tensor(const Bound& bound, uint32_t value) const;
  Tensor tensor_of(const Bound& bound, uint32_t value, void* data) const;
  void check_stop() const;

  Program& program_;
  RunContext& context_;
  const RunOptions& options_;
  std::vector<TracedStep>* traced_ = nullptr;  ///< of the run, when it is recorded
};

/// If, Loop, Scan and SequenceMap of `program` on whole tensors (control.cpp).
std::vector<Tensor> run_control(Program& program, const Node& node,
                                const std::vector<Tensor>& inputs, const RunOptions& options,
                                const std::function<void()>& check_stop);

}  // namespace xc
