#pragma once
// Graph -> Plan: views, post-ops, kernel choice with reasons, buffers and segments.

#include <memory>
#include <span>
#include <unordered_map>

#include "backends/backend.h"
#include "plan/fusion/region.h"
#include "plan/in_place_concat.h"
#include "plan/layout.h"
#include "plan/plan.h"

namespace xc {

class PlanBuilder;

struct PlannerOptions {
  Numerics numerics = Numerics::kTolerant;
  int threads = 1;
  bool views = true;            ///< off: every view op is a copying step (tests)
  bool post_ops = true;         ///< off: every op is its own step
  bool winograd = true;         ///< off: convolutions add up every window on its own
  bool layouts = true;          ///< off: every value is row-major, in memory of its own
  bool reference_only = false;  ///< every step on reference kernels (the oracle)
};

/// A region to execute as one step, with the kernel that does it.
struct PlannedRegion {
  Region region;
  std::shared_ptr<Kernel> kernel;
  std::string kernel_name;
};

/// Builds plans of one graph. Steps that do not change between plans (and with them packed weights)
/// are shared through this object. Not thread-safe; a program's tier owns one.
class Planner {
 public:
  Planner(std::shared_ptr<const Graph> graph, const Backend& backend, PlannerOptions options);
  ~Planner();

  /// The base plan, or with `regions` (disjoint, convex) replaced by one step each. Fails with
  /// kUnsupported naming the node when nothing can execute it. A region whose operands lie
  /// otherwise in this plan than region_spec() told is left to the steps of its nodes; `refused`
  /// gets its index.
  std::shared_ptr<const Plan> build(std::span<const PlannedRegion> regions = {},
                                    std::vector<uint32_t>* refused = nullptr);

  /// The operands a region would get: what lower_region() and its kernel are made for. After the
  /// base plan, which decides how values lie.
  StepSpec region_spec(const Region& region);

  const PlannerOptions& options() const { return options_; }

 private:
  friend class PlanBuilder;
  /// Plans the graph anew when Concats can be in place.
  std::shared_ptr<const Plan> put_concats_in_place(std::shared_ptr<const Plan> base);

  std::shared_ptr<const Graph> graph_;
  const Backend& backend_;
  PlannerOptions options_;
  Layout layout_;
  InPlaceConcats concats_;
  std::unique_ptr<PlanBuilder> survey_;  // every value with its layout, for region_spec()
  std::unordered_map<std::string, std::shared_ptr<const Step>> steps_;  // by content of the unit
  uint64_t next_serial_ = 0;
};

/// What the kernels of a plan's steps already do on the way, and what they do it behind: no
/// candidates for regions without products, since it costs next to nothing there. Not chains of
/// elementwise operators, which a region may join with more.
std::vector<NodeId> absorbed_nodes(const Plan& plan);

}  // namespace xc
