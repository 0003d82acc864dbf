#include "tier/live_verification.h"

#include <algorithm>

#include "base/clock.h"
#include "runtime/capture.h"
#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

constexpr int64_t kCaptureBytes = int64_t{1} << 20;
constexpr int64_t kOnlyCaptureBytes = int64_t{64} << 20;  ///< where made-up inputs showed nothing
/// Of a product that skips zeros, for its reference kernel: some 20 ms.
constexpr double kCaptureTerms = 1 << 24;

/// What nothing has shown to be right yet is worth a larger copy.
int64_t most_bytes(const Group& group) {
  return group.code.uncompared ? kOnlyCaptureBytes : kCaptureBytes;
}

/// Whether the group is compared on a run of these sizes. A few indices may pick much: what the
/// reference has to make counts as what is copied, and what it makes on the way has a limit of its
/// own.
bool is_small(const Program& program, const Group& group, const Symbols& symbols) {
  const Dim::Lookup sizes = lookup_in(symbols);
  const auto bytes_of = [&](ValueId v) {
    const Type& type = program.graph().value(v).type;
    const auto count = element_count(*type.dims).evaluate(sizes);
    return count ? *count * element_size(type.dtype) : 0;
  };
  const auto& outputs = group.places.front().outputs;
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](ValueId v) { return bytes_of(v) <= most_bytes(group); }) &&
         largest_result(group.code.extracted->graph, symbols) <= kMostCompared &&
         (!group.zeros || group.zeros->terms(sizes) <= kCaptureTerms);
}

std::vector<Dim> result_counts(const Program& program, const Group& group) {
  std::vector<Dim> out;
  for (const ValueId v : group.places.front().outputs)
    out.push_back(element_count(*program.graph().value(v).type.dims));
  return out;
}

}  // namespace

Symbols sizes_of(const Program& program, std::span<const int64_t> symbols, const Group& group) {
  Symbols out;
  for (size_t k = 0; k < symbols.size(); ++k)
    out.emplace(program.base_plan()->symbols[k].name, symbols[k]);
  for (const SizeFact& fact : group.facts)
    if (const auto it = out.find(fact.symbol); it != out.end() && fact.value < 0)
      out.emplace(quotient_symbol(fact), it->second / fact.divisor);
  return out;
}

void saw_error(ProgramState& state, Group& group, const Verification& verification) {
  std::lock_guard data(state.data);
  group.code.worst_error = std::max(group.code.worst_error, verification.worst);
}

void LiveVerification::ask(Program& program, ProgramState& state, Group& group,
                           SignatureEntry& entry) {
  {
    std::lock_guard data(state.data);
    if (state.frozen || group.state != RegionState::kVerifying) return;
    group.inputs_asked_ns = steady_ns();
  }
  std::vector<ValueId> values;
  for (ValueId v : group.places.front().inputs)
    if (!program.graph().value(v).is_constant()) values.push_back(v);
  const auto shows = [counts = result_counts(program, group),
                      plan = program.base_plan()](std::span<const int64_t> symbols) {
    return std::ranges::any_of(counts, [&](const Dim& count) {
      return count.evaluate([&](const std::string& symbol) {
        return symbol_value(*plan, symbols, symbol);
      }) != 0;
    });
  };
  // A kernel for special sizes writes where others have no memory, and where a run has no element
  // it shows nothing.
  auto wanted = [facts = group.facts, plan = program.base_plan(), shows,
                 any = !shows(entry.symbols)](std::span<const int64_t> symbols) {
    return serves(facts, *plan, symbols) && (any || shows(symbols));
  };
  const auto shared = shared_state(program);
  Group* raw = &group;
  const bool asked =
      is_small(program, group, sizes_of(program, entry.symbols, group)) &&
      program.request_capture(&group, entry, values, most_bytes(group), std::move(wanted),
                              [this, shared, raw](Captured run) {
                                core_.queue.post(shared, [this, raw, run = std::move(run)](
                                                             Program& p, ProgramState& s) {
                                  captured(p, s, *raw, run.copies, run.symbols);
                                });
                              });
  if (asked) return;
  if (group.code.uncompared)
    return refusals_.ban(program, state, group, EventKind::kRefused, kUncompared);
  // Too large to copy on the caller's time, or not visible: made-up inputs have to do.
  verify(program, state, group, {}, {});
}

void LiveVerification::ask_again(const StatePtr& state, Group& group, SignatureEntry& entry,
                                 int64_t now_ns) {
  if (group.inputs_posted || now_ns - group.inputs_asked_ns <= kPatienceNs) return;
  group.inputs_asked_ns = now_ns;
  core_.queue.post_once(state, group.inputs_posted,
                        [this, &group, weak = entry.weak_from_this()](Program& p, ProgramState& s) {
                          if (const auto target = weak.lock()) ask(p, s, group, *target);
                        });
}

void LiveVerification::captured(Program& program, ProgramState& state, Group& group,
                                const std::vector<Tensor>& inputs,
                                const std::vector<int64_t>& symbols) {
  const Symbols sizes = sizes_of(program, symbols, group);
  if (is_small(program, group, sizes)) return verify(program, state, group, inputs, sizes);
  // Another run is asked for where nothing else can show that it is right.
  if (!group.code.uncompared) verify(program, state, group, {}, {});
}

void LiveVerification::verify(Program& program, ProgramState& state, Group& group,
                              const std::vector<Tensor>& inputs, const Symbols& symbols) {
  {
    std::lock_guard data(state.data);
    // Another signature's inputs may have come first.
    if (state.frozen || group.state != RegionState::kVerifying) return;
  }
  const double start = thread_cpu_seconds();
  const int64_t begin = steady_ns();
  cache::Permission first_run;
  if (Persistence* cache = core_.caches.of(program))
    first_run = cache->begin_trial(group.code.key, group.name);
  if (!first_run.refusal.empty()) {  // it killed a process that ran it here
    refusals_.ban(program, state, group, EventKind::kRefused, first_run.refusal);
    return;
  }
  Verification verification{*group.code.extracted, group.code.spec, *group.code.kernel,
                            core_.faults.guard_pages};
  const Outcome outcome = outcome_of([&] {
    return inputs.empty() || core_.faults.unverified ? std::string()
                                                     : verify_live(verification, inputs, symbols);
  });
  saw_error(state, group, verification);
  if (outcome.different.empty() && group.code.uncompared && verification.compared == 0) {
    refusals_.ban(program, state, group, EventKind::kRefused, kUncompared);
    return;
  }
  if (!group.zeros && !group.code.shared)
    core_.queue.compile_took_more(thread_cpu_seconds() - start);
  if (!outcome.different.empty())
    return refusals_.unverified(program, state, group, outcome, "on a live run's inputs: ");
  {
    std::lock_guard data(state.data);
    group.queued.put_off = 0;
    settle_state(group);  // with its verdicts, where it had code before
  }
  Event event = event_now(state, EventKind::kVerified, group);
  event.wall_ms = ms_since(begin);
  event.detail = inputs.empty() ? "on made-up inputs" : "on made-up inputs and one live run";
  core_.emit(state, program, std::move(event));
  trials_.next(program, state);
}

}  // namespace xc::tier
