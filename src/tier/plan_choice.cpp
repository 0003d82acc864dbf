#include "tier/plan_choice.h"

#include <algorithm>

#include "backends/host_speed.h"

namespace xc::tier {

bool serves(std::span<const SizeFact> facts, const Plan& plan, std::span<const int64_t> symbols) {
  return std::ranges::all_of(facts, [&](const SizeFact& fact) {
    const auto known = symbol_value(plan, symbols, fact.symbol);
    return !known || fact.holds(*known);
  });
}

GroupFact fact_of(const Group& group, const Plan& plan, std::span<const int64_t> symbols) {
  return {policy::size_class(group.cost_at.at(symbols).bytes_varying),
          serves(group.facts, plan, symbols)};
}

double predicted_s(const Group& group, const Plan& plan, std::span<const int64_t> symbols) {
  const auto places = static_cast<double>(group.places.size());
  if (group.zeros)
    return places * group.zeros->seconds([&](const std::string& symbol) {
      return symbol_value(plan, symbols, symbol);
    });
  const SizedCost::Sizes cost = group.cost_at.at(symbols);
  return places * policy::predict_s(host_speed(), cost.bytes_fused, cost.product_flops, cost.flops);
}

GroupFacts facts_of(const ProgramState& state, const Plan& plan, std::span<const int64_t> symbols) {
  GroupFacts facts;
  facts.reserve(state.groups.size());
  for (const auto& group : state.groups) facts.push_back(fact_of(*group, plan, symbols));
  return facts;
}

GroupFacts& known_facts(const ProgramState& state, SignatureEntry& entry) {
  auto known = std::static_pointer_cast<GroupFacts>(entry.tier_facts);
  if (!known || known->size() < state.groups.size()) {
    const auto program = state.program.lock();
    known = std::make_shared<GroupFacts>(facts_of(state, *program->base_plan(), entry.symbols));
    entry.tier_facts = known;
  }
  return *known;
}

const GroupFact& fact_at(const ProgramState& state, const GroupFacts& facts, const Group& group) {
  static const GroupFact kUnknown;
  for (size_t k = 0; k < state.groups.size(); ++k)
    if (state.groups[k].get() == &group) return facts[k];
  return kUnknown;
}

void settle_state(Group& group) {
  group.state = group.policy.fused_anywhere()     ? RegionState::kLive
                : group.policy.refused_anywhere() ? RegionState::kBanned
                                                  : RegionState::kReady;
}

bool evictable(const Group& group) {
  return group.wrong || group.state == RegionState::kReady || group.state == RegionState::kBanned ||
         (group.state == RegionState::kLive && !group.policy.is_always());
}

bool covered_by(const std::vector<const Group*>& groups, const Group& group) {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const Group* g) { return g == &group || g->special_of == &group; });
}

std::vector<const Group*> chosen(const ProgramState& state, const SignatureEntry& entry,
                                 const GroupFacts& facts, const Group* with, const Group* without,
                                 bool without_specials) {
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
            !group->code.kernel || group->wrong || group == without ||
            (group->zeros && state.frozen))
          continue;
        if (special && without_specials && group->special_of == without) continue;
        if (special && (!facts[k].applies || !stands(group->special_of))) continue;
        if (group->part_of && covered_by(out, *group->part_of)) continue;
        if (picked(k)) out.push_back(group);
      }
  return out;
}

std::vector<const Group*> challenging(const ProgramState& state, const SignatureEntry& entry,
                                      const GroupFacts& facts) {
  const Trial& trial = state.trial;
  return trial.confirm ? chosen(state, entry, facts, nullptr, trial.group, trial.specials)
                       : chosen(state, entry, facts, trial.group);
}

std::shared_ptr<const Plan> find_plan(ProgramState& state,
                                      const std::vector<const Group*>& groups) {
  for (Variant& variant : state.variants) {
    if (variant.outdated || variant.groups != groups) continue;
    variant.used = ++state.plans_given;
    if (auto plan = variant.plan ? variant.plan : variant.running.lock()) return plan;
  }
  return nullptr;
}

void keep_plan(ProgramState& state, const std::vector<const Group*>& groups,
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

const std::vector<const Group*>& groups_in(const ProgramState& state, const Plan& plan) {
  static const std::vector<const Group*> kNone;
  for (const Variant& variant : state.variants)
    if (variant.serial == plan.serial) return variant.groups;
  return kNone;
}

bool uses(const ProgramState& state, const Plan& plan, const Group& group) {
  const auto& groups = groups_in(state, plan);
  return std::find(groups.begin(), groups.end(), &group) != groups.end();
}

bool uses_special(const ProgramState& state, const Plan& plan, const GroupFacts& facts,
                  const Group& general) {
  const auto& groups = groups_in(state, plan);
  return std::any_of(groups.begin(), groups.end(), [&](const Group* g) {
    return g->special_of == &general && applies(state, facts, *g);
  });
}

void drop_variants(ProgramState& state, const Group& group, bool wrong) {
  for (Variant& variant : state.variants) {
    if (std::find(variant.groups.begin(), variant.groups.end(), &group) == variant.groups.end())
      continue;
    variant.plan.reset();
    variant.outdated = true;
    variant.wrong = variant.wrong || wrong;
    if (wrong) state.any_wrong = true;
  }
}

bool is_wrong(const ProgramState& state, const Published& published) {
  const auto has = [&](const std::shared_ptr<Version>& version) {
    return version && std::any_of(state.variants.begin(), state.variants.end(), [&](auto& v) {
             return v.wrong && v.serial == version->bound->plan->serial;
           });
  };
  return state.any_wrong && (has(published.active) || has(published.challenger));
}

bool skips_zeros(const ProgramState& state, const Published& published) {
  const auto& groups = groups_in(state, *published.active->bound->plan);
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group* g) { return g->zeros.has_value(); });
}

std::string op_names(const Graph& graph, std::span<const NodeId> nodes) {
  std::string out;
  size_t shown = 0;
  for (NodeId n : nodes) {
    if (graph.node(n).op->view) continue;
    if (++shown > 6) return out + "+...";
    out += (out.empty() ? "" : "+") + std::string(graph.node(n).op->name);
  }
  return out;
}

Event event_of(EventKind kind, const Group& group) {
  Event event;
  event.kind = kind;
  event.region = group.identity;
  event.subject = group.name;
  event.places = static_cast<int64_t>(group.places.size());
  put_measures(group, event);
  return event;
}

}  // namespace xc::tier
