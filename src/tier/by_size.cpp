// Which plan runs of certain sizes use: verdicts hold for a class of sizes (region_policy.h), so
// every signature has the plan that its sizes choose; plans are shared and kept.

#include <algorithm>
#include <unordered_set>

#include "tier/tier.h"

namespace xc {

Tier::Fact Tier::fact_of(const Group& group, const Plan& plan, std::span<const int64_t> symbols) {
  const Dim::Lookup lookup = [&](const std::string& symbol) {
    return symbol_value(plan, symbols, symbol);
  };
  const auto value = [&](const Dim& dim) {
    return static_cast<double>(dim.evaluate(lookup).value_or(0));
  };
  const RegionCost& cost = group.cost;
  const double bytes = value(cost.bytes_fused);
  const double each = group.zeros ? group.zeros->seconds(lookup)
                                  : policy::predict_s(host_speed(), bytes,
                                                      value(cost.product_flops), value(cost.flops));
  const bool applies = std::all_of(group.facts.begin(), group.facts.end(), [&](const SizeFact& f) {
    const auto known = lookup(f.symbol);
    return !known || f.holds(*known);
  });
  return {each * static_cast<double>(group.places.size()), policy::size_class(bytes), applies};
}

Tier::Facts Tier::facts_of(const ProgramState& state, const Plan& plan,
                           std::span<const int64_t> symbols) {
  Facts facts;
  for (const auto& group : state.groups) facts.push_back(fact_of(*group, plan, symbols));
  return facts;
}

const Tier::Facts& Tier::known_facts(const ProgramState& state, SignatureEntry& entry) {
  auto known = std::static_pointer_cast<Facts>(entry.tier_facts);
  if (!known || known->size() < state.groups.size()) {
    const auto program = state.program.lock();
    known = std::make_shared<Facts>(facts_of(state, *program->base_plan(), entry.symbols));
    entry.tier_facts = known;
  }
  return *known;
}

bool Tier::covered_by(const std::vector<const Group*>& groups, const Group& group) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const Group* g) { return g == &group || g->special_of == &group; });
}

std::vector<const Tier::Group*> Tier::chosen(const ProgramState& state, const SignatureEntry& entry,
                                             const Facts& facts, const Group* with,
                                             const Group* without, bool without_specials) {
  std::vector<const Group*> out;
  const auto picked = [&](size_t k) {
    const Group* group = state.groups[k].get();
    if (group->segment != entry.segment)
      return group->segment < entry.segment && uses(state, *entry.begun, *group);
    const bool verified = group->state != RegionState::kVerifying;
    return group == with || (verified && group->policy.fused(facts[k].size));
  };
  // Regions before their parts; of each kind general kernels, then those for these sizes, whether
  // the general one is in use here or lost its trial.
  for (const bool blocks : {true, false})
    for (const bool special : {false, true})
      for (size_t k = 0; k < state.groups.size(); ++k) {
        const Group* group = state.groups[k].get();
        if (group->places.front().blocks != blocks || (group->special_of != nullptr) != special ||
            !group->kernel || group->wrong || group == without || (group->zeros && state.frozen))
          continue;
        if (special && without_specials && group->special_of == without) continue;
        if (special && (!facts[k].applies || !stands(group->special_of))) continue;
        if (group->part_of && covered_by(out, *group->part_of)) continue;
        if (picked(k)) out.push_back(group);
      }
  return out;
}

std::vector<const Tier::Group*> Tier::challenging(const ProgramState& state,
                                                  const SignatureEntry& entry, const Facts& facts) {
  const Trial& trial = state.trial;
  return trial.confirm ? chosen(state, entry, facts, nullptr, trial.group, trial.specials)
                       : chosen(state, entry, facts, trial.group);
}

std::shared_ptr<const Plan> Tier::find_plan(ProgramState& state,
                                            const std::vector<const Group*>& groups) {
  for (Variant& variant : state.variants) {
    if (variant.outdated || variant.groups != groups) continue;
    variant.used = ++state.plans_given;
    if (auto plan = variant.plan ? variant.plan : variant.running.lock()) return plan;
  }
  return nullptr;
}

void Tier::keep_plan(ProgramState& state, const std::vector<const Group*>& groups,
                     const std::shared_ptr<const Plan>& plan) {
  std::erase_if(state.variants, [](const Variant& v) { return !v.plan && v.running.expired(); });
  Variant* least = nullptr;
  size_t kept = 0;
  for (Variant& variant : state.variants) {
    if (!variant.plan) continue;
    ++kept;
    if (!least || variant.used < least->used) least = &variant;
  }
  if (kept >= kMaxVariants) least->plan.reset();
  state.variants.push_back({groups, plan->serial, plan, plan, ++state.plans_given});
}

