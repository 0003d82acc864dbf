#include "tier/profile_keeper.h"

#include <algorithm>
#include <ctime>

namespace xc::tier {
namespace {

constexpr size_t kShapesKept = 32;

}  // namespace

void ProfileKeeper::keep(Program& program, ProgramState& state) {
  if (program.config().jit_mode() != JitMode::kAuto) return;
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
      region.compile_s = group->code.compile_s;
      region.decided_on = group->decided_on;
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

void ProfileKeeper::calibrate(const StatePtr& state) {
  if (calibrating_.exchange(true)) return;
  core_.queue.post(state, [this](Program& program, ProgramState& s) {
    const HostSpeed host = calibrate_host();
    set_host_speed(host);
    core_.caches.of(program)->keep_host(host);
    core_.report_problems(program, s);
  });
}

}  // namespace xc::tier
