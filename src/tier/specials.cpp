#include "tier/specials.h"

#include <algorithm>

#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

/// Special kernels ever considered per region: beyond, its sizes follow no pattern worth learning.
constexpr std::ptrdiff_t kMaxConsidered = 32;

/// What may be taken for granted of these sizes.
std::vector<SizeFact> facts_about(const ProgramState& state, const Plan& plan, const Group& group,
                                  std::span<const int64_t> symbols) {
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

/// Elements of the innermost loop at these sizes; kNominalSize where that is not known.
double row_of(const ProgramState& state, const Group& group, std::span<const int64_t> symbols) {
  const auto program = state.program.lock();
  const Plan& plan = *program->base_plan();
  const auto row = group.row.evaluate(
      [&](const std::string& symbol) { return symbol_value(plan, symbols, symbol); });
  return static_cast<double>(row.value_or(kNominalSize));
}

}  // namespace

void Specials::consider(const StatePtr& state, Group& group, std::span<const int64_t> symbols,
                        double runs, double now_s) {
  group.specialising.runs += runs;
  if (group.special_of || group.specialising.posted || group.zeros || group.symbols.empty()) return;
  if (group.specialising.runs < (core_.faults.specials ? 1 : policy::kSpecialAfter)) return;
  group.specialising.runs = 0;
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
  core_.queue.post_once(state, group.specialising.posted,
                        [this, &group, facts = std::move(facts)](Program& p, ProgramState& s) {
                          add(p, s, group, facts);
                        });
}

Group* Specials::add(Program& program, ProgramState& state, Group& general,
                     const std::vector<SizeFact>& facts) {
  const Region& place = general.places.front();
  auto made = std::make_shared<SpecialRegion>(
      specialise(program.graph(), place, program.planner().region_spec(place), facts));
  auto group = std::make_unique<Group>();
  group->identity = made->region.identity;
  group->name = general.name + " for " + to_text(facts);
  group->cost = general.cost;
  group->cost_at = general.cost_at;
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

bool Specials::admit(Program& program, ProgramState& state, Group& special) {
  Group* least = nullptr;
  std::string why;
  {
    std::lock_guard data(state.data);
    const double now_s = steady_s();
    size_t count = 0;
    for (const auto& g : state.groups) {
      if (g->special_of != special.special_of || !g->code.kernel || g->wrong) continue;
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
  room_.evict(program, state, *least, why);
  return true;
}

double Specials::predicted_s(const ProgramState& state, const Group& special, int size,
                             std::span<const int64_t> symbols, double taken_s, double now_s) const {
  // Where the general kernel lost, what it took in its trial is what special sizes improve on.
  const auto* general = special.special_of->policy.measured(size);
  const double general_s =
      special.special_of->policy.fused(size) || !general ? taken_s : general->fused_s;
  return general_s * (1 - expected_gain(state, special, symbols, now_s));
}

void Specials::learn(const ProgramState& state, const Group& special, const Trial& trial,
                     const SignatureEntry& entry, double base_s, double fused_s) {
  const policy::RegionPolicy& general = special.special_of->policy;
  const auto* measured = general.measured(trial.size);
  const double general_s = general.fused(trial.size) || !measured ? base_s : measured->fused_s;
  const double row = row_of(state, special, entry.symbols);
  std::lock_guard lock(mutex_);
  gain_.learn(fused_s / std::max(general_s, 1e-9), row, steady_s());
}

double Specials::expected_gain(const ProgramState& state, const Group& group,
                               std::span<const int64_t> symbols, double now_s) const {
  std::lock_guard lock(mutex_);
  return gain_.expected(row_of(state, group, symbols), now_s);
}

}  // namespace xc::tier
