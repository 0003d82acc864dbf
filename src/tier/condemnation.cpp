#include "tier/condemnation.h"

#include <algorithm>

#include "tier/plan_choice.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

/// Whether some entry runs a kernel found wrong.
bool runs_wrong(Program& program, ProgramState& state) {
  const auto entries = program.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    const auto now = program.published(*entry);
    std::lock_guard data(state.data);
    return is_wrong(state, *now);
  });
}

}  // namespace

void Condemnation::take_out(Program& program, ProgramState& state) {
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a ban may add groups
    Group& group = *state.groups[k];
    const std::optional<std::string> reason = core_.code.condemned(group.identity);
    // One that is wrong already was banned before anything ran it.
    if (reason && group.code.kernel && (!group.wrong || group.leaving))
      condemn(program, state, group, *reason);
  }
}

void Condemnation::condemn(Program& program, ProgramState& state, Group& group,
                           const std::string& reason) {
  {
    std::lock_guard data(state.data);
    if (!group.wrong && group.policy.fused_anywhere()) ++state.rolled_back;
    group.wrong = group.leaving = true;  // from here on no signature is given a plan with it
    drop_variants(state, group, true);
  }
  // Other processes before anything else: whatever fails here, they are told.
  if (Persistence* cache = core_.caches.of(program)) cache->condemn(group.code.key, group.name);
  {
    std::lock_guard data(state.data);
    // Both sides of a trial may have it, whatever is on trial.
    if (state.trial.group && state.trial.group != &group)
      state.trial.group->policy.postpone(state.trial.size);
  }
  trials_.end(program, state, false);
  publishing_.everywhere(program, state, SIZE_MAX);
  if (runs_wrong(program, state))
    fail(Status::kOutOfMemory, "{} is wrong, and what runs it could not be bound anew", group.name);
  refusals_.ban(program, state, group, EventKind::kMismatch, reason);
}

void Condemnation::replace_wrong(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto wrong = [&] {
    const auto now = program.published(entry);
    std::lock_guard data(state.data);
    return is_wrong(state, *now);
  };
  if (!wrong()) return;
  const Work work(state, program);  // may wait for a compile: no run must use it
  publishing_.bind_anew_or_keep(program, state, entry);
  if (!wrong()) return;
  program.forget(entry);
  fail(Status::kOutOfMemory, "there is no memory to bind what takes the place of a wrong kernel");
}

}  // namespace xc::tier
