#include "tier/trials.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/clock.h"
#include "runtime/sampling.h"
#include "tier/failures.h"
#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

constexpr size_t kMaxOnTrial = 256;  // signatures

std::string step_key(const Step& step) {
  std::string key = step.kernel_name + "|" + step.name;
  for (NodeId n : step.nodes) key += "," + std::to_string(n);
  return key;
}

/// Per step of a's, whether b lacks it.
std::vector<uint8_t> difference(const Plan& a, const Plan& b) {
  std::unordered_set<std::string> keys;
  for (const auto& step : b.steps) keys.insert(step_key(*step));
  std::vector<uint8_t> out;
  for (const auto& step : a.steps) out.push_back(!keys.count(step_key(*step)));
  return out;
}

/// "n=128, m=4", for people.
std::string sizes_text(const SignatureEntry& entry, const Plan& plan) {
  std::string out;
  for (size_t k = 0; k < entry.symbols.size() && k < 6; ++k)
    out += fmt::format("{}{}={}", k ? ", " : "", plan.symbols[k].name, entry.symbols[k]);
  return out.empty() ? "fixed sizes" : out;
}

/// What the group is predicted to take at the sizes of the entry; 1 where that is not known.
double predicted_or_1(ProgramState& state, const SignatureEntry& entry, const Group& group) {
  std::lock_guard data(state.data);
  const double predicted = predicted_s(group, *state.program.lock()->base_plan(), entry.symbols);
  return predicted > 0 ? predicted : 1;
}

/// The entry goes on with one side of a trial. Asks for no memory.
void leave(Program& program, SignatureEntry& entry, bool accepted) {
  const auto now = program.published(entry);
  if (const auto& next = accepted && now->challenger ? now->with_challenger : now->with_active)
    program.publish(entry, next);
}

}  // namespace

TierHooks::Seat Trials::seat_for(Program& program, ProgramState& state, SignatureEntry& entry) {
  std::unique_lock data(state.data, std::try_to_lock);
  if (!data) return {program.preferred_plan(), {}};
  const GroupFacts& facts = known_facts(state, entry);
  const auto plan_of = [&](const std::vector<const Group*>& groups) {
    return groups.empty() ? program.base_plan() : find_plan(state, groups);
  };
  std::vector<const Group*> wanted = chosen(state, entry, facts);
  TierHooks::Seat seat{plan_of(wanted), {}};
  if (!seat.plan) {  // not built yet: without the kernels for special sizes it may be
    std::erase_if(wanted, [](const Group* g) { return g->special_of != nullptr; });
    seat.plan = plan_of(wanted);
  }
  Trial& trial = state.trial;
  if (!trial.group || trial.entries.size() >= kMaxOnTrial || !seat.plan ||
      !trial.covers(entry, fact_at(state, facts, *trial.group)))
    return seat;
  // It may never come again: it takes one side from its first run on.
  const auto other = plan_of(challenging(state, entry, facts));
  if (!other || other == seat.plan) return seat;
  const bool challenger = trial_side(0, 0, trial.samples + trial.entries.size()) == 1;
  const Plan& mine = challenger ? *other : *seat.plan;
  seat.focus = difference(mine, challenger ? *seat.plan : *other);
  seat.timed = true;
  if (challenger) seat.plan = other;
  seat.trial = trial.began_ns;
  return seat;
}

void Trials::seated(ProgramState& state, SignatureEntry& entry, int64_t trial) {
  std::lock_guard data(state.data);
  // Where it ended meanwhile, a run of the entry says so (count_sample()).
  if (state.trial.group && state.trial.began_ns == trial)
    state.trial.entries.push_back(entry.weak_from_this());
}

void Trials::post_start(const StatePtr& state, Group& group, bool doubted, SignatureEntry& entry) {
  core_.queue.post_once(
      state, doubted ? state->confirm_posted : state->trial_posted,
      [this, &group, weak = entry.weak_from_this()](Program& p, ProgramState& s) {
        if (const auto target = weak.lock()) start(p, s, group, target);
      },
      doubted ? Charge::kSoon : Charge::kBudget);
}

