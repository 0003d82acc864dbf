#pragma once
// The steps that a backend's kernels execute: how the operands and results of a unit lie so that a
// good kernel takes it, which copies that needs, and whether an earlier plan has the step already.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "backends/step.h"
#include "plan/layout.h"
#include "plan/plan.h"
#include "plan/plan_values.h"
#include "plan/planner.h"
#include "plan/post_ops.h"

namespace xc {

/// Steps of a graph's plans by what they execute: implementation, nodes, dims and strides.
using KnownSteps = std::unordered_map<std::string, std::shared_ptr<const Step>>;

/// Appends kernel steps to a plan under construction. All that it is made with must outlive it.
class KernelSteps {
 public:
  KernelSteps(Plan& plan, PlanValues& values, const Backend& backend, const PlannerOptions& options,
              Layout& layout, KnownSteps& known)
      : plan_(plan),
        graph_(*plan.graph),
        values_(values),
        backend_(backend),
        options_(options),
        layout_(layout),
        known_(known) {}

  /// What a backend is asked about a unit, its operands as they lie and its results as they would.
  /// Operands that are not made yet get row-major stand-ins (PlanValues::operand_value).
  StepSpec spec_of(const Unit& unit);
  /// The unit's step, on the first kernel that takes it: as its operands lie, else with strided
  /// ones copied, else the reference. Decides how its results lie and adds them. Every operand must
  /// be made. Fails (kUnsupported) when nothing can execute it.
  void add(const Unit& unit);
  /// A step that copies a value into row-major memory: into the plan value `to`, or a new one (the
  /// same for every caller). Returns that.
  uint32_t add_copy(uint32_t from, uint32_t to = kNoValue);

 private:
  struct Choice {
    const Implementation* row = nullptr;
    std::vector<Refusal> refused;
  };
  const Implementation* choose(const StepSpec& spec, bool allow_reference,
                               std::vector<Refusal>* refused) const;
  /// The kernel for row-major copies of the strided operands. If there is one, adds the copies and
  /// puts them into `spec` and `inputs`; else null and nothing is changed.
  const Implementation* choose_on_copies(StepSpec& spec, std::vector<uint32_t>& inputs);
  /// Decides how the results lie, which may be what a faster kernel was refused for.
  void decide_layouts(const Unit& unit, StepSpec& spec, Choice& choice);
  /// Reuses the step of an earlier plan when nodes and operand layouts are the same.
  void add_step(const Unit& unit, StepSpec spec, Choice choice, std::vector<uint32_t> inputs);

  Plan& plan_;
  const Graph& graph_;
  PlanValues& values_;
  const Backend& backend_;
  const PlannerOptions& options_;
  Layout& layout_;
  KnownSteps& known_;
  std::unordered_map<uint32_t, uint32_t> copies_;  // PlanValue -> its copy
};

}  // namespace xc
