#include "tier/observer.h"

#include <algorithm>

#include "base/at_end.h"
#include "base/clock.h"
#include "plan/continues.h"
#include "tier/failures.h"
#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

constexpr uint64_t kFirstLook = 3;  // samples before regions are searched

/// predicted_s(), where products are as fast as those that run instead: the host was measured
/// in a moment, maybe while another core was at work on what they share. What skips zeros goes by
/// those seen lately.
double predicted_in(Group& group, const Plan& plan, std::span<const int64_t> symbols,
                    const Version& version) {
  const double predicted = predicted_s(group, plan, symbols);
  if (group.cost.product_flops == Dim(0)) return predicted;
  const double known = host_speed().product_rate, seen = group.product_rate_in(version);
  return seen > known ? predicted * known / seen : predicted;
}

/// Which values the sizes take that this segment's entries tell.
void count_sizes(ProgramState& state, const SignatureEntry& entry, const Plan& plan, double runs) {
  const std::vector<int64_t>& symbols = entry.symbols;
  const uint32_t segment = entry.segment;
  state.sizes.resize(std::max(state.sizes.size(), symbols.size()));
  for (size_t k = segment ? plan.segments[segment - 1].symbol_end : 0; k < symbols.size(); ++k)
    state.sizes[k].add(symbols[k], runs);
}

/// Compares a live region, a window of samples at a time, with what it replaced: known from the
/// trial on the signature that decided it, elsewhere the first window's times the trial's ratio.
/// Trials of others, which change the plan, are no new beginning.
void watch(Group& group, int size, SignatureEntry& entry, const Version& version, int64_t now) {
  Group::Watch& watch = group.watch;
  // One signature at a time; another when that one is used no more.
  if (watch.entry && watch.entry != &entry && now - watch.seen_ns < 4 * kPatienceNs) return;
  if (watch.entry != &entry) watch = {.entry = &entry};
  const uint64_t samples = version.times->samples();
  const double seconds = group.seconds_in(version) * static_cast<double>(samples);
  const bool known = watch.times == version.times.get() && samples >= watch.samples;
  const bool full = known && watch.window.add(samples - watch.samples, seconds - watch.seconds);
  watch.times = version.times.get();
  watch.seen_ns = now;
  watch.samples = samples;
  watch.seconds = seconds;
  const policy::RegionPolicy::AtSize* measured = group.policy.measured(size);
  if (!full || !measured || !(measured->base_s > 0) || !(measured->fused_s > 0)) return;
  const bool decided = group.decided_on == entry.key;
  if (watch.window.look(decided ? measured->base_s
                                : watch.window.median_s() * measured->base_s / measured->fused_s,
                        measured->kept))
    group.policy.doubt(size);
}

}  // namespace

void Observer::sampled(Program& program, const StatePtr& state, SignatureEntry& entry, double runs,
                       bool compiles) {
  const Published& published = *entry.current.load(std::memory_order_seq_cst);
  const bool on_trial = published.challenger || published.timed;
  if (!compiles && !on_trial) return;
  if (core_.queue.take_refusal()) {
    Event event;
    event.kind = EventKind::kJitDisabled;
    event.detail = "the system refused the background thread: nothing is compiled";
    core_.emit(*state, program, std::move(event));
  }
  entry.runs.fetch_add(static_cast<uint64_t>(runs), std::memory_order_relaxed);
  if (core_.faults.eager && entry.sample_bits > kSampleBits) entry.sample_bits = kSampleBits;
  if (program.config().force_swap) swap_by_force(program, *state, entry);
  if (program.config().jit_mode() != JitMode::kAuto || !program.config().fuses()) return;
  std::unique_lock data(state->data, std::try_to_lock);
  if (!data || state->frozen) return;
  if (!state->analysed) return count_to_search(state, entry);
  if (on_trial) return sampled_on_trial(state, entry, published);
  const GroupFacts& facts = known_facts(*state, entry);
  if (!program.config().force_swap) follow(state, entry, facts, published);
  const int64_t now = steady_ns();
  // Sizes on trial that come no more must not keep others from theirs.
  if (now - state->trial.seen_ns > state->trial.patience_ns) trials_.give_up(state, false);
  const Sample sample{entry, *published.active,   *program.base_plan(), facts, runs,
                      now,   core_.queue.prices()};
  count_sizes(*state, entry, *published.active->bound->plan, runs);
  zeros_.consider(state, program, entry);
  Wanted wanted;
  for (size_t k = 0; k < state->groups.size(); ++k) {
    Group& group = *state->groups[k];
    if (group.segment == entry.segment && !group.wrong && facts[k].applies)
      add_sample(state, group, facts[k], sample, wanted);
  }
  if (wanted.trial && !state->trial.group)
    trials_.post_start(state, *wanted.trial, wanted.doubted, entry);
  data.unlock();
  post_queued(program, state, std::move(wanted.compiles));
}