const std::vector<const Tier::Group*>& Tier::groups_in(const ProgramState& state,
                                                       const Plan& plan) {
  static const std::vector<const Group*> kNone;
  for (const Variant& variant : state.variants)
    if (variant.serial == plan.serial) return variant.groups;
  return kNone;
}

bool Tier::uses(const ProgramState& state, const Plan& plan, const Group& group) {
  const auto& groups = groups_in(state, plan);
  return std::find(groups.begin(), groups.end(), &group) != groups.end();
}

std::shared_ptr<const Plan> Tier::plan_with(Program& program, ProgramState& state,
                                            const std::vector<const Group*>& groups) {
  if (groups.empty()) return program.base_plan();
  {
    std::lock_guard data(state.data);
    if (auto known = find_plan(state, groups)) return known;
  }
  // Who holds `work` alone changes groups and plans: it is built while runs may have the lock.
  std::vector<PlannedRegion> planned;
  std::unordered_set<NodeId> covered;
  std::vector<const Group*> general;
  for (const Group* group : groups) {
    const Group* g = group->special_of ? group->special_of : group;
    if (std::find(general.begin(), general.end(), g) == general.end()) general.push_back(g);
  }
  for (const Group* group : general) {
    for (const Region& place : group->places) {
      const auto inside = [&](NodeId n) { return covered.count(n) > 0; };
      if (std::any_of(place.nodes.begin(), place.nodes.end(), inside)) continue;
      covered.insert(place.nodes.begin(), place.nodes.end());
      planned.push_back(with_specials(place, *group, groups));
    }
  }
  std::vector<uint32_t> refused;
  const std::shared_ptr<const Plan> plan = program.planner().build(planned, &refused);
  std::vector<Event> events;
  {
    std::lock_guard data(state.data);
    for (const uint32_t r : refused)
      for (const auto& group : state.groups) {
        if (group->special_of || group->identity != planned[r].region.identity || group->wrong)
          continue;
        group->wrong = true;
        group->state = RegionState::kBanned;
        group->reason = "its operands lie otherwise in the plan than it was made for";
        events.push_back(event_of(EventKind::kRefused, *group));
        events.back().detail = group->reason;
        events.back().back_off_s = -1;
      }
    keep_plan(state, groups, plan);
  }
  for (Event& event : events) emit(state, program, std::move(event));
  return plan;
}

void Tier::bind_anew(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto now = program.published(entry);
  std::vector<const Group*> groups;
  bool alternates = false;
  {
    std::unique_lock data(state.data);
    const bool wrong = is_wrong(state, *now);
    if (state.frozen && !wrong && !skips_zeros(state, *now)) {
      data.unlock();
      return program.settle(entry);
    }
    groups = chosen(state, entry, known_facts(state, entry));
    alternates = now->challenger && is_tried(state, *now) && !wrong;
  }
  const auto wanted = plan_with(program, state, groups);
  program.set_preferred_plan(groups.empty() ? nullptr : wanted);
  if (alternates || (!now->challenger && now->active->bound->plan == wanted))
    return program.settle(entry);
  program.publish(entry, published_alone(program.bind(entry, wanted, {.background = true})));
}

void Tier::bind_anew_or_settle(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    bind_anew(program, state, entry);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    program.settle(entry);
  }
}

void Tier::bind_anew_or_keep(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    return bind_anew(program, state, entry);
  } catch (const std::exception& error) {
    log_failure(error.what());
  }
  const auto now = program.published(entry);
  {
    std::lock_guard data(state.data);
    if (!is_wrong(state, *now)) return;
  }
  try {
    program.publish(entry, published_alone(program.bind(entry, program.base_plan(), {})));
  } catch (const std::exception& error) {
    log_failure(error.what());
    if (!is_out_of_memory(error)) program.forget(entry);  // its runs fail as a new one's would
  }
}

const Tier::Fact& Tier::fact_at(const ProgramState& state, const Facts& facts, const Group& group) {
  static const Fact kUnknown;
  for (size_t k = 0; k < state.groups.size(); ++k)
    if (state.groups[k].get() == &group) return facts[k];
  return kUnknown;
}

double Tier::predicted_s(ProgramState& state, SignatureEntry& entry, const Group& group) {
  std::lock_guard data(state.data);
  const double predicted = fact_at(state, known_facts(state, entry), group).predicted_s;
  return predicted > 0 ? predicted : 1;
}

}  // namespace xc
