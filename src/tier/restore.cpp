// Parts of the tier about other processes: what one learnt is kept, and put to use by the next. A
// region accepted earlier whose code is in the cache is live from the first binds, without compile,
// verification or trial: it was found right and faster on this processor with these very builds.
// It is watched as any live region, from the times measured then.

#include <algorithm>
#include <ctime>

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/persistence.h"
#include "tier/tier.h"

namespace xc {

using namespace tier;

namespace {

/// Up to this much work is done before the first run; more is left to the background thread.
constexpr double kInPlaceS = 2e-3;
constexpr size_t kShapesKept = 32;

}  // namespace

bool Tier::load(Program& program, ProgramState& state, Group& group) {
  Persistence* cache = core_.caches.of(program);
  if (!cache) return false;
  if (core_.code.is_condemned(group.identity)) return false;
  group.code_key = cache->code_key(group.identity);
  if (cache->is_refused(group.code_key)) return false;  // a compile asks again, and says so
  std::optional<Persistence::Found> found;
  try {
    found = cache->load(group.code_key, group.spec);
  } catch (const Error&) {  // no executable memory: a compile would find the same, and says so
    return false;
  }
  if (!found) return false;
  const Region& region = group.made_of();
  auto made = std::make_shared<RegionKernel>(std::move(found->code), std::move(found->phases),
                                             region.inputs.size() + region.outputs.size());
  Event event;
  event.kind = EventKind::kLoaded;
  event.region = group.identity;
  event.subject = group.name;
  event.code_bytes = made->code_bytes();
  std::shared_ptr<Kernel> kernel = std::move(made);
  if (core_.faults.wrap) kernel = core_.faults.wrap(region, std::move(kernel));
  core_.code.share(group.identity, kernel);
  {
    std::lock_guard data(state.data);
    group.kernel = std::move(kernel);
    group.code_bytes = event.code_bytes;
  }
  core_.emit(state, program, std::move(event));
  return true;
}

void Tier::recall(Program& program, SignatureEntry& entry) {
  const StatePtr state = core_.caches.of(program) ? core_.queue.state_of(program) : nullptr;
  if (!state || state->recalled.exchange(true)) return;
  const auto mode = static_cast<JitMode>(program.config().jit);
  if ((mode == JitMode::kAuto || mode == JitMode::kFreeze) && !program.config().fusion &&
      !program.config().force_swap) {
    try {
      recall_profile(program, state, entry);
    } catch (const std::exception& error) {
      program.engine().log(LogLevel::kWarning,
                           std::string("the persistent cache is of no use here: ") + error.what());
    }
  }
  prepare_in_background(program, state);
}

void Tier::recall_profile(Program& program, const StatePtr& state, SignatureEntry& entry) {
  if (!calibrated_host_speed())
    if (const auto host = core_.caches.of(program)->host()) set_host_speed(*host);
  auto record = core_.caches.of(program)->profile(program);
  core_.report_problems(program, *state);
  if (!record || record->regions.empty()) return;
  const bool freeze = program.config().jit == static_cast<int64_t>(JitMode::kFreeze);
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

void Tier::restore(Program& program, ProgramState& state, const cache::ProfileRecord& record,
                   SignatureEntry* first) {
  const double start = thread_cpu_seconds();
  if (state.analysed || state.frozen) return;
  analyse(program, state);
  add_recorded_specials(program, state, record);
  add_recorded_zeros(program, state, record);
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a refusal may add groups
    std::vector<const cache::RegionRecord*> known;
    for (const auto& region : record.regions)
      if (region.identity == state.groups[k]->identity) known.push_back(&region);
    revive(program, state, *state.groups[k], known);
  }
  if (first)
    bind_anew(program, state, *first);  // in front of its first run
  else
    publish_everywhere(program, state);
  core_.report_problems(program, state);
  std::lock_guard data(state.data);
  state.restore_s = thread_cpu_seconds() - start;
  if (first) state.spent_s += state.restore_s;  // else the job counts it
}

void Tier::add_recorded_specials(Program& program, ProgramState& state,
                                 const cache::ProfileRecord& record) {
  for (const cache::RegionRecord& region : record.regions) {
    if (region.facts.empty()) continue;
    std::vector<SizeFact> facts;
    for (const cache::SizeRecord& fact : region.facts)
      facts.push_back({fact.symbol, fact.value, fact.divisor});
    for (size_t k = 0; k < state.groups.size(); ++k)
      if (state.groups[k]->identity == region.special_of && !state.groups[k]->special_of) {
        add_special(program, state, *state.groups[k], facts);
        break;
      }
  }
}

void Tier::revive(Program& program, ProgramState& state, Group& group,
                  const std::vector<const cache::RegionRecord*>& known) {
  const auto is = [](cache::Verdict verdict) {
    return [verdict](const cache::RegionRecord* r) { return r->verdict == verdict; };
  };
  if (known.empty()) return;
  {
    std::lock_guard data(state.data);
    group.predicted_s = known.front()->predicted_s;
    group.compile_s = known.front()->compile_s;
    group.reason =
        known.front()->reason.empty() ? "" : known.front()->reason + " (in an earlier process)";
    group.mismatch = std::any_of(known.begin(), known.end(), is(cache::Verdict::kWrong));
    if (group.mismatch) {
      group.wrong = true;
      group.state = RegionState::kBanned;
    }
  }
  if (group.mismatch) return offer_parts(program, state, group);
  // Without code it is a candidate like any other, whatever was decided.
  const Graph& graph = group.graph_of(program);
  const Region& region = group.made_of();
  group.spec = group.spec_in(program);
  if (group.zeros) {
    std::lock_guard data(state.data);  // hosts ask which groups have one
    group.kernel = zeros_kernel(group);
  } else if (!load(program, state, group)) {
    return;
  }
  group.extracted = std::make_shared<const RegionGraph>(extract_region(graph, region));
  const auto entries = program.entries();
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
      group.decided_key = at->decided_on;
      for (const auto& entry : entries)
        if (entry->key == at->decided_on) group.decided_on = entry;
    }
    settle_state(group);
    if (group.state == RegionState::kLive) ++state.swapped;
  }
  if (refused) offer_parts(program, state, group);
}

