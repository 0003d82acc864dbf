#include "tier/refusals.h"

#include "tier/failures.h"

namespace xc::tier {

Outcome outcome_of(const std::function<std::string()>& verify) {
  Outcome out;
  try {
    out.different = verify();
    out.compared = true;
  } catch (const std::exception& error) {
    out.different = error.what();
    out.later = may_pass_later(error);
  }
  return out;
}

void Refusals::ban(Program& program, ProgramState& state, Group& group, EventKind kind,
                   std::string reason) {
  std::shared_ptr<Kernel> code;  // goes when no lock is held
  {
    std::lock_guard data(state.data);
    group.state = RegionState::kBanned;
    group.wrong = true;
    group.mismatch = kind == EventKind::kMismatch;
    group.leaving = false;
    code = std::exchange(group.code.kernel, nullptr);
    group.reason = reason;
  }
  code.reset();
  Event event = event_now(state, kind, group);
  event.back_off_s = -1;
  event.detail = std::move(reason);
  core_.emit(state, program, std::move(event));
  if (group.mismatch) keeper_.keep(program, state);
  search_.offer_parts(program, state, group);
}

void Refusals::ban_wrong(Program& program, ProgramState& state, Group& group,
                         const std::string& reason) {
  if (Persistence* cache = core_.caches.of(program)) cache->condemn(group.code.key, group.name);
  found_wrong(group.identity, reason);
  ban(program, state, group, EventKind::kMismatch, reason);
}

void Refusals::not_lowered(Program& program, ProgramState& state, Group& group,
                           const std::string& reason) {
  ban(program, state, group, EventKind::kRefused, "cannot be lowered: " + reason);
  search_.offer_smaller(program, state, group);
}

void Refusals::unverified(Program& program, ProgramState& state, Group& group,
                          const Outcome& outcome, const std::string& where) {
  const std::string reason = where + outcome.different;
  if (outcome.later) return not_now(program, state, group, "not verified: " + reason);
  if (outcome.compared) return ban_wrong(program, state, group, reason);
  // Nothing was found to be wrong: another process may try.
  ban(program, state, group, EventKind::kRefused, "not verified: " + reason);
}

void Refusals::found_wrong(const Hash128& identity, const std::string& reason) {
  core_.code.condemn(identity, reason);
  core_.queue.look_for_condemned();
}

void Refusals::put_back(ProgramState& state, Group& group) noexcept {
  std::shared_ptr<Kernel> code;  // goes when no lock is held
  std::lock_guard data(state.data);
  if (group.wrong) return;
  code = std::exchange(group.code.kernel, nullptr);
  group.state = RegionState::kCandidate;
  group.policy.evicted();
}

void Refusals::not_now(Program& program, ProgramState& state, Group& group,
                       const std::string& reason) {
  put_back(state, group);
  Event event = event_now(state, EventKind::kRefused, group);
  event.detail = reason;
  {
    std::lock_guard data(state.data);
    group.reason = reason;
    event.back_off_s = policy::back_off_s(group.queued.put_off++);
    group.queued.again_s = steady_s() + event.back_off_s;
  }
  core_.emit(state, program, std::move(event));
}

}  // namespace xc::tier
