// Trials: two plans that differ in one region run in turn, on every signature that comes by, until
// the times of the steps in which they differ decide.

#include <algorithm>
#include <unordered_set>

#include "base/clock.h"
#include "tier/tier.h"

namespace xc {
namespace {

constexpr size_t kMaxRebound = 64;  // signatures published at once; the others follow when they run
constexpr size_t kMaxOnTrial = 64;  // signatures

std::string step_key(const Step& step) {
  std::string key = step.kernel_name + "|" + step.name;
  for (NodeId n : step.nodes) key += "," + std::to_string(n);
  return key;
}

/// Positions of a's steps that b does not have.
std::vector<uint32_t> difference(const Bound& a, const Bound& b) {
  std::unordered_set<std::string> keys;
  for (const BoundStep& s : b.steps) keys.insert(step_key(*b.plan->steps[s.step]));
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < a.steps.size(); ++k)
    if (!keys.count(step_key(*a.plan->steps[a.steps[k].step]))) out.push_back(k);
  return out;
}

}  // namespace

void Tier::start_trial(Program& program, ProgramState& state) {
  Group* group = nullptr;
  {
    std::lock_guard data(state.data);
    if (state.trial || state.frozen) return;
    for (const auto& g : state.groups)
      if (g->state == RegionState::kReady) {
        group = g.get();
        break;
      }
  }
  if (!group) return;
  std::shared_ptr<SignatureEntry> entry;  // the one in use now; others join when they run
  for (const auto& e : program.entries())
    if (!entry || e->last_use > entry->last_use) entry = e;
  if (!entry) return;
  const bool removing = group->removing;
  std::shared_ptr<const Plan> plan;
  try {
    plan = removing ? build(program, state, nullptr, group) : build(program, state, group, nullptr);
    bind_anew(program, *entry);
  } catch (const std::exception& error) {
    ban(state, program, *group, EventKind::kRefused,
        std::string("cannot be planned: ") + error.what(), true);
    return;
  }
  {
    std::lock_guard data(state.data);
    group->state = RegionState::kTrial;
    state.trial = group;
    state.trial_plan = plan;
    state.on_trial.clear();
    state.trial_samples = 0;
    state.judge_posted = false;
  }
  std::string refusal;
  try {
    if (!join_trial(program, state, entry)) refusal = "replaces no step of this plan";
  } catch (const std::exception& error) {
    refusal = std::string("cannot be bound: ") + error.what();
  }
  if (!refusal.empty()) {
    end_trial(program, state, false);
    ban(state, program, *group, EventKind::kRefused, refusal, true);
    return;
  }
  Event event;
  event.kind = EventKind::kTrial;
  event.region = group->identity;
  event.subject = group->name;
  event.detail = removing ? "became slower: is it still worth keeping?" : "alternating live runs";
  emit(state, program, std::move(event));
}

bool Tier::join_trial(Program& program, ProgramState& state,
                      const std::shared_ptr<SignatureEntry>& entry) {
  std::shared_ptr<const Plan> plan;
  {
    std::lock_guard data(state.data);
    if (!state.trial) return false;
    plan = state.trial_plan;
    // Signatures that no longer come make room.
    if (state.on_trial.size() >= kMaxOnTrial) {
      const int64_t now = steady_ns();
      const auto idle = std::find_if(state.on_trial.begin(), state.on_trial.end(), [&](auto& weak) {
        const auto e = weak.lock();
        return !e || now - e->last_use.load() > kPatienceNs;
      });
      if (idle == state.on_trial.end()) return false;
      if (const auto gone = idle->lock()) leave_trial(program, *gone, false);
      state.on_trial.erase(idle);
    }
  }
  const auto now = program.published(*entry);
  if (now->challenger) return true;
  auto published = std::make_shared<Published>();
  published->active = std::make_shared<Version>(now->active->bound);
  published->challenger =
      std::make_shared<Version>(bind_segment(plan, 0, entry->symbols, {.background = true}));
  published->active->focus = difference(*now->active->bound, *published->challenger->bound);
  published->challenger->focus = difference(*published->challenger->bound, *now->active->bound);
  if (published->active->focus.empty() || published->challenger->focus.empty()) return false;
  program.publish(*entry, std::move(published));
  std::lock_guard data(state.data);
  state.on_trial.push_back(entry);
  return true;
}

