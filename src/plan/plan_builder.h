#pragma once
// One plan of a graph in the making: walks the graph's nodes in the order of units and decides for
// each whether it is a step of its own, part of one, or none. What lies where, which symbols are
// known and which kernel a step gets is with its parts.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plan/kernel_steps.h"
#include "plan/plan.h"
#include "plan/plan_symbols.h"
#include "plan/plan_values.h"
#include "plan/planner.h"
#include "plan/post_ops.h"
#include "plan/unit_order.h"

namespace xc {

/// Builds one plan: either build() or survey() is called, once. Reads and adds to what the planner
/// keeps for all plans of its graph (layouts, steps), and must not outlive it or the regions.
class PlanBuilder {
 public:
  PlanBuilder(Planner& planner, std::span<const PlannedRegion> regions);
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

  /// Null: a region has no place in the plan, see misfit().
  std::shared_ptr<const Plan> build();
  /// The region whose operands lie otherwise than region_spec() has it, or that would be what is
  /// no step, after a build() that returned null.
  std::optional<uint32_t> misfit() const { return misfit_; }

  /// Gives every value its place and strides, without choosing kernels.
  void survey();
  /// After survey(): the operands a region's step would have.
  StepSpec spec_of(const Region& region);

 private:
  /// Takes a serial number of the planner.
  static std::shared_ptr<Plan> begin_plan(Planner& planner);

  void declare_sources();
  void visit(NodeId id);
  void survey_node(NodeId id);
  /// Of a node that runs no kernel: its results have their places, and the sizes that they tell are
  /// known from here on. False: it runs one.
  bool placed_without_kernel(NodeId id, const Node& node);
  /// Gives the results of a node that is no step their places; false: it is one.
  bool needs_no_step(const Node& node);
  /// The node, with post-ops where options and kernels have it so.
  Unit unit_at(NodeId anchor);
  /// The step stands at the unit's last node: every operand of its post-ops is made by then.
  void defer(Unit unit);
  /// The region's step, or misfit_.
  void add_region(uint32_t index);
  /// Every graph output in memory that the caller can get: its own buffer or a copy.
  void bind_outputs();
  /// Whether a value is all of an arena buffer, row-major.
  bool fills_arena_buffer(const PlanValue& value) const;
  bool known_in(uint32_t segment, const SymDims& dims) const;

  Planner& planner_;
  const Graph& graph_;
  std::span<const PlannedRegion> regions_;
  std::shared_ptr<Plan> plan_;
  PlanSymbols symbols_;
  PlanValues values_;
  KernelSteps kernel_steps_;
  std::vector<std::vector<NodeId>> users_;
  UnitOrder order_;
  std::unordered_set<NodeId> absorbed_;        // nodes of units of several
  std::unordered_map<NodeId, Unit> deferred_;  // those units by their last nodes
  std::optional<uint32_t> misfit_;
};

}  // namespace xc
