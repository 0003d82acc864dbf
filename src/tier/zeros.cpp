#include "tier/zeros.h"

#include <algorithm>
#include <cstdint>

#include "tier/plan_choice.h"
#include "tier/step_kernel.h"

namespace xc::tier {
namespace {

constexpr int64_t kLeastElements = 128;  ///< looked at, before a share is believed
constexpr double kMostDense = 0.5;       ///< above, finding the others costs what they save
constexpr uint64_t kEvery = 8;           ///< samples between two looks at what is known

/// The share that was not zero lately; nullopt: too little was seen.
std::optional<double> density_of(const ValueFacts::Fact& fact) {
  if (fact.recent_elements < static_cast<double>(kLeastElements)) return std::nullopt;
  return 1 - fact.recent_zeros / fact.recent_elements;
}

/// Which of a region's operands the step's are; nullopt: the step reads something else.
std::optional<std::vector<std::optional<uint32_t>>> operands_of(const Plan& plan, const Step& step,
                                                                const Region& region) {
  std::vector<ValueId> known = region.inputs;
  known.insert(known.end(), region.outputs.begin(), region.outputs.end());
  std::vector<std::optional<uint32_t>> out;
  for (const auto* values : {&step.inputs, &step.outputs})
    for (const uint32_t v : *values) {
      if (v == kNoValue) {
        out.emplace_back();
        continue;
      }
      const auto at = std::find(known.begin(), known.end(), plan.values[v].id);
      if (at == known.end()) return std::nullopt;
      out.emplace_back(static_cast<uint32_t>(at - known.begin()));
    }
  return out;
}

}  // namespace

void ZeroSites::watch(Program& program, ProgramState& state) {
  const Plan& plan = *program.base_plan();
  std::vector<ZeroSite> sites;
  for (uint32_t segment = 0; segment < plan.segments.size(); ++segment)
    for (uint32_t k = plan.segments[segment].first_step; k < plan.segments[segment].end_step; ++k) {
      const Step& step = *plan.steps[k];
      if (!step.kernel || !step.kernel->may_skip_zeros() || step.inputs[0] == kNoValue) continue;
      const PlanValue& left = plan.values[step.inputs[0]];
      if (left.id == kNone) continue;
      program.value_facts().watch(left.id, left.dtype);
      sites.push_back({k, segment, left.id});
    }
  std::lock_guard data(state.data);
  state.zero_sites = std::move(sites);
}

void ZeroSites::consider(const StatePtr& state, const Program& program,
                         const SignatureEntry& entry) {
  if (state->zero_sites.empty() || ++state->zero_looks % kEvery != 0) return;
  for (size_t k = 0; k < state->zero_sites.size(); ++k) {
    ZeroSite& site = state->zero_sites[k];
    if (site.segment != entry.segment) continue;
    const std::optional<double> density = density_of(program.value_facts().of(site.value));
    if (!density) continue;
    if (site.group) site.group->zeros->density = *density;
    if (site.made || *density > kMostDense) continue;
    core_.queue.post(state, [this, k, density](Program& p, ProgramState& s) {
      add(p, s, s.zero_sites[k], density);
    });
    site.made = true;  // under state.data, for which the job waits
  }
}

Group* ZeroSites::add(Program& program, ProgramState& state, ZeroSite& site,
                      std::optional<double> density) {
  const Graph& graph = program.graph();
  const Plan& plan = *program.base_plan();
  const Step& step = *plan.steps[site.step];
  {
    std::lock_guard data(state.data);
    site.made = true;
    for (const auto& group : state.groups)
      if (std::any_of(step.nodes.begin(), step.nodes.end(),
                      [&](NodeId n) { return group->nodes.count(n) > 0; }))
        return nullptr;
  }
  Region region = region_of(program, site);
  const auto operands = operands_of(plan, step, region);
  if (!operands) return nullptr;
  std::shared_ptr<Kernel> kernel = step.kernel->skipping_zeros();
  if (!kernel) return nullptr;
  const auto bytes = [&](ValueId v) {
    const Type& type = graph.value(v).type;
    return Dim(element_size(type.dtype)) * element_count(*type.dims);
  };
  const ValueId right = plan.values[step.inputs[1]].id, result = region.outputs.front();
  const SymDims& left_dims = *graph.value(site.value).type.dims;
  auto group = std::make_unique<Group>();
  group->zeros = ZeroSkipping{
      std::make_shared<StepKernel>(std::move(kernel), *operands, step.outputs.size(),
                                   region.inputs.size()),
      density.value_or(kMostDense),
      element_count(left_dims),
      graph.value(result).type.dims->empty() ? Dim(1) : graph.value(result).type.dims->back(),
      bytes(site.value) + bytes(result),
      bytes(right),
      left_dims.empty() ? Dim(1) : left_dims.back()};
  group->identity = region.identity;
  group->segment = site.segment;
  const std::string& left = graph.value(site.value).name;
  group->name = fmt::format("{} skipping zeros of {}", op_names(graph, region.nodes), left);
  group->cost = estimate(graph, region);
  group->cost_at = {group->cost, plan};
  group->nodes.insert(region.nodes.begin(), region.nodes.end());
  group->places.push_back(std::move(region));
  Group* const out = group.get();
  Event event;
  {
    std::lock_guard data(state.data);
    event = event_of(EventKind::kCandidate, *group);
    event.detail = density ? fmt::format("{:.0f} % of {} are zeros", 100 * (1 - *density), left)
                           : "it was faster in an earlier process";
    state.groups.push_back(std::move(group));
    site.group = out;
  }
  core_.emit(state, program, std::move(event));
  return out;
}

void ZeroSites::let_go(Program& program, ProgramState& state) {
  bool used = false;
  {
    std::lock_guard data(state.data);
    for (const auto& group : state.groups) {
      if (!group->zeros || group->state != RegionState::kLive) continue;
      group->state = RegionState::kBanned;
      group->reason = "not in a frozen session: its time depends on the values";
      used = true;
    }
  }
  if (used) publishing_.everywhere(program, state, SIZE_MAX);
}

Region ZeroSites::region_of(Program& program, const ZeroSite& site) {
  const Plan& plan = *program.base_plan();
  const Step& step = *plan.steps[site.step];
  Region region;
  region.pattern = "zeros";
  region.nodes = step.nodes;
  region.segment = site.segment;
  region.inputs = external_inputs(program.graph(), step.nodes);
  for (const uint32_t v : step.outputs) region.outputs.push_back(plan.values[v].id);
  // Its kernel holds the weights of this place, which others do not share.
  region.identity = hash_text(
      region_identity(program.graph(), region, program.planner().region_spec(region)).text() +
      fmt::format("@{}", step.nodes.front()));
  return region;
}

std::shared_ptr<Kernel> ZeroSites::kernel_of(const Group& group) const {
  return core_.faults.wrap ? core_.faults.wrap(group.made_of(), group.zeros->kernel)
                           : group.zeros->kernel;
}

}  // namespace xc::tier
