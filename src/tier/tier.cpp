#include "tier/tier.h"

#include <optional>

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/summary.h"
#include "tier/work.h"

namespace xc {

using tier::ProgramState;
using tier::StatePtr;

Tier::Tier(std::unique_ptr<RegionCompiler> compiler, const Config& config, TierFaults faults)
    : core_(std::move(compiler), config, std::move(faults),
            [this](Program& p, ProgramState& s) { condemnation_.take_out(p, s); }) {}

Tier::~Tier() {
  core_.queue.stop();  // before what its jobs refer to
}

// ---- programs -----------------------------------------------------------------------------------

void Tier::added(const std::shared_ptr<Program>& program) {
  if (core_.queue.lost()) return;
  auto state = std::make_shared<ProgramState>();
  state->program = program;
  state->added_ns = steady_ns();
  state->frozen = program->frozen();
  program->tier_state = state;
  core_.queue.add(*program, state);
  // With a persistent cache that has to wait for the first bind: FirstBind.
  if (!core_.caches.of(*program)) packing_.post(*program, state);
}

void Tier::removed(Program& program) {
  if (core_.queue.lost()) return;
  // One by one: a session that ends asks for no memory.
  while (const auto child = program.take_child()) removed(*child);
  core_.queue.remove(program);
}

void Tier::freeze(Program& program) {
  const StatePtr state = core_.queue.state_of(program);
  if (!state) return;
  ++state->freezing;
  std::optional<tier::Work> work;
  {
    const AtEnd has_it([&] {
      --state->freezing;
      state->freezing.notify_all();
    });
    work.emplace(*state, program);
  }
  {
    std::lock_guard data(state->data);
    if (std::exchange(state->frozen, true)) return;
    for (const auto& group : state->groups)
      if (group->state == RegionState::kQueued) group->state = RegionState::kCandidate;
  }
  core_.queue.drop_compiles(state);
  trials_.end(program, *state, false);
  zeros_.let_go(program, *state);
  core_.emit(*state, program, {.kind = EventKind::kFrozen});
}

bool Tier::wait_idle(Program& program, std::chrono::milliseconds timeout) {
  const StatePtr state = core_.queue.state_of(program);
  return !state || core_.queue.wait_idle(state, timeout);
}

void Tier::warm_up(Program& program, bool on) {
  if (const StatePtr state = core_.queue.state_of(program)) warm_up_.turn(state, on);
}

bool Tier::settled(Program& program, SignatureEntry& entry) {
  const StatePtr state = core_.queue.state_of(program);
  return !state || warm_up_.settled(program, *state, entry);
}

void Tier::record(Program& program, Event event) {
  if (const StatePtr state = core_.queue.state_of(program))
    core_.emit(*state, program, std::move(event));
  else
    program.engine().emit(event);
}

void Tier::summarise(const Program& program, ProfileSummary& summary, bool details) const {
  if (const StatePtr state = core_.queue.state_of(program))
    tier::summarise(core_, program, *state, summary, details);
}

// ---- runs ---------------------------------------------------------------------------------------

void Tier::first_bound(Program& program, SignatureEntry& entry) {
  if (!core_.queue.lost()) first_bind_.bound(program, entry);
}

TierHooks::Seat Tier::seat_for(Program& program, SignatureEntry& entry) {
  const StatePtr state = state_in_run(program);
  return state ? trials_.seat_for(program, *state, entry) : Seat{};
}

void Tier::seated(Program& program, SignatureEntry& entry, int64_t trial) {
  if (const StatePtr state = core_.queue.state_of(program)) trials_.seated(*state, entry, trial);
}

void Tier::sampled(Program& program, SignatureEntry& entry, double runs, bool compiles) {
  if (const StatePtr state = state_in_run(program))
    observer_.sampled(program, state, entry, runs, compiles);
}

void Tier::failed(const Program& program, bool ended) noexcept {
  if (const StatePtr state = state_in_run(program)) observer_.failed(state, ended);
}

void Tier::ended(const Program& program, SignatureEntry& entry) noexcept {
  if (const StatePtr state = state_in_run(program)) observer_.ended(state, entry);
}

}  // namespace xc
