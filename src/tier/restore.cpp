#include "tier/restore.h"

#include <algorithm>
#include <ctime>

#include "base/at_end.h"
#include "tier/plan_choice.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

/// Up to this much work is done before the first run; more is left to the background thread.
constexpr double kInPlaceS = 2e-3;

}  // namespace

bool Restore::recall(Program& program, SignatureEntry& entry) {
  const StatePtr state = core_.caches.of(program) ? core_.queue.state_of(program) : nullptr;
  if (!state || state->recalled.exchange(true)) return false;
  const auto mode = program.config().jit_mode();
  if ((mode == JitMode::kAuto || mode == JitMode::kFreeze) && program.config().fuses() &&
      !program.config().force_swap) {
    try {
      recall_profile(program, state, entry);
    } catch (const std::exception& error) {
      program.engine().log(LogLevel::kWarning,
                           std::string("the persistent cache is of no use here: ") + error.what());
    }
  }
  return true;
}

void Restore::recall_profile(Program& program, const StatePtr& state, SignatureEntry& entry) {
  if (!calibrated_host_speed())
    if (const auto host = core_.caches.of(program)->host()) set_host_speed(*host);
  auto record = core_.caches.of(program)->profile(program);
  core_.report_problems(program, *state);
  if (!record || record->regions.empty()) return;
  const bool freeze = program.config().jit_mode() == JitMode::kFreeze;
  // The search wants to know the host, which to measure takes longer than that.
  if (freeze || (record->restore_s <= kInPlaceS && calibrated_host_speed())) {
    // The background thread may hold it for as long as a compile takes: nobody waits for that.
    const Work work(*state, program, false);
    if (work) return restore(program, *state, *record, &entry);
  }
  std::lock_guard data(state->data);
  core_.queue.post(state, [this, record = std::move(*record)](Program& p, ProgramState& s) {
    const AtEnd done([&] {  // without memory for it, it is searched like any program
      std::lock_guard lock(s.data);
      s.analysing = s.analysed;
    });
    restore(p, s, record, nullptr);
  });
  state->analysing = true;
}

void Restore::restore(Program& program, ProgramState& state, const cache::ProfileRecord& record,
                      SignatureEntry* first) {
  const double start = thread_cpu_seconds();
  if (state.analysed || state.frozen) return;
  search_.analyse(program, state);
  add_specials(program, state, record);
  add_zeros(program, state, record);
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a refusal may add groups
    std::vector<const cache::RegionRecord*> known;
    for (const auto& region : record.regions)
      if (region.identity == state.groups[k]->identity) known.push_back(&region);
    revive(program, state, *state.groups[k], known);
  }
  if (first)
    publishing_.bind_anew(program, state, *first);  // in front of its first run
  else
    publishing_.everywhere(program, state);
  core_.report_problems(program, state);
  std::lock_guard data(state.data);
  state.restore_s = thread_cpu_seconds() - start;
  if (first) state.spent_s += state.restore_s;  // else the job counts it
}

void Restore::add_specials(Program& program, ProgramState& state,
                           const cache::ProfileRecord& record) {
  for (const cache::RegionRecord& region : record.regions) {
    if (region.facts.empty()) continue;
    std::vector<SizeFact> facts;
    for (const cache::SizeRecord& fact : region.facts)
      facts.push_back({fact.symbol, fact.value, fact.divisor});
    for (size_t k = 0; k < state.groups.size(); ++k)
      if (state.groups[k]->identity == region.special_of && !state.groups[k]->special_of) {
        specials_.add(program, state, *state.groups[k], facts);
        break;
      }
  }
}

void Restore::add_zeros(Program& program, ProgramState& state, const cache::ProfileRecord& record) {
  if (program.config().jit_mode() == JitMode::kFreeze) return;
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
    const Hash128 identity = ZeroSites::region_of(program, site).identity;
    std::vector<cache::RegionRecord> known;
    for (const cache::RegionRecord& region : record.regions)
      if (region.identity == identity) known.push_back(region);
    if (std::none_of(known.begin(), known.end(), is_accepted)) continue;
    if (program.base_plan()->steps[site.step]->kernel->wants_prepare())
      state.zeros_to_come.emplace_back(k, std::move(known));
    else
      zeros_.add(program, state, site, std::nullopt);
  }
}

void Restore::add_zeros_to_come(Program& program, ProgramState& state) {
  const auto coming = std::exchange(state.zeros_to_come, {});
  if (state.frozen) return;
  for (const auto& [site, known] : coming) {
    Group* group = zeros_.add(program, state, state.zero_sites[site], std::nullopt);
    if (!group) continue;
    std::vector<const cache::RegionRecord*> records;
    for (const cache::RegionRecord& record : known) records.push_back(&record);
    revive(program, state, *group, records);
  }
  if (!coming.empty()) publishing_.everywhere(program, state);
}

void Restore::revive(Program& program, ProgramState& state, Group& group,
                     const std::vector<const cache::RegionRecord*>& known) {
  const auto is = [](cache::Verdict verdict) {
    return [verdict](const cache::RegionRecord* r) { return r->verdict == verdict; };
  };
  if (known.empty()) return;
  {
    std::lock_guard data(state.data);
    group.predicted_s = known.front()->predicted_s;
    group.code.compile_s = known.front()->compile_s;
    group.reason =
        known.front()->reason.empty() ? "" : known.front()->reason + " (in an earlier process)";
    group.mismatch = std::any_of(known.begin(), known.end(), is(cache::Verdict::kWrong));
    if (group.mismatch) {
      group.wrong = true;
      group.state = RegionState::kBanned;
    }
  }
  if (group.mismatch) return search_.offer_parts(program, state, group);
  // Without code it is a candidate like any other, whatever was decided.
  const Graph& graph = group.graph_of(program);
  const Region& region = group.made_of();
  group.code.spec = group.spec_in(program);
  if (group.zeros) {
    std::lock_guard data(state.data);  // hosts ask which groups have one
    group.code.kernel = zeros_.kernel_of(group);
  } else if (!compilation_.load(program, state, group)) {
    return;
  }
  group.code.extracted = std::make_shared<const RegionGraph>(extract_region(graph, region));
  bool refused = false;
  {
    std::lock_guard data(state.data);
    for (const cache::RegionRecord* at : known) {
      using Choice = policy::RegionPolicy::Choice;
      // A clock that was put back must not ban for longer than the rule says.
      const double left_s = std::clamp(
          static_cast<double>(at->banned_until_s) - static_cast<double>(std::time(nullptr)), 0.0,
          policy::back_off_s(std::max(0, at->refusals - 1)));
      const bool fused = at->verdict == cache::Verdict::kAccepted;
      refused = refused || !fused;
      group.policy.recall(at->size, {.choice = fused ? Choice::kFused : Choice::kBase,
                                     .base_s = at->base_s,
                                     .fused_s = at->fused_s,
                                     .refusals = at->refusals,
                                     .again_s = steady_s() + left_s,
                                     .rolled_back = at->verdict == cache::Verdict::kRolledBack});
      group.decided_on = at->decided_on;
    }
    settle_state(group);
    if (group.state == RegionState::kLive) ++state.swapped;
  }
  if (refused) search_.offer_smaller(program, state, group);
}

}  // namespace xc::tier