bool Trials::count_sample(const StatePtr& state, SignatureEntry& entry,
                          const Published& published) {
  constexpr uint64_t kLook = 6, kEvery = 2;  // samples of both sides together
  if (!is_tried(*state, published)) {
    post_leave(state, entry);
    return false;
  }
  Trial& trial = state->trial;
  const uint64_t n = ++trial.samples;
  trial.seen_ns = steady_ns();
  if (n >= kLook && n % kEvery == 0) post_judge(state);
  return true;
}

void Trials::count_failure(const StatePtr& state, bool ended) {
  constexpr int kFailures = 3;
  Trial& trial = state->trial;
  if (!ended) {
    if (++trial.failures >= kFailures) give_up(state, true);
  } else if (++trial.ended % Trial::kEnded == 0 && trial.group) {
    post_judge(state);
  }
}

void Trials::give_up(const StatePtr& state, bool failed) {
  if (!state->trial.group) return;
  const auto end_it = [this, failed, began_ns = state->trial.began_ns,
                       seen_ns = state->trial.seen_ns](Program& p, ProgramState& s) {
    {
      std::lock_guard lock(s.data);
      const Trial& trial = s.trial;
      if (!trial.group || trial.began_ns != began_ns) return;
      if (!failed && may_try(s, *trial.group) && trial.seen_ns != seen_ns) return;  // runs came
    }
    abandon(p, s, failed);
  };
  core_.queue.post_once(state, state->end_posted, end_it, Charge::kSoon);
}

void Trials::next(Program& program, ProgramState& state) {
  const auto latest = program.latest_entries();  // in use now; others join when they run
  std::shared_ptr<SignatureEntry> entry;
  Group* group = nullptr;
  {
    std::lock_guard data(state.data);
    const double now_s = steady_s();
    const auto find = [&](bool doubted) {
      for (size_t k = 0; k < state.groups.size() && !group; ++k) {
        Group* g = state.groups[k].get();
        const auto& used = latest[g->segment];
        if (!used || g->wrong || g->state < RegionState::kReady || !may_try(state, *g)) continue;
        const int size = known_facts(state, *used)[k].size;
        if (doubted && !g->policy.doubted(size)) continue;
        // A kernel fresh from verification is tried wherever the session is now.
        if (g->state == RegionState::kReady && !g->policy.latest())
          g->policy.ran_base(size, 0, 0, 0, now_s);
        if (g->policy.wants(size, core_.queue.prices(), now_s) == policy::Trial::kNone) continue;
        group = g;
        entry = used;
      }
    };
    find(true);  // what has become slow is in every run
    find(false);
  }
  if (group) start(program, state, *group, entry);
}

