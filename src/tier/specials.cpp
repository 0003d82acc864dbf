// Kernels for some of a region's sizes: where a size is frequent, a kernel that takes its value (or
// that whole vectors fill it) for granted may be faster. It is a region of its own to the tier: it
// earns its compile, is verified, and has its trial against the general kernel.

#include <algorithm>

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/guarded_kernel.h"
#include "tier/tier.h"

namespace xc {

using namespace tier;

namespace {

/// Special kernels ever considered per region: beyond, its sizes follow no pattern worth learning.
constexpr std::ptrdiff_t kMaxConsidered = 32;

}  // namespace

std::vector<SizeFact> Tier::facts_about(const ProgramState& state, const Plan& plan,
                                        const Group& group,
                                        std::span<const int64_t> symbols) const {
  std::vector<SizeFact> out;
  for (const uint32_t s : group.symbols) {
    if (s >= symbols.size() || s >= state.sizes.size()) continue;
    const policy::SizeChoice choice = policy::choose_size(symbols[s], state.sizes[s]);
    if (choice.exact)
      out.push_back({plan.symbols[s].name, symbols[s], 1});
    else if (choice.multiple)
      out.push_back({plan.symbols[s].name, -1, SizeHistogram::kVector});
  }
  return out;
}

void Tier::consider_special(const StatePtr& state, Group& group, std::span<const int64_t> symbols,
                            double runs, double now_s) {
  group.used_runs += runs;
  if (group.special_of || group.specialising || group.zeros || group.symbols.empty()) return;
  if (group.used_runs < (core_.faults.specials ? 1 : policy::kSpecialAfter)) return;
  group.used_runs = 0;
  const auto program = state->program.lock();
  const Plan& plan = *program->base_plan();
  std::vector<SizeFact> facts = facts_about(*state, plan, group, symbols);
  if (facts.empty()) return;
  const auto mine = [&](const auto& other) { return other->special_of == &group; };
  const auto same = [&](const auto& other) { return mine(other) && other->facts == facts; };
  if (std::any_of(state->groups.begin(), state->groups.end(), same) ||
      std::count_if(state->groups.begin(), state->groups.end(), mine) >= kMaxConsidered)
    return;
  if (!core_.faults.specials &&
      expected_gain(*state, group, symbols, now_s) < 1 - policy::Regret::kMinimumGain)
    return;
  group.specialising = true;
  core_.queue.post(state,
                   [this, raw = &group, facts = std::move(facts)](Program& p, ProgramState& s) {
                     const AtEnd done([&] {
                       std::lock_guard data(s.data);
                       raw->specialising = false;
                     });
                     add_special(p, s, *raw, facts);
                   });
}

double Tier::row_of(const ProgramState& state, const Group& group,
                    std::span<const int64_t> symbols) {
  const auto program = state.program.lock();
  const Plan& plan = *program->base_plan();
  const auto row = group.row.evaluate(
      [&](const std::string& symbol) { return symbol_value(plan, symbols, symbol); });
  return static_cast<double>(row.value_or(kNominalSize));
}

double Tier::expected_gain(const ProgramState& state, const Group& group,
                           std::span<const int64_t> symbols, double now_s) const {
  std::lock_guard lock(gain_mutex_);
  return special_gain_.expected(row_of(state, group, symbols), now_s);
}

double Tier::predicted_special(const ProgramState& state, const Group& special, int size,
                               std::span<const int64_t> symbols, double taken_s,
                               double now_s) const {
  // Where the general kernel lost, what it took in its trial is what special sizes improve on.
  const auto* general = special.special_of->policy.measured(size);
  const double general_s =
      special.special_of->policy.fused(size) || !general ? taken_s : general->fused_s;
  return general_s * (1 - expected_gain(state, special, symbols, now_s));
}

void Tier::learn_gain(const ProgramState& state, const Group& special, const Trial& trial,
                      const SignatureEntry& entry, double base_s, double fused_s) {
  const policy::RegionPolicy& general = special.special_of->policy;
  const auto* measured = general.measured(trial.size);
  const double general_s = general.fused(trial.size) || !measured ? base_s : measured->fused_s;
  const double row = row_of(state, special, entry.symbols);
  std::lock_guard lock(gain_mutex_);
  special_gain_.learn(fused_s / std::max(general_s, 1e-9), row, steady_s());
}

Tier::Group* Tier::add_special(Program& program, ProgramState& state, Group& general,
                               const std::vector<SizeFact>& facts) {
  const Region& place = general.places.front();
  auto made = std::make_shared<SpecialRegion>(
      specialise(program.graph(), place, program.planner().region_spec(place), facts));
  auto group = std::make_unique<Group>();
  group->identity = made->region.identity;
  group->name = general.name + " for " + to_text(facts);
  group->cost = general.cost;
  group->row = general.row;
  group->places = general.places;
  group->nodes = general.nodes;
  group->part_of = general.part_of;
  group->segment = general.segment;
  group->special_of = &general;
  group->facts = facts;
  // What no operand shows cannot be guarded, and is not taken for granted.
  const bool useless = made->facts.empty();
  group->special = std::move(made);
  Group* out = group.get();
  Event event;
  {
    std::lock_guard data(state.data);
    const auto known = std::find_if(state.groups.begin(), state.groups.end(), [&](const auto& g) {
      return g->special_of == &general && (g->facts == facts || g->identity == out->identity);
    });
    if (known != state.groups.end()) return nullptr;
    group->wrong = useless;
    if (useless) group->state = RegionState::kBanned;
    event = event_of(EventKind::kCandidate, *group);
    event.detail = "for sizes that are frequent: " + to_text(facts);
    state.groups.push_back(std::move(group));
  }
  if (useless) return nullptr;
  core_.emit(state, program, std::move(event));
  return out;
}

void Tier::specialise_at_once(Program& program, ProgramState& state, const SignatureEntry& entry) {
  const Plan& plan = *program.base_plan();
  for (size_t k = 0, count = state.groups.size(); k < count; ++k) {
    Group& general = *state.groups[k];
    if (general.special_of || general.zeros || !stands(&general)) continue;
    std::vector<SizeFact> facts;
    for (const uint32_t s : general.symbols) {
      if (s >= entry.symbols.size()) continue;
      const int64_t value = entry.symbols[s];
      // One or the other, so that both are seen.
      const bool multiple =
          value > 0 && value % SizeHistogram::kVector == 0 && (value / 16 + k) % 2;
      facts.push_back(
          {plan.symbols[s].name, multiple ? -1 : value, multiple ? SizeHistogram::kVector : 1});
    }
    Group* special = facts.empty() ? nullptr : add_special(program, state, general, facts);
    if (!special) continue;
    special->asked_by = general.asked_by;
    if (!compile(program, state, *special)) continue;
    std::lock_guard data(state.data);
    special->policy.always();
    settle_state(*special);
  }
}

bool Tier::admit_special(Program& program, ProgramState& state, Group& special) {
  Group* least = nullptr;
  std::string why;
  {
    std::lock_guard data(state.data);
    const double now_s = steady_s();
    size_t count = 0;
    for (const auto& g : state.groups) {
      if (g->special_of != special.special_of || !g->kernel || g->wrong) continue;
      ++count;
      if (evictable(*g) && (!least || g->saved.per_s(now_s) < least->saved.per_s(now_s)))
        least = g.get();
    }
    if (count < policy::kMaxSpecials) return true;
    const double wanted = special.loss.per_s(now_s);
    if (!least || least->saved.per_s(now_s) * 1.5 >= wanted) {
      special.state = RegionState::kCandidate;
      special.policy.evicted();
      return false;
    }
    why = fmt::format("it saves {:.3f} ms per second, {} would save {:.3f}",
                      least->saved.per_s(now_s) * 1e3, special.name, wanted * 1e3);
  }
  evict(program, state, *least, why);
  return true;
}

PlannedRegion Tier::with_specials(const Region& place, const Group& general,
                                  const std::vector<const Group*>& groups) {
  std::vector<const Group*> mine;
  for (const Group* group : groups)
    if (group->special_of == &general) mine.push_back(group);
  if (general.zeros) return {place, general.kernel, general.name};
  if (mine.empty()) return {place, general.kernel, "fused " + general.name};
  // The more is known, the sooner it is asked.
  const auto exact = [](const Group* g) {
    return std::count_if(g->facts.begin(), g->facts.end(),
                         [](const SizeFact& fact) { return fact.value >= 0; });
  };
  std::stable_sort(mine.begin(), mine.end(),
                   [&](const Group* a, const Group* b) { return exact(a) > exact(b); });
  std::vector<GuardedKernel::Special> specials;
  std::string sizes;
  for (const Group* group : mine) {
    specials.push_back({group->special->guard, group->kernel});
    sizes += (sizes.empty() ? "" : " or ") + to_text(group->facts);
  }
  return {place, std::make_shared<GuardedKernel>(general.kernel, std::move(specials)),
          fmt::format("fused {} for {}", general.name, sizes)};
}

}  // namespace xc
