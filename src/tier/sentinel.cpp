#include "tier/sentinel.h"

#include <algorithm>

#include "runtime/capture.h"
#include "tier/comparison.h"
#include "tier/live_verification.h"
#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

constexpr int64_t kSentinelBytes = int64_t{256} << 10;  ///< copied on the caller's time
constexpr double kNeverAgain = 1e15;                    ///< runs

bool is_small(const Program& program, const Group& group, std::span<const int64_t> symbols) {
  return largest_result(group.code.extracted->graph, sizes_of(program, symbols, group)) <=
         kMostCompared;
}

/// Where a kernel for these very sizes runs, it is the one that is looked at.
std::vector<Group*> running_in(const Program& program, ProgramState& state, Group& group,
                               const Plan& plan, std::span<const int64_t> symbols) {
  const Plan& base = *program.base_plan();
  std::vector<Group*> out;
  std::lock_guard data(state.data);
  for (const auto& g : state.groups)
    if (g->special_of == &group && uses(state, plan, *g) && fact_of(*g, base, symbols).applies)
      out.push_back(g.get());
  if (out.empty()) out.push_back(&group);
  return out;
}

}  // namespace

void Sentinel::ran(const StatePtr& state, Group& group, SignatureEntry& entry, double runs,
                   int64_t now_ns) {
  if (!is_due(group, runs, now_ns)) return;
  core_.queue.post_once(state, group.sentinel.posted,
                        [this, &group, weak = entry.weak_from_this()](Program& p, ProgramState& s) {
                          if (const auto target = weak.lock()) ask(p, s, group, *target);
                        });
}

bool Sentinel::is_due(Group& group, double runs, int64_t now_ns) const {
  Group::Sentinel& sentinel = group.sentinel;
  sentinel.runs += runs;
  const double due = core_.faults.eager ? policy::kSentinelRuns / 16 : sentinel.due;
  if (sentinel.runs < due || sentinel.posted || now_ns - sentinel.asked_ns < kPatienceNs)
    return false;
  sentinel.asked_ns = now_ns;
  return true;
}

void Sentinel::ask(Program& program, ProgramState& state, Group& group, SignatureEntry& entry) {
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
  const auto plan = program.published(entry)->active->bound->plan;
  const bool asked =
      is_small(program, group, entry.symbols) &&
      program.request_operands(
          &group.sentinel, entry, mine, kSentinelBytes,
          [this, shared, raw = &group, plan](Captured run) {
            core_.queue.post(
                shared, [this, raw, plan, run = std::move(run)](Program& p, ProgramState& s) {
                  if (is_small(p, *raw, run.symbols))
                    check(p, s, *raw, running_in(p, s, *raw, *plan, run.symbols), run.copies);
                });
          });
  if (asked) return;
  // Too large to copy or compare at these sizes, or not part of this plan any more.
  std::lock_guard data(state.data);
  group.sentinel.runs = 0;
}

void Sentinel::check(Program& program, ProgramState& state, Group& group,
                     const std::vector<Group*>& running, const std::vector<Tensor>& operands) {
  const size_t inputs = group.code.extracted->graph.inputs.size();
  {
    std::lock_guard data(state.data);
    if (group.wrong) return;
    if (operands.size() != inputs + group.code.extracted->graph.outputs.size()) {
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
    different = compare_region(group.code.extracted->graph, in,
                               evaluate_region(group.code.extracted->graph, in), out, &worst,
                               /*forgiving=*/true, group.code.spec.numerics);
  } catch (const Error& error) {
    if (error.status() == Status::kOutOfMemory) return;  // and is due again soon
    std::lock_guard data(state.data);
    group.sentinel.runs = 0;
    return;  // inputs that the operators refuse, as the run may have
  }
  if (!different.empty())
    for (const Group* culprit : running)
      refusals_.found_wrong(culprit->identity, "on a live run, while it was in use: " + different);
  {
    std::lock_guard data(state.data);
    group.sentinel.runs = 0;
    group.code.worst_error = std::max(group.code.worst_error, worst);
    const auto* measured = group.policy.latest();
    group.sentinel.due =
        policy::sentinel_runs(thread_cpu_seconds() - start, measured ? measured->fused_s : 0);
  }
  if (!different.empty()) condemnation_.take_out(program, state);
}

}  // namespace xc::tier