void Trials::start(Program& program, ProgramState& state, Group& group,
                   const std::shared_ptr<SignatureEntry>& entry) {
  Trial trial;
  const auto running = program.published(*entry);
  {
    std::lock_guard data(state.data);
    if (state.trial.group || state.frozen || group.wrong || !group.code.kernel) return;
    const GroupFacts& facts = known_facts(state, *entry);
    trial.size = fact_at(state, facts, group).size;
    if (!may_try(state, group)) return;
    // With or without the general kernel, what runs is the one for these sizes. What became slow
    // may have become so with it: then all of them go, or stay.
    trial.specials = uses_special(state, *running->active->bound->plan, facts, group);
    if (trial.specials && !group.policy.doubted(trial.size))
      return group.policy.postpone(trial.size);
    trial.reach = group.policy.reach();
    const policy::Trial wanted = group.policy.wants(trial.size, core_.queue.prices(), steady_s());
    if (wanted == policy::Trial::kNone) return;
    // A special kernel is tried where its sizes are these, a part of a region where that is not in
    // use.
    if (group.special_of || group.part_of) {
      const auto with = chosen(state, *entry, facts, &group);
      if (std::find(with.begin(), with.end(), &group) == with.end())
        return group.policy.postpone(trial.size);
    }
    trial.group = &group;
    trial.confirm = wanted == policy::Trial::kConfirm;
    trial.began_ns = trial.seen_ns = steady_ns();
    trial.patience_ns = kPatienceNs * group.policy.patience(trial.size);
    state.trial = trial;
    group.state = RegionState::kTrial;
  }
  std::string refusal;
  bool later = false;
  try {
    publishing_.bind_anew(program, state, *entry);
    if (!join(program, state, entry)) refusal = "replaces no step of this plan";
    std::lock_guard data(state.data);
    state.trial.seen_ns = steady_ns();  // to bind may have taken longer than runs are waited for
  } catch (const std::exception& error) {
    later = may_pass_later(error);
    if (!later) refusal = std::string("cannot be planned: ") + error.what();
  }
  if (later) {
    {
      std::lock_guard data(state.data);
      group.policy.failed(trial.size, steady_s());
    }
    return end(program, state, false);
  }
  if (!refusal.empty()) {
    end(program, state, false);
    refusals_.ban(program, state, group, EventKind::kRefused, refusal);
    return;
  }
  program.call_attention();  // signatures of these sizes join when they next run
  Event event = event_now(state, EventKind::kTrial, group);
  event.detail =
      fmt::format("alternating live runs at {}{}", sizes_text(*entry, *program.base_plan()),
                  trial.confirm ? ": is it worth keeping there?" : "");
  core_.emit(state, program, std::move(event));
}

bool Trials::join(Program& program, ProgramState& state,
                  const std::shared_ptr<SignatureEntry>& entry) {
  std::vector<const Group*> groups;
  auto published = std::make_shared<Published>();
  {
    std::lock_guard data(state.data);
    const Trial& trial = state.trial;
    if (!trial.group) return false;
    published->trial = trial.began_ns;
    const GroupFacts& facts = known_facts(state, *entry);
    if (!trial.covers(*entry, fact_at(state, facts, *trial.group))) return false;
    groups = challenging(state, *entry, facts);
    // Signatures that no longer come make room.
    auto& entries = state.trial.entries;
    if (entries.size() >= kMaxOnTrial) {
      const int64_t now = steady_ns();
      const auto idle = std::find_if(entries.begin(), entries.end(), [&](auto& weak) {
        const auto e = weak.lock();
        return !e || now - e->last_use.load() > kPatienceNs;
      });
      if (idle == entries.end()) return false;
      if (const auto gone = idle->lock()) leave(program, *gone, false);
      entries.erase(idle);
    }
  }
  const auto now = program.published(*entry);
  if (now->challenger || now->timed) return true;
  const auto bound =
      program.bind(*entry, publishing_.plan_with(program, state, groups), {.background = true});
  const Plan &plan = *bound->plan, &running = *now->active->bound->plan;
  published->active = std::make_shared<Version>(now->active->bound);
  std::vector<uint8_t> of_running = difference(running, plan);
  std::vector<uint8_t> focus = difference(plan, running);
  const auto any = [](const std::vector<uint8_t>& f) {
    return std::find(f.begin(), f.end(), 1) != f.end();
  };
  if (!any(of_running) || !any(focus)) return false;
  published->active->compare(std::move(of_running));
  published->challenger = std::make_shared<Version>(bound);
  published->challenger->compare(std::move(focus));
  published->with_active = published_alone(now->active->bound);
  published->with_challenger = published_alone(bound);
  {
    std::lock_guard data(state.data);
    state.trial.entries.push_back(entry);
  }
  program.publish(*entry, std::move(published));
  return true;
}

void Trials::end(Program& program, ProgramState& state, bool accepted) {
  Trial trial;
  {
    std::lock_guard data(state.data);
    trial = std::exchange(state.trial, {});
    if (trial.group && !trial.group->wrong) settle_state(*trial.group);
  }
  for (const auto& weak : trial.entries)
    if (const auto entry = weak.lock()) leave(program, *entry, accepted);
  program.call_attention();
}

