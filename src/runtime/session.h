#pragma once
// A session: the plans, profile and tiers of one model and option set.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "profile/summary.h"
#include "runtime/branch_choice.h"
#include "runtime/model.h"
#include "runtime/tensor_handle.h"

namespace xc {

class MemoryBudget;  // base/memory_budget.h
class Program;       // program.h
class Call;

/// A run of up to so many inputs, and as many outputs, keeps its lists of them on the stack.
inline constexpr size_t kPortsOnStack = 64;

struct RunOptions {
  const std::atomic<bool>* cancel = nullptr;  ///< polled between steps: kCancelled
  int64_t deadline_ns = 0;                    ///< steady clock, checked between steps: kDeadline
  bool no_compile = false;                    ///< this run starts no compilation
  bool no_alloc = false;  ///< fails with kLimit, nothing touched, where xc would have to allocate
  bool made_up = false;   ///< the inputs' values are: nothing is learnt from those
  MemoryBudget* budget = nullptr;  ///< of the run that a body is part of; null = its own
};

class Session {
 public:
  /// `overrides`: non-zero fields replace the engine's. Fails with kInvalidArgument for another
  /// value of what is the engine's alone (ConfigRow), and for strict numerics over an engine that
  /// has others: its passes have changed the model.
  Session(std::shared_ptr<const Model> model, const Config& overrides);
  ~Session();

  /// Any number of threads at once. Inputs in graph order, borrowed. For each output: a null slot
  /// receives a new handle (owned by the caller), a given handle is written in place (its dtype and
  /// dims must be the result's). On failure null slots stay null.
  void run(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
           const RunOptions& options);

  /// Binds fixed inputs and outputs for repeated runs by one thread at a time; the memory must
  /// stay. Null outputs: the call owns memory for them (see Call::output).
  std::unique_ptr<Call> prepare(std::span<const TensorView> inputs,
                                std::span<xc_tensor* const> outputs);

  /// No further changes: current plans stay, nothing is compiled any more. Kernels that skip zeros
  /// are let go: a run's time is not to depend on values.
  void freeze();
  /// Blocks until nothing is queued or compiling; for tests and tools. False on timeout.
  bool wait_idle(std::chrono::milliseconds timeout);

  /// Runs the model on zeros of these dims, one per input, until nothing is left to be compiled or
  /// measured for them, once where nothing adapts; at most `timeout`, looked at between steps.
  /// False on timeout: then it goes on in later runs. Fails as run() does; with kUnsupported for
  /// inputs that are no tensors.
  bool warm_up(const std::vector<Dims>& shapes, std::chrono::milliseconds timeout);

  /// The plan as text or JSON: per step the kernel, those refused and why, regions with their
  /// state. `signature`: dims per input, which fail as those of a run; empty = the plan without
  /// sizes.
  std::string explain(const std::vector<Dims>& signature, bool json);
  ProfileSummary profile() const;
  /// The same without regions and events: cheap enough to ask a hundred times a second.
  ProfileSummary counters() const;
  /// The background work and, with Config::trace_steps, the steps of sampled runs as a Chrome
  /// trace.
  std::string trace() const;

  const Model& model() const { return *model_; }
  const Config& config() const { return config_; }
  Program& program() { return *program_; }

 private:
  ProfileSummary summarise(bool details) const;
  friend class Call;
  /// What runs these inputs.
  std::shared_ptr<Program> program_of(std::span<const TensorView> inputs);
  /// The same for a run that may not allocate.
  std::shared_ptr<Program> ready_program_of(std::span<const TensorView> inputs);
  /// For these inputs' ranks and outcomes of Ifs; null where `program_` is to run them.
  std::shared_ptr<Program> make_variant(std::span<const TensorView> inputs) const;
  /// Do new outcomes run as they are? Where more alternate than there is room for, making variants
  /// would take all the time.
  bool keeps_ifs() const;
  /// So many variants there may be. Of open ranks more while all of them are in use and the weights
  /// that each packs are small: the one that went would be made again at once.
  size_t variants_kept() const;
  /// Makes room for one more variant.
  void forget_variants();

  std::shared_ptr<const Model> model_;
  Config config_;
  bool open_ranks_ = false;  ///< the model leaves the rank of an input open
  bool varies_ = false;      ///< or has Ifs that inputs decide: variants of program_ run
  OpenBranches branches_;
  std::shared_ptr<Program> program_;
  std::shared_ptr<OutputPool> pool_;
  mutable std::mutex forgotten_mutex_;
  ProfileSummary forgotten_;  ///< what programs that are there no more had counted
};

/// A prepared call: fixed shapes, bound memory, no allocation by xc, no lookup. One thread at a
/// time; the session must outlive it.
class Call {
 public:
  ~Call();
  void run();
  /// Borrowed; lives as long as the call.
  xc_tensor* output(size_t index) const;
  size_t output_count() const;

 private:
  friend class Session;
  Call();
  /// Takes the program for what the inputs hold now.
  void choose();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace xc