void Tier::remember(Program& program, ProgramState& state) {
  if (program.config().jit != static_cast<int64_t>(JitMode::kAuto)) return;
  Persistence* cache = core_.caches.of(program);
  if (!cache) return;
  cache::ProfileRecord record;
  for (const auto& entry : program.entries())
    if (entry->segment == 0)
      record.shapes.push_back({entry->key, static_cast<int64_t>(entry->runs.load())});
  std::sort(record.shapes.begin(), record.shapes.end(),
            [](const auto& a, const auto& b) { return a.runs > b.runs; });
  if (record.shapes.size() > kShapesKept) record.shapes.resize(kShapesKept);
  {
    std::lock_guard data(state.data);
    record.restore_s = state.restore_s;
    const double now_s = steady_s();
    for (const auto& group : state.groups) {
      cache::RegionRecord region;
      region.identity = group->identity;
      if (group->special_of) region.special_of = group->special_of->identity;
      for (const SizeFact& fact : group->facts)
        region.facts.push_back({fact.symbol, fact.value, fact.divisor});
      region.name = group->name;
      region.reason = group->reason;
      region.predicted_s = group->predicted_s;
      region.compile_s = group->compile_s;
      region.decided_on = group->decided_key;
      if (group->mismatch) {
        region.verdict = cache::Verdict::kWrong;
        record.regions.push_back(region);
        continue;
      }
      for (const auto& [size, at] : group->policy.sizes()) {
        using Choice = policy::RegionPolicy::Choice;
        if (at.choice == Choice::kOpen) continue;
        region.size = size;
        region.verdict = at.choice == Choice::kFused ? cache::Verdict::kAccepted
                         : at.rolled_back            ? cache::Verdict::kRolledBack
                                                     : cache::Verdict::kRejected;
        region.base_s = at.base_s;
        region.fused_s = at.fused_s;
        region.refusals = at.refusals;
        region.banned_until_s =
            at.choice == Choice::kBase
                ? std::time(nullptr) + static_cast<int64_t>(std::max(0.0, at.again_s - now_s))
                : 0;
        record.regions.push_back(region);
      }
    }
  }
  cache->keep_profile(program, std::move(record));
  core_.report_problems(program, state);
  if (const StatePtr shared = core_.queue.state_of(program); shared && !calibrated_host_speed())
    calibrate(shared);
}

void Tier::calibrate(const StatePtr& state) {
  if (calibrating_.exchange(true)) return;
  core_.queue.post(state, [this](Program& program, ProgramState& s) {
    const HostSpeed host = calibrate_host();
    set_host_speed(host);
    core_.caches.of(program)->keep_host(host);
    core_.report_problems(program, s);
  });
}

}  // namespace xc