void Trials::abandon(Program& program, ProgramState& state, bool failed) {
  std::optional<Event> event;
  {
    std::lock_guard data(state.data);
    const Trial& trial = state.trial;
    if (Group* group = trial.group) {
      if (failed)
        group->policy.failed(trial.size, steady_s());
      else
        group->policy.gave_up(trial.size);
      event = event_of(EventKind::kTrialSample, *group);
      event->samples = static_cast<int64_t>(trial.samples);
      event->wall_ms = ms_since(trial.began_ns);
      event->detail = failed ? "given up: its runs fail" : "given up: its sizes do not come";
    }
  }
  end(program, state, false);
  if (event) core_.emit(state, program, std::move(*event));
}

void Trials::post_leave(const StatePtr& state, SignatureEntry& entry) {
  if (entry.rebinding.exchange(true)) return;
  const auto leave_it = [weak = entry.weak_from_this()](Program& p, ProgramState& s) {
    const auto target = weak.lock();
    if (!target) return;
    const auto now = p.published(*target);
    {
      std::lock_guard data(s.data);
      target->rebinding = false;
      if (is_tried(s, *now)) return;
    }
    leave(p, *target, false);
  };
  try {
    core_.queue.post(state, leave_it, Charge::kSoon);
  } catch (...) {
    entry.rebinding = false;
    throw;
  }
}

void Trials::post_judge(const StatePtr& state) {
  if (state->trial.judge_posted) return;
  core_.queue.post(state, [this](Program& p, ProgramState& s) { judge(p, s); }, Charge::kSoon);
  state->trial.judge_posted = true;
}

void Trials::judge(Program& program, ProgramState& state) {
  Trial trial;
  {
    std::lock_guard data(state.data);
    state.trial.judge_posted = false;
    trial = state.trial;
  }
  if (!trial.group) return;
  Group& group = *trial.group;
  const Evidence evidence = gather(program, state, trial);
  const policy::Sides pooled = policy::pool(evidence.sides);
  const size_t samples = std::min(pooled.active.size(), pooled.challenger.size());
  // Runs that the host ends count for nothing, unless one side has no others: it takes longer than
  // the host waits.
  const bool one_side = trial.ended >= Trial::kEnded && samples == 0;
  const bool goes = one_side && trial.confirm && pooled.challenger.size() >= Trial::kOthers;
  if (one_side && !goes) return abandon(program, state, true);
  if (!evidence.most) return;
  const bool special = group.special_of && !trial.confirm;
  policy::TrialResult result = policy::judge(pooled.active, pooled.challenger,
                                             special ? policy::kSpecialWorth : policy::kWorth);
  if (goes) {
    result.verdict = policy::Verdict::kAccept;
    result.active = result.challenger = policy::median(pooled.challenger);
  } else if (core_.faults.eager && samples > 0) {
    result.verdict = trial.confirm ? policy::Verdict::kReject : policy::Verdict::kAccept;
  }
  // No signature on both sides: the figures are those of a predicted second.
  const double scale =
      evidence.scale != 0 ? evidence.scale : predicted_or_1(state, *evidence.most, group);
  const double unit_s = scale * ns_per_tick() * 1e-9;
  const double active_s = result.active * unit_s, challenger_s = result.challenger * unit_s;
  const double base_s = trial.confirm ? challenger_s : active_s;
  const double fused_s = trial.confirm ? active_s : challenger_s;
  Event event = event_now(state, EventKind::kTrialSample, group);
  event.base_us = base_s * 1e6;
  event.fused_us = fused_s * 1e6;
  event.samples = static_cast<int64_t>(samples);
  event.shapes = static_cast<int64_t>(evidence.sides.size());
  event.wall_ms = ms_since(trial.began_ns);
  if (result.verdict == policy::Verdict::kUndecided)
    return core_.emit(state, program, std::move(event));
  if (special) {
    std::lock_guard data(state.data);
    specials_.learn(state, group, trial, *evidence.most, base_s, fused_s);
  }
  const std::string sizes = sizes_text(*evidence.most, *program.base_plan());
  event.detail =
      goes ? fmt::format("the host ended all runs with it, those without it take {:.2f} us at {}",
                         base_s * 1e6, sizes)
           : fmt::format(
                 "{:.2f} us against {:.2f} us, {:.3f} of the time over {} signatures like {}",
                 challenger_s * 1e6, active_s * 1e6, challenger_s / active_s, evidence.sides.size(),
                 sizes);
  const bool changes = result.verdict == policy::Verdict::kAccept;
  const bool fused = changes != trial.confirm;
  decide(state, trial, evidence, fused, event);
  end(program, state, changes);
  core_.emit(state, program, std::move(event));
  keeper_.keep(program, state);
  if (!fused) search_.offer_smaller(program, state, group);
  publishing_.everywhere(program, state);
  next(program, state);
}