void Tier::leave_trial(Program& program, SignatureEntry& entry, bool accepted) {
  const auto now = program.published(entry);
  if (!now->challenger) return;
  auto next = std::make_shared<Published>();
  next->active = std::make_shared<Version>(accepted ? now->challenger->bound : now->active->bound);
  program.publish(entry, std::move(next));
}

void Tier::end_trial(Program& program, ProgramState& state, bool accepted) {
  std::vector<std::weak_ptr<SignatureEntry>> entries;
  {
    std::lock_guard data(state.data);
    entries.swap(state.on_trial);
    state.trial = nullptr;
    state.trial_plan.reset();
  }
  for (const auto& weak : entries)
    if (const auto entry = weak.lock()) leave_trial(program, *entry, accepted);
}

void Tier::judge(Program& program, ProgramState& state) {
  Group* group = nullptr;
  std::shared_ptr<const Plan> plan;
  std::vector<std::weak_ptr<SignatureEntry>> entries;
  {
    std::lock_guard data(state.data);
    state.judge_posted = false;
    group = state.trial;
    plan = state.trial_plan;
    entries = state.on_trial;
  }
  if (!group) return;
  std::vector<policy::Sides> sides;
  const SignatureEntry* most = nullptr;  // the signature with the most samples gives the figures
  size_t most_samples = 0;
  double scale = 0;
  for (const auto& weak : entries) {
    const auto entry = weak.lock();
    if (!entry) continue;
    const auto now = program.published(*entry);
    if (!now->challenger) continue;
    sides.push_back({now->active->times->recent(), now->challenger->times->recent()});
    const size_t samples = std::min(sides.back().active.size(), sides.back().challenger.size());
    if (samples <= most_samples) continue;
    most_samples = samples;
    most = entry.get();
    scale = policy::scale(sides.back());
  }
  const policy::Sides pooled = policy::pool(sides);
  const policy::TrialResult result = policy::judge(pooled.active, pooled.challenger);
  if (result.verdict == policy::Verdict::kUndecided) return;
  const double tick_s = ns_per_tick() * 1e-9;
  const double active_s = result.active * scale * tick_s;
  const double challenger_s = result.challenger * scale * tick_s;
  const bool accepted = result.verdict == policy::Verdict::kAccept;
  const bool removing = group->removing;
  {
    std::lock_guard data(state.data);
    group->removing = false;
    group->base_s = removing ? challenger_s : active_s;
    group->fused_s = removing ? active_s : challenger_s;
    group->decided_on = most;
    if (most) group->decided_key = most->key;
  }
  end_trial(program, state, accepted);
  const std::string numbers =
      fmt::format("{:.2f} us against {:.2f} us, {:.3f} of the time over {} signatures",
                  challenger_s * 1e6, active_s * 1e6, challenger_s / active_s, sides.size());
  if (accepted) {
    if (removing) {
      {
        std::lock_guard data(state.data);
        ++state.rolled_back;
        state.saved_s += (group->base_s - group->fused_s) *
                         static_cast<double>(program.total_runs() - group->accepted_at_run);
      }
      ban(state, program, *group, EventKind::kRolledBack,
          "slower than what it replaced: " + numbers, false);
    } else {
      {
        std::lock_guard data(state.data);
        group->state = RegionState::kLive;
        group->reason.clear();
        group->accepted_at_run = program.total_runs();
        group->verdict = cache::Verdict::kAccepted;
        group->watch = {};
        ++state.swapped;
      }
      Event event;
      event.kind = EventKind::kAccepted;
      event.region = group->identity;
      event.subject = group->name;
      event.detail = numbers;
      event.base_us = active_s * 1e6;
      event.fused_us = challenger_s * 1e6;
      event.compile_ms = group->compile_s * 1e3;
      event.code_bytes = group->code_bytes;
      emit(state, program, std::move(event));
      remember(program, state);
    }
    publish_everywhere(program, plan);
  } else if (removing) {
    std::lock_guard data(state.data);
    group->state = RegionState::kLive;  // everything became slower, not the region
    group->watch = {};
  } else {
    ban(state, program, *group, EventKind::kRejected, "not faster: " + numbers, false);
  }
  start_trial(program, state);
}

void Tier::publish_everywhere(Program& program, const std::shared_ptr<const Plan>& plan) {
  program.set_preferred_plan(plan->region_steps > 0 ? plan : nullptr);
  auto entries = program.entries();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a->last_use > b->last_use; });
  if (entries.size() > kMaxRebound) entries.resize(kMaxRebound);
  for (const auto& entry : entries) bind_anew(program, *entry);
}

}  // namespace xc
