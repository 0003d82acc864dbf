// What a sampled run tells the tier: is a region worth compiling, does a trial have enough to
// decide, has a live region become slow. On a host thread: counts and posts, never waits.

#include <algorithm>

#include "base/clock.h"
#include "tier/tier.h"

namespace xc {
namespace {

constexpr uint64_t kFirstLook = 3;  // samples before regions are searched
constexpr uint64_t kWatchSamples = 32;
constexpr double kDrift = 1.15;  // a live region this much slower than what it replaced is doubted

}  // namespace

double Tier::Group::seconds_in(const Version& version) {
  const Bound& bound = *version.bound;
  if (seen_plan != bound.plan->serial || seen_steps.empty()) {
    seen_plan = bound.plan->serial;
    seen_steps.clear();
    for (uint32_t k = 0; k < bound.steps.size(); ++k) {
      const Step& step = *bound.plan->steps[bound.steps[k].step];
      if (!step.nodes.empty() && nodes.count(step.nodes.front())) seen_steps.push_back(k);
    }
  }
  double ns = 0;
  for (uint32_t k : seen_steps) ns += version.times->step_ns(k);
  return ns * 1e-9;
}

void Tier::sampled(Program& program, SignatureEntry& entry, double runs) {
  const auto state = std::static_pointer_cast<ProgramState>(program.tier_state);
  if (!state) return;
  entry.runs.fetch_add(static_cast<uint64_t>(runs), std::memory_order_relaxed);
  if (program.config().force_swap) swap_by_force(program, *state, entry);
  if (program.config().jit != static_cast<int64_t>(JitMode::kAuto) || program.config().fusion)
    return;
  std::unique_lock data(state->data, std::try_to_lock);
  if (!data || state->frozen) return;
  if (!state->analysed) {
    if (!state->analysing && ++state->samples >= kFirstLook) {
      state->analysing = true;
      post(state, [this](Program& p, ProgramState& s) { analyse(p, s); });
    }
    return;
  }
  const Published& published = *entry.current.load(std::memory_order_seq_cst);
  if (published.challenger) {
    constexpr uint64_t kLook = 16, kEvery = 8;  // samples of both sides together
    const uint64_t n = ++state->trial_samples;
    if (!state->judge_posted && n >= kLook && n % kEvery == 0) {
      state->judge_posted = true;
      post(state, [this](Program& p, ProgramState& s) { judge(p, s); });
    }
    return;
  }
  follow(program, state, entry, published);
  const int64_t now = steady_ns();
  for (const auto& group : state->groups) {
    if (group->state == RegionState::kVerifying && now - group->asked_ns > kPatienceNs) {
      group->asked_ns = now;
      Group* raw = group.get();
      std::weak_ptr<SignatureEntry> weak = entry.weak_from_this();
      post(state, [this, raw, weak](Program& p, ProgramState& s) {
        if (const auto target = weak.lock()) ask_for_inputs(p, s, *raw, *target);
      });
      continue;
    }
    if (group->state == RegionState::kLive) {
      watch(state, *group, entry, *published.active, now);
      continue;
    }
    const bool again =
        group->state == RegionState::kBanned && !group->wrong && now > group->banned_until_ns;
    if (group->state != RegionState::kCandidate && !again) continue;
    const double now_s = group->seconds_in(*published.active);
    group->regret.add(runs, now_s, predicted_s(program, *group, entry));
    if (!group->regret.exceeds(prices_, !any_compiled_)) continue;
    group->state = RegionState::kQueued;
    group->regret.reset();
    Group* raw = group.get();
    std::weak_ptr<SignatureEntry> weak = entry.weak_from_this();
    post(state, [this, raw, weak](Program& p, ProgramState& s) {
      if (!compile(p, s, *raw)) return;
      if (const auto target = weak.lock()) ask_for_inputs(p, s, *raw, *target);
    });
  }
}

/// Testing: another plan at every run, alternating between the base plan and the best one.
void Tier::swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto preferred = program.preferred_plan();
  const bool base = state.toggles++ % 2 == 0 || !preferred;
  auto published = std::make_shared<Published>();
  published->active = std::make_shared<Version>(
      bind_segment(base ? program.base_plan() : preferred, 0, entry.symbols, {}));
  program.publish(entry, std::move(published));
  entry.slow.store(true, std::memory_order_relaxed);
}

