#include "tier/warm_up.h"

#include "tier/plan_choice.h"

namespace xc::tier {

void WarmUp::turn(const StatePtr& state, bool on) {
  std::lock_guard data(state->data);
  // Its samples would be of made-up values from here on.
  if (on && state->trial.group && state->trial.group->zeros) trials_.give_up(state, false);
  state->warming += on ? 1 : -1;
}

bool WarmUp::settled(const Program& program, ProgramState& state, SignatureEntry& entry) const {
  if (core_.queue.refused() || program.config().jit_mode() != JitMode::kAuto ||
      !program.config().fuses())
    return true;
  std::lock_guard data(state.data);
  if (state.frozen) return true;
  if (!state.analysed || state.trial.group) return false;
  const GroupFacts& facts = known_facts(state, entry);
  const auto chosen_now = chosen(state, entry, facts);
  const double now_s = steady_s();
  for (size_t k = 0; k < state.groups.size(); ++k) {
    const Group& group = *state.groups[k];
    const bool covered = group.part_of && covered_by(chosen_now, *group.part_of);
    const bool elsewhere = group.special_of && (!facts[k].applies || !stands(group.special_of));
    if (group.wrong || group.segment != entry.segment || covered || elsewhere ||
        !may_try(state, group))
      continue;
    if (group.state == RegionState::kQueued || group.state == RegionState::kVerifying) return false;
    // What found no room, or no memory, is asked for again some time.
    if (group.state == RegionState::kCandidate && group.queued.again_s > now_s) continue;
    const auto& sizes = group.policy.sizes();
    const auto at = sizes.find(facts[k].size);
    if (at == sizes.end()) return false;  // not seen at these sizes yet
    const bool decided = at->second.choice != policy::RegionPolicy::Choice::kOpen;
    if (!decided && !group.policy.fused(facts[k].size) && at->second.regret.seconds() > 0)
      return false;
  }
  return true;
}

}  // namespace xc::tier
