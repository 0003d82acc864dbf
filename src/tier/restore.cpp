// Parts of the tier about other processes: what one learnt is kept, and put to use by the next. A
// region accepted earlier whose code is in the cache is live from the first binds, without compile,
// verification or trial: it was found right and faster on this processor with these very builds.
// It is watched as any live region, from the times measured then.

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "tier/persistence.h"
#include "tier/tier.h"

namespace xc {
namespace {

/// Up to this much work is done before the first run; more is left to the background thread.
constexpr double kInPlaceS = 2e-3;
constexpr size_t kShapesKept = 32;

}  // namespace

Persistence* Tier::persistence(const Program& program) {
  const Config& config = program.config();
  if (config.cache_dir.empty()) return nullptr;
  std::lock_guard lock(mutex_);
  auto& made = persistence_[config.cache_dir];
  if (!made)
    made = std::make_unique<Persistence>(*compiler_, config.cache_dir,
                                         effective(config, &Config::cache_bytes));
  return made.get();
}

void Tier::report_problems(Program& program, ProgramState& state) {
  Persistence* cache = persistence(program);
  if (!cache) return;
  for (std::string& problem : cache->take_problems()) {
    Event event;
    event.kind = EventKind::kCache;
    event.detail = std::move(problem);
    emit(state, program, std::move(event));
  }
}

bool Tier::load(Program& program, ProgramState& state, Group& group, const RegionCode& code) {
  Persistence* cache = persistence(program);
  if (!cache) return false;
  group.code_key = cache->code_key(code);
  std::vector<std::shared_ptr<const PhaseCode>> phases;
  try {
    phases = cache->load(group.code_key);
  } catch (const Error&) {  // no executable memory: a compile would find the same, and says so
    return false;
  }
  if (phases.size() != code.phases.size()) return false;
  const Region& region = group.places.front();
  auto made = std::make_shared<RegionKernel>(code, std::move(phases),
                                             region.inputs.size() + region.outputs.size());
  Event event;
  event.kind = EventKind::kLoaded;
  event.region = group.identity;
  event.subject = group.name;
  event.code_bytes = made->code_bytes();
  std::shared_ptr<Kernel> kernel = std::move(made);
  if (faults_.wrap) kernel = faults_.wrap(region, std::move(kernel));
  {
    std::lock_guard lock(mutex_);
    kernels_[group.identity] = kernel;
  }
  {
    std::lock_guard data(state.data);
    group.kernel = std::move(kernel);
    group.code_bytes = event.code_bytes;
  }
  emit(state, program, std::move(event));
  return true;
}

void Tier::recall(Program& program, SignatureEntry& entry) {
  const StatePtr state = persistence(program) ? state_of(program) : nullptr;
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
  auto record = persistence(program)->profile(program);
  report_problems(program, *state);
  if (!record || record->regions.empty()) return;
  const bool freeze = program.config().jit == static_cast<int64_t>(JitMode::kFreeze);
  if (freeze || record->restore_s <= kInPlaceS) {
    // The background thread may hold it for as long as a compile takes: nobody waits for that.
    const std::unique_lock work(state->work, std::try_to_lock);
    if (work) return restore(program, *state, *record, &entry);
  }
  {
    std::lock_guard data(state->data);
    state->analysing = true;
  }
  post(state, [this, record = std::move(*record)](Program& p, ProgramState& s) {
    restore(p, s, record, nullptr);
  });
}

void Tier::restore(Program& program, ProgramState& state, const cache::ProfileRecord& record,
                   SignatureEntry* first) {
  const double start = thread_cpu_seconds();
  if (state.analysed || state.frozen) return;
  analyse(program, state);
  bool live = false;
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a ban may add groups
    Group& group = *state.groups[k];
    const auto known =
        std::find_if(record.regions.begin(), record.regions.end(),
                     [&](const auto& region) { return region.identity == group.identity; });
    if (known != record.regions.end()) live = revive(program, state, group, *known) || live;
  }
  if (live) {
    const auto plan = build(program, state, nullptr, nullptr);
    if (plan->region_steps > 0 && first) {
      // In front of the first run: bound as quickly as any new signature.
      program.set_preferred_plan(plan);
      auto published = std::make_shared<Published>();
      published->active = std::make_shared<Version>(bind_segment(
          plan, 0, first->symbols, {.max_arena_bytes = program.config().max_memory_bytes}));
      program.publish(*first, std::move(published));
    } else if (plan->region_steps > 0) {
      publish_everywhere(program, plan);
    }
  }
  report_problems(program, state);
  std::lock_guard data(state.data);
  state.restore_s = thread_cpu_seconds() - start;
  if (first) state.spent_s += state.restore_s;  // else the job counts it
}

