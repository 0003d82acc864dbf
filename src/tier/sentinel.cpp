// The sentinel: verification saw made-up inputs and one run's; what a region in use makes of others
// is looked at now and then. A run copies what the region's step read and wrote, the background
// thread compares. Runs that are not chosen pay nothing: the request lies where captures do.

#include <algorithm>

#include "base/clock.h"
#include "tier/persistence.h"
#include "tier/tier.h"

namespace xc {

using namespace tier;

namespace {

constexpr int64_t kSentinelBytes = int64_t{256} << 10;  ///< copied on the caller's time
constexpr double kNeverAgain = 1e15;                    ///< runs

}  // namespace

bool Tier::sentinel_due(Group& group, double runs, int64_t now) const {
  Group::Sentinel& sentinel = group.sentinel;
  sentinel.runs += runs;
  const double due = core_.faults.eager ? policy::kSentinelRuns / 16 : sentinel.due;
  if (sentinel.runs < due || now - sentinel.asked_ns < kPatienceNs) return false;
  sentinel.asked_ns = now;
  return true;
}

void Tier::ask_sentinel(Program& program, ProgramState& state, Group& group,
                        SignatureEntry& entry) {
  {
    std::lock_guard data(state.data);
    if (group.wrong || state.frozen) return;
  }
  const std::vector<NodeId>& place = group.places.front().nodes;
  const auto mine = [&](const Step& step) {
    return step.region == group.identity &&
           std::find(place.begin(), place.end(), step.nodes.front()) != place.end();
  };
  const auto shared = shared_state(program);
  // Where a kernel for these very sizes runs, it is the one that is looked at.
  std::vector<Group*> running;
  {
    const auto published = program.published(entry);
    std::lock_guard data(state.data);
    const Facts& facts = known_facts(state, entry);
    for (const auto& g : state.groups)
      if (g->special_of == &group && applies(state, facts, *g) &&
          uses(state, *published->active->bound->plan, *g))
        running.push_back(g.get());
  }
  if (running.empty()) running.push_back(&group);
  const bool asked = program.request_operands(
      entry, mine, kSentinelBytes,
      [this, shared, raw = &group, running](std::vector<Tensor> operands) {
        core_.queue.post(shared, [this, raw, running, operands = std::move(operands)](
                                     Program& p, ProgramState& s) {
          check_sentinel(p, s, *raw, running, operands);
        });
      });
  if (asked) return;
  // Too large to copy at these sizes, or not part of this plan any more.
  std::lock_guard data(state.data);
  group.sentinel.runs = 0;
}

void Tier::check_sentinel(Program& program, ProgramState& state, Group& group,
                          const std::vector<Group*>& running, const std::vector<Tensor>& operands) {
  const size_t inputs = group.extracted->graph.inputs.size();
  {
    std::lock_guard data(state.data);
    if (group.wrong) return;
    if (operands.size() != inputs + group.extracted->graph.outputs.size()) {
      group.sentinel.runs = 0;
      group.sentinel.due = kNeverAgain;  // some operand is no tensor of the run
      return;
    }
  }
  const double start = thread_cpu_seconds();
  const std::vector<Tensor> in(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(inputs));
  const std::vector<Tensor> out(operands.begin() + static_cast<ptrdiff_t>(inputs), operands.end());
  std::string different;
  double worst = 0;
  try {
    different = compare_region(group.extracted->graph, in,
                               evaluate_region(group.extracted->graph, in), out, &worst,
                               /*forgiving=*/true, group.spec.numerics);
  } catch (const Error& error) {
    if (error.status() == Status::kOutOfMemory) return;  // and is due again soon
    std::lock_guard data(state.data);
    group.sentinel.runs = 0;
    return;  // inputs that the operators refuse, as the run may have
  }
  if (!different.empty())
    for (const Group* culprit : running)
      found_wrong(culprit->identity, "on a live run, while it was in use: " + different);
  {
    std::lock_guard data(state.data);
    group.sentinel.runs = 0;
    group.worst_error = std::max(group.worst_error, worst);
    const auto* measured = group.policy.latest();
    group.sentinel.due =
        policy::sentinel_runs(thread_cpu_seconds() - start, measured ? measured->fused_s : 0);
  }
  if (!different.empty()) take_out_condemned(program, state);
}

void Tier::found_wrong(const Hash128& identity, const std::string& reason) {
  core_.code.condemn(identity, reason);
  core_.queue.look_for_condemned();
}

void Tier::ban_wrong(Program& program, ProgramState& state, Group& group,
                     const std::string& reason) {
  if (Persistence* cache = core_.caches.of(program)) cache->condemn(group.code_key, group.name);
  found_wrong(group.identity, reason);
  ban(state, program, group, EventKind::kMismatch, reason);
}

void Tier::take_out_condemned(Program& program, ProgramState& state) {
  for (size_t k = 0; k < state.groups.size(); ++k) {  // a ban may add groups
    Group& group = *state.groups[k];
    const std::optional<std::string> reason = core_.code.condemned(group.identity);
    // One that is wrong already was banned before anything ran it.
    if (reason && group.kernel && (!group.wrong || group.leaving))
      condemn(program, state, group, *reason);
  }
}

void Tier::condemn(Program& program, ProgramState& state, Group& group, const std::string& reason) {
  {
    std::lock_guard data(state.data);
    if (!group.wrong && group.policy.fused_anywhere()) ++state.rolled_back;
    group.wrong = group.leaving = true;  // from here on no signature is given a plan with it
    drop_variants(state, group, true);
  }
  // Other processes before anything else: whatever fails here, they are told.
  if (Persistence* cache = core_.caches.of(program)) cache->condemn(group.code_key, group.name);
  {
    std::lock_guard data(state.data);
    // Both sides of a trial may have it, whatever is on trial.
    if (state.trial.group && state.trial.group != &group)
      state.trial.group->policy.postpone(state.trial.size);
  }
  end_trial(program, state, false);
  publish_everywhere(program, state, SIZE_MAX);
  if (runs_wrong(program, state))
    fail(Status::kOutOfMemory, "{} is wrong, and what runs it could not be bound anew", group.name);
  ban(state, program, group, EventKind::kMismatch, reason);
}

bool Tier::runs_wrong(Program& program, ProgramState& state) {
  const auto entries = program.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    const auto now = program.published(*entry);
    std::lock_guard data(state.data);
    return is_wrong(state, *now);
  });
}

void Tier::replace_wrong(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto wrong = [&] {
    const auto now = program.published(entry);
    std::lock_guard data(state.data);
    return is_wrong(state, *now);
  };
  if (!wrong()) return;
  const Work work(state, program);  // may wait for a compile: no run must use it
  bind_anew_or_keep(program, state, entry);
  if (!wrong()) return;
  program.forget(entry);
  fail(Status::kOutOfMemory, "there is no memory to bind what takes the place of a wrong kernel");
}

}  // namespace xc