void Observer::failed(const StatePtr& state, bool ended) noexcept {
  try {
    const std::unique_lock data(state->data, std::try_to_lock);
    if (data) trials_.count_failure(state, ended);
  } catch (...) {
    // Without memory for the job; the next failure asks again.
  }
}

void Observer::ended(const StatePtr& state, SignatureEntry& entry) noexcept {
  try {
    const std::unique_lock data(state->data, std::try_to_lock);
    if (data && !state->frozen && !state->trial.group) doubt_all(state, entry);
  } catch (...) {
    // As above.
  }
}

void Observer::count_to_search(const StatePtr& state, const SignatureEntry& entry) {
  if (state->analysing || entry.segment != 0 || ++state->samples < kFirstLook) return;
  core_.queue.post(state, [this](Program& p, ProgramState& s) {
    const AtEnd done([&] {  // what failed, for want of memory, is asked for again
      std::lock_guard lock(s.data);
      s.analysing = s.analysed;
    });
    search_.analyse(p, s);
  });
  state->analysing = true;
}

void Observer::sampled_on_trial(const StatePtr& state, SignatureEntry& entry,
                                const Published& published) {
  if (!trials_.count_sample(state, entry, published) || core_.faults.eager) return;
  // What both sides have in use may become slow meanwhile.
  const GroupFacts& facts = known_facts(*state, entry);
  const Version& version = *published.active;
  const Trial& trial = state->trial;
  for (size_t k = 0; k < state->groups.size(); ++k) {
    Group& group = *state->groups[k];
    if (group.segment == entry.segment && !group.wrong && &group != trial.group &&
        uses(*state, *version.bound->plan, group))
      watch(group, facts[k].size, entry, version, trial.seen_ns);
  }
}

/// A signature that runs an older plan, kernels bound in a hurry or such as read weights that were
/// packed since is bound anew; one of the sizes a trial is about joins it.
void Observer::follow(const StatePtr& state, SignatureEntry& entry, const GroupFacts& facts,
                      const Published& published) {
  const Plan& running = *published.active->bound->plan;
  const std::vector<const Group*> groups = chosen(*state, entry, facts);
  const auto wanted = groups.empty() ? nullptr : find_plan(*state, groups);
  bool older = groups.empty() ? running.region_steps > 0 : wanted.get() != &running;
  if (const auto over = facts.over_limit.lock())
    older = older && over != (groups.empty() ? state->program.lock()->base_plan() : wanted);
  // Where what is wanted does not go on from what ran before, that is what goes on.
  if (older && entry.segment > 0 && entry.begun.get() == &running) {
    const auto next = groups.empty() ? state->program.lock()->base_plan() : wanted;
    older = !next || continues(running, *next, entry.segment);
  }
  // Sizes that came once may never come again. (The second run of an entry is timed in any case.)
  const bool again = published.active->times->samples() > 1;
  const Bound& bound = *published.active->bound;
  const bool settle = older || (again && (bound.provisional || bound.outdated()));
  if (!settle) {
    const Group* tried = state->trial.group;
    if (!tried || tried == facts.untried ||
        !state->trial.covers(entry, fact_at(*state, facts, *tried)))
      return;
  }
  if (entry.rebinding.exchange(true)) return;
  std::weak_ptr<SignatureEntry> weak = entry.weak_from_this();
  const auto bind_it = [this, weak, settle](Program& p, ProgramState& s) {
    const auto target = weak.lock();
    if (!target) return;
    try {
      if (settle)
        publishing_.bind_anew_or_settle(p, s, *target);
      else
        join_trial(p, s, target);
    } catch (const std::exception& error) {
      target->rebinding = !is_out_of_memory(error);  // else it would fail the same way
      throw;
    }
    target->rebinding = false;
  };
  try {
    // What mode off does as well is at nobody's cost.
    core_.queue.post(state, bind_it, settle && !older ? Charge::kNone : Charge::kBudget);
  } catch (...) {
    entry.rebinding = false;
    throw;
  }
}