/// A signature that runs an older plan, or kernels bound in a hurry, is bound anew; one that runs
/// what a trial compares with joins the trial.
void Tier::follow(Program& program, const StatePtr& state, SignatureEntry& entry,
                  const Published& published) {
  if (program.config().force_swap) return;
  const auto preferred = program.preferred_plan();
  const auto& wanted = preferred ? preferred : program.base_plan();
  const bool older = published.active->bound->plan != wanted;
  const bool settle = older || published.active->bound->provisional;
  if (!settle && !state->trial) return;
  if (entry.rebinding.exchange(true)) return;
  std::weak_ptr<SignatureEntry> weak = entry.weak_from_this();
  post(state, [this, weak, settle](Program& p, ProgramState& s) {
    const auto target = weak.lock();
    if (!target) return;
    if (settle)
      bind_anew(p, *target);
    else
      join_trial(p, s, target);
    target->rebinding = false;
  });
}

void Tier::bind_anew(Program& program, SignatureEntry& entry) {
  const auto now = program.published(entry);
  const auto preferred = program.preferred_plan();
  const auto& wanted = preferred ? preferred : program.base_plan();
  if (now->challenger || now->active->bound->plan == wanted) return program.settle(entry);
  auto next = std::make_shared<Published>();
  next->active =
      std::make_shared<Version>(bind_segment(wanted, 0, entry.symbols, {.background = true}));
  program.publish(entry, std::move(next));
}

double Tier::predicted_s(const Program& program, Group& group, const SignatureEntry& entry) {
  const auto [it, fresh] = group.predicted.try_emplace(&entry, 0.0);
  if (!fresh) return it->second;
  if (group.predicted.size() > 1024) group.predicted.clear();
  const Dim::Lookup lookup = [&](const std::string& symbol) -> std::optional<int64_t> {
    const auto& symbols = program.base_plan()->symbols;
    for (size_t k = 0; k < entry.symbols.size(); ++k)
      if (symbols[k].name == symbol) return entry.symbols[k];
    return std::nullopt;
  };
  const double bytes = static_cast<double>(group.cost.bytes_fused.evaluate(lookup).value_or(0));
  const double flops = static_cast<double>(group.cost.flops.evaluate(lookup).value_or(0));
  group.predicted_s = policy::predict_s(bytes, flops) * static_cast<double>(group.places.size());
  group.predicted[&entry] = group.predicted_s;
  return group.predicted_s;
}

/// Compares a live region, 32 samples at a time, with what it replaced: known from the trial on the
/// signature that decided it, elsewhere the first samples times the trial's ratio.
void Tier::watch(const StatePtr& state, Group& group, const SignatureEntry& entry,
                 const Version& version, int64_t now) {
  Group::Watch& watch = group.watch;
  const Bound& bound = *version.bound;
  const uint64_t samples = version.times->samples();
  const bool same = watch.entry == &entry && watch.bound_serial == bound.serial;
  // One signature at a time; another when that one is used no more.
  if (watch.entry && watch.entry != &entry && now - watch.seen_ns < 4 * kPatienceNs) return;
  watch.seen_ns = now;
  if (same && samples < watch.samples + kWatchSamples) return;
  const double ns = group.seconds_in(version) * 1e9 * static_cast<double>(samples);
  if (same && group.base_s > 0 && group.fused_s > 0) {
    const double mean_s = (ns - watch.ns) / static_cast<double>(samples - watch.samples) * 1e-9;
    if (watch.reference_s == 0)
      watch.reference_s =
          group.decided_on == &entry ? group.base_s : mean_s * group.base_s / group.fused_s;
    watch.alarms = mean_s > kDrift * watch.reference_s ? watch.alarms + 1 : 0;
    if (watch.alarms >= 2 && !state->trial) {
      watch.alarms = 0;
      group.removing = true;
      group.state = RegionState::kReady;
      post(state, [this](Program& p, ProgramState& s) { start_trial(p, s); });
    }
  }
  if (!same) watch = {.entry = &entry, .bound_serial = bound.serial, .seen_ns = now};
  watch.samples = samples;
  watch.ns = ns;
}

}  // namespace xc