bool Tier::revive(Program& program, ProgramState& state, Group& group,
                  const cache::RegionRecord& known) {
  if (known.verdict == cache::Verdict::kNone) return false;
  {
    std::lock_guard data(state.data);
    group.base_s = known.base_s;
    group.fused_s = known.fused_s;
    group.predicted_s = known.predicted_s;
    group.compile_s = known.compile_s;
    group.decided_key = known.decided_on;
    group.refusals = known.refusals;
    group.verdict = known.verdict;
  }
  if (known.verdict == cache::Verdict::kAccepted) {
    const Region& region = group.places.front();
    group.spec = program.planner().region_spec(region);
    RegionCode code;
    // Without code it is a candidate like any other.
    if (!lower_region(program.graph(), region, group.spec, compiler_->target(), code).yes() ||
        !load(program, state, group, code))
      return false;
    const auto entries = program.entries();
    const auto decided = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry->key == known.decided_on;
    });
    std::lock_guard data(state.data);
    if (decided != entries.end()) group.decided_on = decided->get();
    group.state = RegionState::kLive;
    group.accepted_at_run = program.total_runs();
    ++state.swapped;
    return true;
  }
  {
    // A clock that was put back must not ban for longer than the rule says.
    const double left_s = std::clamp(static_cast<double>(known.banned_until_s - std::time(nullptr)),
                                     0.0, policy::back_off_s(std::max(0, known.refusals - 1)));
    std::lock_guard data(state.data);
    group.state = RegionState::kBanned;
    group.reason = known.reason + " (in an earlier process)";
    group.wrong = known.verdict == cache::Verdict::kWrong;
    group.banned_until_ns = steady_ns() + static_cast<int64_t>(left_s * 1e9);
  }
  if (group.places.front().blocks && !std::exchange(group.split, true))
    split_up(program, state, group);
  return false;
}

void Tier::remember(Program& program, ProgramState& state) {
  if (program.config().jit != static_cast<int64_t>(JitMode::kAuto)) return;
  Persistence* cache = persistence(program);
  if (!cache) return;
  cache::ProfileRecord record;
  for (const auto& entry : program.entries())
    record.shapes.push_back({entry->key, static_cast<int64_t>(entry->runs.load())});
  std::sort(record.shapes.begin(), record.shapes.end(),
            [](const auto& a, const auto& b) { return a.runs > b.runs; });
  if (record.shapes.size() > kShapesKept) record.shapes.resize(kShapesKept);
  {
    std::lock_guard data(state.data);
    record.restore_s = state.restore_s;
    for (const auto& group : state.groups) {
      if (group->verdict == cache::Verdict::kNone) continue;
      cache::RegionRecord region;
      region.identity = group->identity;
      region.name = group->name;
      region.verdict = group->verdict;
      region.reason = group->reason;
      region.base_s = group->base_s;
      region.fused_s = group->fused_s;
      region.predicted_s = group->predicted_s;
      region.compile_s = group->compile_s;
      region.refusals = group->refusals;
      region.decided_on = group->decided_key;
      if (group->state == RegionState::kBanned)
        region.banned_until_s =
            std::time(nullptr) + (group->banned_until_ns - steady_ns()) / 1'000'000'000;
      record.regions.push_back(std::move(region));
    }
  }
  cache->keep_profile(program, std::move(record));
  report_problems(program, state);
}

}  // namespace xc