/// One whose plans are over a limit there is not joined again.
void Observer::join_trial(Program& program, ProgramState& state,
                          const std::shared_ptr<SignatureEntry>& entry) {
  const Group* tried = nullptr;
  {
    const std::lock_guard data(state.data);
    tried = state.trial.group;
  }
  try {
    trials_.join(program, state, entry);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    const std::lock_guard data(state.data);
    known_facts(state, *entry).untried = tried;
  }
}

void Observer::add_sample(const StatePtr& state, Group& group, const GroupFact& fact,
                          const Sample& sample, Wanted& wanted) {
  if (group.state == RegionState::kQueued)  // what waiting loses is what the queue goes by
    return add_loss(group, group.seconds_in(sample.version), sample);
  if (group.state == RegionState::kVerifying)
    return live_.ask_again(state, group, sample.entry, sample.now_ns);
  if (uses(*state, *sample.version.bound->plan, group))
    ran_fused(state, group, fact.size, sample);
  else if (!ran_base(state, group, fact, sample))
    return;
  if (!may_try(*state, group)) return;
  if (group.state == RegionState::kCandidate) return queue_if_worth(*state, group, sample, wanted);
  if (wanted.doubted ||
      group.policy.wants(fact.size, sample.prices, sample.now_s()) == policy::Trial::kNone)
    return;
  wanted.doubted = group.policy.doubted(fact.size);
  if (!wanted.trial || wanted.doubted) wanted.trial = &group;
}

void Observer::add_loss(Group& group, double base_s, const Sample& sample) {
  if (group.predicted_s < policy::Regret::kMinimumGain * base_s)
    group.loss.add(sample.runs * (base_s - group.predicted_s), sample.now_s());
  group.queued.urgency.loss_per_s.store(group.loss.per_s(sample.now_s()),
                                        std::memory_order_relaxed);
  group.queued.urgency.at_ns.store(sample.now_ns, std::memory_order_relaxed);
}

void Observer::ran_fused(const StatePtr& state, Group& group, int size, const Sample& sample) {
  SignatureEntry& entry = sample.entry;
  group.policy.ran_fused(size, sample.runs);
  const auto* measured = group.policy.measured(size);
  if (measured)
    group.saved.add(sample.runs * std::max(0.0, measured->base_s - measured->fused_s),
                    sample.now_s());
  group.ledger.live(entry.symbols, sample.runs, group.seconds_in(sample.version),
                    measured && measured->fused_s > 0 ? measured->base_s / measured->fused_s : 0);
  if (!core_.faults.eager) watch(group, size, entry, sample.version, sample.now_ns);
  specials_.consider(state, group, entry.symbols, sample.runs, sample.now_s());
  if (!group.special_of) sentinel_.ran(state, group, entry, sample.runs, sample.now_ns);
}