Trials::Evidence Trials::gather(Program& program, ProgramState& state, const Trial& trial) {
  Evidence out;
  size_t most_samples = 0;
  const double tick_s = ns_per_tick() * 1e-9;
  for (const auto& weak : trial.entries) {
    const auto entry = weak.lock();
    if (!entry) continue;
    const auto now = program.published(*entry);
    policy::Sides sides;
    if (now->challenger) {
      sides = {now->active->times->recent(), now->challenger->times->recent()};
    } else if (now->timed) {
      std::lock_guard data(state.data);
      const bool with = uses(state, *now->active->bound->plan, *trial.group);
      (with != trial.confirm ? sides.challenger : sides.active) = now->active->times->recent();
    } else {
      continue;
    }
    sides.predicted = predicted_or_1(state, *entry, *trial.group);
    const size_t samples = std::min(sides.active.size(), sides.challenger.size());
    if (samples > 0) {
      const double active_s = policy::median(sides.active) * tick_s;
      const double challenger_s = policy::median(sides.challenger) * tick_s;
      out.medians.push_back({entry->symbols, active_s, challenger_s});
      out.lost_s +=
          (challenger_s - active_s) * static_cast<double>(now->challenger->times->samples());
    }
    if (!out.most || samples > most_samples) {
      most_samples = samples;
      out.most = entry;
      out.scale = samples > 0 ? policy::scale(sides) : 0;
    }
    out.sides.push_back(std::move(sides));
  }
  return out;
}

void Trials::decide(ProgramState& state, const Trial& trial, const Evidence& evidence, bool fused,
                    Event& event) {
  Group& group = *trial.group;
  std::lock_guard data(state.data);
  group.policy.decide(trial.size, fused, event.base_us * 1e-6, event.fused_us * 1e-6, steady_s(),
                      std::max(0.0, evidence.lost_s));
  group.ledger.add_saved(-evidence.lost_s);
  for (const Evidence::Medians& m : evidence.medians)
    group.ledger.trialled(m.shape, trial.confirm ? m.challenger_s : m.active_s,
                          trial.confirm ? m.active_s : m.challenger_s);
  group.decided_on = evidence.most->key;
  group.watch = {};
  if (fused) {
    group.reason.clear();
    if (!trial.confirm) ++state.swapped;
    event.kind = trial.confirm ? EventKind::kKept : EventKind::kAccepted;
    return;
  }
  if (trial.specials)
    for (const auto& special : state.groups) {
      if (special->special_of != &group || !special->policy.fused(trial.size)) continue;
      special->policy.decide(trial.size, false, event.base_us * 1e-6, event.fused_us * 1e-6,
                             steady_s(), 0);
      special->watch = {};
      special->reason = "slower than what it replaced, as " + group.name + " is";
      settle_state(*special);
    }
  ++(trial.confirm ? state.rolled_back : state.rejected);
  event.kind = trial.confirm ? EventKind::kRolledBack : EventKind::kRejected;
  event.detail = (trial.confirm ? "slower than what it replaced: " : "not faster: ") + event.detail;
  event.back_off_s = group.policy.latest()->again_s - steady_s();
  group.reason = event.detail;
}

}  // namespace xc::tier
