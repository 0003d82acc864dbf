// Products of mostly zeros. What runs have shown to be sparse (profile/value_facts.h) is multiplied
// by a kernel that skips zeros: a candidate like any region, which takes the place of the base
// plan's step with all that the step does behind the product. Nothing is taken for granted of the
// values: a run with other ones is right, and where there are many of those the kernel is found
// slow and leaves again. The values of a warm-up's runs are made up: nothing is learnt from those
// and nothing tried on them. Frozen sessions let go of all such kernels: nobody is left to find
// them slow.
//
// Matthias Boehm et al., "SystemDS: A Declarative Machine Learning System for the End-to-End Data
// Science Lifecycle", CIDR 2020: dynamic recompilation by the number of nonzeros.

#include <algorithm>
#include <cstdint>

#include "tier/step_kernel.h"
#include "tier/tier.h"

namespace xc {

using namespace tier;

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

std::shared_ptr<Kernel> Tier::zeros_kernel(const Group& group) const {
  return core_.faults.wrap ? core_.faults.wrap(group.made_of(), group.zeros->kernel)
                           : group.zeros->kernel;
}

void Tier::watch_zeros(Program& program, ProgramState& state) {
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

void Tier::consider_zeros(const StatePtr& state, const Program& program,
                          const SignatureEntry& entry) {
  if (state->zero_sites.empty() || ++state->zero_looks % kEvery != 0) return;
  for (size_t k = 0; k < state->zero_sites.size(); ++k) {
    ZeroSite& site = state->zero_sites[k];
    if (site.segment != entry.segment) continue;
    const std::optional<double> density = density_of(program.value_facts().of(site.value));
    if (!density) continue;
    if (site.group) site.group->zeros->density = *density;
    if (site.made || *density > kMostDense) continue;
    site.made = true;
    core_.queue.post(state, [this, k, density](Program& p, ProgramState& s) {
      add_zeros(p, s, s.zero_sites[k], density);
    });
  }
}

Region Tier::zero_region(Program& program, const ZeroSite& site) {
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

Tier::Group* Tier::add_zeros(Program& program, ProgramState& state, ZeroSite& site,
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
  Region region = zero_region(program, site);
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
  group->zeros = tier::ZeroSkipping{
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

void Tier::let_go_of_zeros(Program& program, ProgramState& state) {
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
  if (used) publish_everywhere(program, state, SIZE_MAX);
}

void Tier::add_recorded_zeros(Program& program, ProgramState& state,
                              const cache::ProfileRecord& record) {
  if (program.config().jit == static_cast<int64_t>(JitMode::kFreeze)) return;
  const auto is_accepted = [](const cache::RegionRecord& region) {
    return region.verdict == cache::Verdict::kAccepted;
  };
  // This is in front of a first run: identities are computed only where some record is no region's.
  const auto searched = [&](const cache::RegionRecord& region) {
    return std::any_of(state.groups.begin(), state.groups.end(),
                       [&](const auto& group) { return group->identity == region.identity; });
  };
  if (std::none_of(record.regions.begin(), record.regions.end(),
                   [&](const auto& r) { return is_accepted(r) && !searched(r); }))
    return;
  for (uint32_t k = 0; k < state.zero_sites.size(); ++k) {
    ZeroSite& site = state.zero_sites[k];
    const Hash128 identity = zero_region(program, site).identity;
    std::vector<cache::RegionRecord> known;
    for (const cache::RegionRecord& region : record.regions)
      if (region.identity == identity) known.push_back(region);
    if (std::none_of(known.begin(), known.end(), is_accepted)) continue;
    if (program.base_plan()->steps[site.step]->kernel->wants_prepare())
      state.zeros_to_come.emplace_back(k, std::move(known));
    else
      add_zeros(program, state, site, std::nullopt);
  }
}

void Tier::add_zeros_to_come(Program& program, ProgramState& state) {
  const auto coming = std::exchange(state.zeros_to_come, {});
  if (state.frozen) return;
  for (const auto& [site, known] : coming) {
    Group* group = add_zeros(program, state, state.zero_sites[site], std::nullopt);
    if (!group) continue;
    std::vector<const cache::RegionRecord*> records;
    for (const cache::RegionRecord& record : known) records.push_back(&record);
    revive(program, state, *group, records);
  }
  if (!coming.empty()) publish_everywhere(program, state);
}

}  // namespace xc