bool Observer::ran_base(const StatePtr& state, Group& group, const GroupFact& fact,
                        const Sample& sample) {
  const std::vector<int64_t>& symbols = sample.entry.symbols;
  const Plan& plan = *sample.version.bound->plan;
  const double now_s = sample.now_s();
  // Where the larger region is in use, its parts have nothing to win.
  if (group.part_of && covered_by(groups_in(*state, plan), *group.part_of)) return false;
  // Nor has the general kernel where one for these very sizes runs, or one before it is there.
  const bool special_runs = uses_special(*state, plan, sample.facts, group);
  if (special_runs || group.policy.refused(fact.size))
    specials_.consider(state, group, symbols, sample.runs, now_s);
  if (special_runs || (group.special_of && !stands(group.special_of))) return false;
  const double base_s = group.seconds_in(sample.version);
  group.predicted_s = group.special_of
                          ? specials_.predicted_s(*state, group, fact.size, symbols, base_s, now_s)
                          : predicted_in(group, sample.base, symbols, sample.version);
  if (core_.faults.eager) group.predicted_s = std::min(group.predicted_s, base_s / 2);
  group.policy.ran_base(fact.size, sample.runs, base_s, group.predicted_s, now_s);
  group.ledger.replaced(symbols, sample.runs, base_s, group.predicted_s);
  add_loss(group, base_s, sample);
  return true;
}

void Observer::queue_if_worth(const ProgramState& state, Group& group, const Sample& sample,
                              Wanted& wanted) {
  const bool worth = core_.faults.eager || (state.warming > 0 && group.policy.regret_s() > 0) ||
                     group.policy.worth_compiling(sample.prices, !compilation_.any());
  if (!worth || sample.now_s() < group.queued.again_s) return;
  Event event = event_of(EventKind::kQueued, group);
  event.base_us = group.seconds_in(sample.version) * 1e6;
  event.regret_ms = group.policy.regret_s() * 1e3;
  event.price_ms = sample.prices.threshold_s(!compilation_.any()) * 1e3;
  group.state = RegionState::kQueued;
  group.queued.urgency.queued_per_s = group.queued.urgency.loss_per_s;
  group.queued.room_tries = 0;
  group.queued.by = sample.entry.weak_from_this();
  wanted.compiles.emplace_back(&group, std::move(event));
}

/// Runs that the host ends have no times, by which what became slow would be found.
void Observer::doubt_all(const StatePtr& state, SignatureEntry& entry) {
  const Version& version = *entry.current.load(std::memory_order_seq_cst)->active;
  const GroupFacts& facts = known_facts(*state, entry);
  const double now_s = steady_s();
  Group* slow = nullptr;
  for (size_t k = 0; k < state->groups.size(); ++k) {
    Group& group = *state->groups[k];
    if (group.segment != entry.segment || group.wrong || !uses(*state, *version.bound->plan, group))
      continue;
    group.policy.doubt(facts[k].size);
    if (!slow &&
        group.policy.wants(facts[k].size, core_.queue.prices(), now_s) == policy::Trial::kConfirm)
      slow = &group;
  }
  if (slow) trials_.post_start(state, *slow, true, entry);
}

void Observer::post_queued(Program& program, const StatePtr& state, Queued queued) {
  size_t posted = 0;
  const AtEnd back([&] {  // without memory for a job, its region waits for no one
    if (posted == queued.size()) return;
    std::lock_guard lock(state->data);
    for (; posted < queued.size(); ++posted) queued[posted].first->state = RegionState::kCandidate;
  });
  for (; posted < queued.size(); ++posted) {
    core_.emit(*state, program, std::move(queued[posted].second));
    compilation_.post(state, *queued[posted].first);
  }
}

/// Testing: another plan at every run, alternating between the base plan and the best one.
void Observer::swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto preferred = program.preferred_plan();
  const bool base = state.toggles++ % 2 == 0 || !preferred;
  auto published = std::make_shared<Published>();
  published->active =
      std::make_shared<Version>(program.bind(entry, base ? program.base_plan() : preferred, {}));
  program.publish(entry, std::move(published));
  entry.sample_bits.store(0, std::memory_order_relaxed);
}

}  // namespace xc::tier
