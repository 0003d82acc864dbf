#include "plan/planner.h"

#include <unordered_set>

#include "ops/op.h"
#include "plan/plan_builder.h"

namespace xc {

Planner::Planner(std::shared_ptr<const Graph> graph, const Backend& backend, PlannerOptions options)
    : graph_(std::move(graph)), backend_(backend), options_(options), layout_(*graph_, backend) {}

Planner::~Planner() = default;

std::shared_ptr<const Plan> Planner::build(std::span<const PlannedRegion> regions,
                                           std::vector<uint32_t>* refused) {
  std::vector<PlannedRegion> left(regions.begin(), regions.end());
  std::vector<uint32_t> index(regions.size());
  for (uint32_t k = 0; k < index.size(); ++k) index[k] = k;
  for (;;) {
    PlanBuilder builder(*this, left);
    if (auto plan = builder.build())
      return plan->serial == 0 ? put_concats_in_place(std::move(plan)) : plan;
    const auto at = static_cast<ptrdiff_t>(*builder.misfit());
    if (refused) refused->push_back(index[static_cast<size_t>(at)]);
    left.erase(left.begin() + at);
    index.erase(index.begin() + at);
  }
}

std::shared_ptr<const Plan> Planner::put_concats_in_place(std::shared_ptr<const Plan> base) {
  if (!options_.layouts || base->region_steps > 0 || !concats_.decide(*base, backend_)) return base;
  next_serial_ = base->serial;
  auto plan = PlanBuilder(*this, {}).build();
  // Steps that write elsewhere now.
  std::unordered_set<const Kernel*> used;
  for (const auto& step : plan->steps) used.insert(step->kernel.get());
  std::erase_if(steps_, [&](const auto& known) { return !used.count(known.second->kernel.get()); });
  return plan;
}

std::vector<NodeId> absorbed_nodes(const Plan& plan) {
  std::vector<NodeId> out;
  for (const auto& step : plan.steps)
    if (step->nodes.size() > 1 && !plan.graph->node(step->nodes.front()).op->scalar)
      out.insert(out.end(), step->nodes.begin(), step->nodes.end());
  return out;
}

StepSpec Planner::region_spec(const Region& region) {
  if (!survey_) {
    survey_ = std::make_unique<PlanBuilder>(*this, std::span<const PlannedRegion>{});
    survey_->survey();
  }
  return survey_->spec_of(region);
}

}  // namespace xc
