#include "tier/first_bind.h"

#include "tier/plan_choice.h"
#include "tier/work.h"

namespace xc::tier {

void FirstBind::bound(Program& program, SignatureEntry& entry) {
  // A kernel may have been found wrong between the entry's bind and its place in the table, where
  // condemn() looks for those that run it.
  const auto known = shared_state(program);
  if (known && known->any_wrong) condemnation_.replace_wrong(program, *known, entry);
  // With a persistent cache weights are packed behind that: it must not find the background thread
  // at work.
  if (restore_.recall(program, entry)) packing_.post(program, known);
  const auto mode = program.config().jit_mode();
  // In mode freeze no one follows up: what an earlier process learnt of these sizes is used now.
  const bool recalled = mode == JitMode::kFreeze && entry.segment > 0;
  if ((mode != JitMode::kSync && !recalled) || !program.config().fuses()) return;
  const StatePtr state = core_.queue.state_of(program);
  if (!state) return;
  const Work work(*state, program);
  if (state->frozen) return;
  if (recalled) {
    if (state->analysed) publishing_.bind_anew_or_settle(program, *state, entry);
    return;
  }
  if (!state->analysed) compile_all(program, *state, entry);
  if (core_.faults.specials) specialise(program, *state, entry);
  publishing_.bind_anew_or_settle(program, *state, entry);
}

void FirstBind::compile_all(Program& program, ProgramState& state, SignatureEntry& entry) {
  const double start = thread_cpu_seconds();
  packing_.pack(program, state);
  search_.analyse(program, state);
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a refusal may add groups
    Group& group = *state.groups[k];
    group.queued.by = entry.weak_from_this();
    if (!compilation_.compile(program, state, group)) continue;
    std::lock_guard data(state.data);
    group.policy.always();
    settle_state(group);
    ++state.swapped;
  }
  std::lock_guard data(state.data);
  state.spent_s += thread_cpu_seconds() - start;
}

void FirstBind::specialise(Program& program, ProgramState& state, const SignatureEntry& entry) {
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
    Group* special = facts.empty() ? nullptr : specials_.add(program, state, general, facts);
    if (!special) continue;
    special->queued.by = general.queued.by;
    if (!compilation_.compile(program, state, *special)) continue;
    std::lock_guard data(state.data);
    special->policy.always();
    settle_state(*special);
  }
}

}  // namespace xc::tier
