// A region from candidate to verified kernel: lowering, compiling or loading, agreeing with what it
// replaces on made-up inputs and on a live run's.

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/persistence.h"
#include "tier/region_record.h"
#include "tier/tier.h"
#include "tier/verification.h"

namespace xc {

using namespace tier;

namespace {

constexpr int64_t kCaptureBytes = int64_t{1} << 20;
constexpr int64_t kOnlyCaptureBytes = int64_t{64} << 20;  ///< where made-up inputs showed nothing
constexpr const char* kUncompared = "nothing to compare it on: no sizes tried give it an element";
/// Of a product that skips zeros, for its reference kernel: some 20 ms.
constexpr double kCaptureTerms = 1 << 24;

/// Where the time of a compile went, for who looks at its event.
std::string breakdown(double lowering_s,
                      std::span<const std::shared_ptr<const PhaseCode>> kernels) {
  CompileTimes sum;
  for (const auto& kernel : kernels) {
    const CompileTimes t = kernel->times();
    sum.print += t.print;
    sum.read += t.read;
    sum.emit += t.emit;
    sum.optimize += t.optimize;
    sum.generate += t.generate;
    sum.link += t.link;
    sum.publish += t.publish;
  }
  return fmt::format(
      "kernels {}; ms: lower {:.3f}, print {:.3f}, read {:.3f}, emit {:.3f}, optimize {:.3f}, "
      "generate {:.3f}, link {:.3f}, publish {:.3f}",
      kernels.size(), lowering_s * 1e3, sum.print * 1e3, sum.read * 1e3, sum.emit * 1e3,
      sum.optimize * 1e3, sum.generate * 1e3, sum.link * 1e3, sum.publish * 1e3);
}

}  // namespace

bool Tier::compile(Program& program, ProgramState& state, Group& group) {
  if (const std::string reason = core_.compiler->disabled(); !reason.empty() && !group.zeros) {
    ban(state, program, group, EventKind::kJitDisabled, reason);
    return false;
  }
  if (group.special_of && !admit_special(program, state, group)) return false;
  const int64_t begin = steady_ns();
  Made made;
  made.start_s = thread_cpu_seconds();
  group.spec = group.spec_in(program);
  try {
    if (!make_kernel(program, state, group, made)) return false;
    made.compile_s = thread_cpu_seconds() - made.start_s;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      not_now(program, state, group, std::string("not compiled: ") + error.what());
      return false;
    }
    const std::string disabled = core_.compiler->disabled();
    ban(state, program, group, disabled.empty() ? EventKind::kRefused : EventKind::kJitDisabled,
        std::string("compile failed: ") + error.what());
    return false;
  }
  auto extracted =
      std::make_shared<const RegionGraph>(extract_region(group.graph_of(program), group.made_of()));
  const bool compiled = !made.loaded && !group.zeros && !group.shared;
  {
    std::lock_guard data(state.data);
    group.extracted = std::move(extracted);
    group.kernel = made.kernel;
    group.compile_s = made.compile_s;
    if (compiled) ++state.compiled;
    group.state = RegionState::kVerifying;
  }
  if (compiled) {
    Event event = event_now(state, EventKind::kCompiled, group);
    event.wall_ms = ms_since(begin);
    if (!made.phases.empty()) event.detail = breakdown(made.lowering_s, made.phases);
    core_.emit(state, program, std::move(event));
  }
  return verify_made(program, state, group, made);
}

bool Tier::make_kernel(Program& program, ProgramState& state, Group& group, Made& made) {
  if (std::shared_ptr<Kernel> known = core_.code.find(group.identity); !core_.faults.wrap)
    made.kernel = std::move(known);
  if (group.zeros) made.kernel = zeros_kernel(group);
  const auto* theirs = dynamic_cast<const RegionKernel*>(made.kernel.get());
  group.shared = theirs != nullptr;
  if (theirs) {
    if (Persistence* cache = core_.caches.of(program))
      group.code_key = cache->code_key(group.identity);
    std::lock_guard data(state.data);
    group.code_bytes = theirs->code_bytes();
  }
  if (made.kernel) return true;
  made.loaded = load(program, state, group);
  if (!made.loaded) return lower_and_compile(program, state, group, made);
  made.kernel = group.kernel;
  return true;
}

bool Tier::lower_and_compile(Program& program, ProgramState& state, Group& group, Made& made) {
  const Region& region = group.made_of();
  RegionCode code;
  if (const auto verdict =
          lower_region(group.graph_of(program), region, group.spec, core_.compiler->target(), code);
      !verdict.yes()) {
    ban(state, program, group, EventKind::kRefused, "cannot be lowered: " + verdict.reason);
    return false;
  }
  made.lowering_s = thread_cpu_seconds() - made.start_s;
  if (Persistence* cache = core_.caches.of(program)) {
    made.calls = encode_region_code(code);
    made.first_run = cache->begin_trial(group.code_key, group.name);
  }
  if (!made.first_run.refusal.empty()) {
    ban(state, program, group, EventKind::kRefused, made.first_run.refusal);
    return false;
  }
  any_compiled_ = true;
  const double warming = thread_cpu_seconds();
  core_.compiler->warm_up();
  made.start_s += thread_cpu_seconds() - warming;  // the process's, not the region's
  made.phases = make_code(program, state, group, code);
  if (made.phases.empty()) return false;
  auto kernel = std::make_shared<RegionKernel>(std::move(code), made.phases,
                                               region.inputs.size() + region.outputs.size());
  {
    std::lock_guard data(state.data);
    group.code_bytes = kernel->code_bytes();
  }
  made.kernel = std::move(kernel);
  if (core_.faults.wrap) made.kernel = core_.faults.wrap(region, std::move(made.kernel));
  core_.code.share(group.identity, made.kernel);
  return true;
}

bool Tier::verify_made(Program& program, ProgramState& state, Group& group, Made& made) {
  Verification verification{*group.extracted, group.spec, *made.kernel, core_.faults.guard_pages};
  {
    std::lock_guard data(state.data);
    if (const auto entry = group.asked_by.lock())
      verification.seen = sizes_of(program, *entry, group);
  }
  const Outcome outcome = outcome_of(
      [&] { return core_.faults.unverified ? std::string() : verify_synthetic(verification); });
  saw_error(state, group, verification);
  group.uncompared = verification.compared == 0 && !core_.faults.unverified;
  if (!group.zeros && !group.shared)  // else nothing was compiled
    core_.queue.compiled_in(thread_cpu_seconds() - made.start_s);
  Persistence* const cache = core_.caches.of(program);
  if (!outcome.different.empty()) {
    if (cache && made.loaded && !outcome.later) cache->forget_code(group.code_key);
    unverified(program, state, group, outcome, "");
    return false;
  }
  if (group.uncompared && program.config().jit != static_cast<int64_t>(JitMode::kAuto)) {
    ban(state, program, group, EventKind::kRefused, kUncompared);
    return false;
  }
  if (cache && !made.phases.empty() && !group.uncompared) {
    cache->keep_code(group.code_key, group.name, made.compile_s, std::move(made.calls),
                     made.phases);
    core_.report_problems(program, state);
  }
  return true;
}

/// Code of every phase; none when it has to wait for room, which is told.
std::vector<std::shared_ptr<const PhaseCode>> Tier::make_code(Program& program, ProgramState& state,
                                                              Group& group,
                                                              const RegionCode& code) {
  const double limit =
      core_.faults.compile_limit_s != 0 ? core_.faults.compile_limit_s : kCompileLimitS;
  const double start = thread_cpu_seconds();
  while (true) {
    std::vector<std::shared_ptr<const PhaseCode>> phases;
    try {
      for (const RegionPhase& phase : code.phases) {
        if (thread_cpu_seconds() - start > limit)
          fail(Status::kDeadline, "it took more than {} s of CPU", limit);
        phases.push_back(core_.compiler->compile(phase.kernel));
      }
      return phases;
    } catch (const Error& error) {
      if (error.status() != Status::kLimit) throw;
      phases.clear();
      const Room room = make_room(program, state, group);
      if (room == Room::kMade) continue;
      if (program.config().jit != static_cast<int64_t>(JitMode::kAuto)) throw;
      if (room == Room::kComing) {
        post_compile(shared_state(program), group);
        return {};
      }
      not_now(program, state, group, error.message() + "; what it holds saves more");
      return {};
    }
  }
}

bool Tier::dropped(Program& program, ProgramState& state, Group& group) {
  if (core_.queue.is_awaited(state)) return false;  // the host wants it now
  const double queued = group.urgency.queued_per_s;
  const double now = core_.queue.lost_per_s(group.urgency);
  if (!policy::stale(queued, now)) return false;
  {
    std::lock_guard data(state.data);
    group.state = RegionState::kCandidate;
    group.policy.evicted();
  }
  Event event = event_now(state, EventKind::kRefused, group);
  event.detail = fmt::format(
      "not compiled now: the runs it would serve come no more, {:.3f} ms lost per second against "
      "{:.3f} when it was queued",
      now * 1e3, queued * 1e3);
  core_.emit(state, program, std::move(event));
  return true;
}

void Tier::post_compile(const StatePtr& state, Group& group) {
  core_.queue.post_compile(
      state,
      [this, raw = &group](Program& p, ProgramState& s) {
        {
          std::lock_guard data(s.data);  // it may have been frozen before this was posted
          if (s.frozen || raw->state != RegionState::kQueued) return;
        }
        bool ended = false;
        const AtEnd back([&] {
          if (!ended) put_back(s, *raw);
        });
        const bool compiled = !dropped(p, s, *raw) && compile(p, s, *raw);
        ended = true;
        if (!compiled) return;
        std::weak_ptr<SignatureEntry> by;
        {
          std::lock_guard data(s.data);
          by = raw->asked_by;
        }
        if (const auto target = by.lock()) ask_for_inputs(p, s, *raw, *target);
      },
      group.urgency);
}

void Tier::put_back(ProgramState& state, Group& group) noexcept {
  std::shared_ptr<Kernel> code;  // goes when no lock is held
  std::lock_guard data(state.data);
  if (group.wrong) return;
  code = std::exchange(group.kernel, nullptr);
  group.state = RegionState::kCandidate;
  group.policy.evicted();
}

void Tier::not_now(Program& program, ProgramState& state, Group& group, const std::string& reason) {
  put_back(state, group);
  Event event = event_now(state, EventKind::kRefused, group);
  event.detail = reason;
  {
    std::lock_guard data(state.data);
    group.reason = reason;
  }
  core_.emit(state, program, std::move(event));
}

Tier::Outcome Tier::outcome_of(const std::function<std::string()>& verify) {
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

void Tier::unverified(Program& program, ProgramState& state, Group& group, const Outcome& outcome,
                      const std::string& where) {
  const std::string reason = where + outcome.different;
  if (outcome.later) return not_now(program, state, group, "not verified: " + reason);
  if (outcome.compared) return ban_wrong(program, state, group, reason);
  ban(state, program, group, EventKind::kMismatch, reason);
}

void Tier::saw_error(ProgramState& state, Group& group, const Verification& verification) {
  std::lock_guard data(state.data);
  group.worst_error = std::max(group.worst_error, verification.worst);
}

Symbols Tier::sizes_of(const Program& program, const SignatureEntry& entry, const Group& group) {
  Symbols out;
  for (size_t k = 0; k < entry.symbols.size(); ++k)
    out.emplace(program.base_plan()->symbols[k].name, entry.symbols[k]);
  for (const SizeFact& fact : group.facts)
    if (const auto it = out.find(fact.symbol); it != out.end() && fact.value < 0)
      out.emplace(quotient_symbol(fact), it->second / fact.divisor);
  return out;
}

void Tier::ask_for_inputs(Program& program, ProgramState& state, Group& group,
                          SignatureEntry& entry) {
  {
    std::lock_guard data(state.data);
    if (state.frozen || group.state != RegionState::kVerifying) return;
    group.asked_ns = steady_ns();
  }
  std::vector<ValueId> values;
  for (ValueId v : group.places.front().inputs)
    if (!program.graph().value(v).is_constant()) values.push_back(v);
  const auto shared = shared_state(program);
  Group* raw = &group;
  const Symbols symbols = sizes_of(program, entry, group);
  const Dim::Lookup sizes = [&](const std::string& symbol) {
    const auto it = symbols.find(symbol);
    return it == symbols.end() ? std::nullopt : std::optional(it->second);
  };
  // A few indices may pick much: what the reference has to make counts as what is copied.
  const auto bytes_of = [&](ValueId v) {
    const Type& type = program.graph().value(v).type;
    const auto count = element_count(*type.dims).evaluate(sizes);
    return count ? *count * element_size(type.dtype) : 0;
  };
  const auto& outputs = group.places.front().outputs;
  // What nothing has shown to be right yet is worth a larger copy.
  const int64_t most = group.uncompared ? kOnlyCaptureBytes : kCaptureBytes;
  const bool small =
      std::all_of(outputs.begin(), outputs.end(), [&](ValueId v) { return bytes_of(v) <= most; }) &&
      (!group.zeros || group.zeros->terms(sizes) <= kCaptureTerms);
  const bool asked =
      small && program.request_capture(
                   entry, values, most, [this, shared, raw, symbols](std::vector<Tensor> inputs) {
                     core_.queue.post(shared, [this, raw, symbols, inputs = std::move(inputs)](
                                                  Program& p, ProgramState& s) {
                       verify_inputs(p, s, *raw, inputs, symbols);
                     });
                   });
  if (asked) return;
  if (group.uncompared) return ban(state, program, group, EventKind::kRefused, kUncompared);
  // Too large to copy on the caller's time, or not visible: made-up inputs have to do.
  verify_inputs(program, state, group, {}, {});
}

void Tier::verify_inputs(Program& program, ProgramState& state, Group& group,
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
    first_run = cache->begin_trial(group.code_key, group.name);
  if (!first_run.refusal.empty()) {  // it killed a process that ran it here
    ban(state, program, group, EventKind::kRefused, first_run.refusal);
    return;
  }
  Verification verification{*group.extracted, group.spec, *group.kernel, core_.faults.guard_pages};
  const Outcome outcome = outcome_of([&] {
    return inputs.empty() || core_.faults.unverified ? std::string()
                                                     : verify_live(verification, inputs, symbols);
  });
  saw_error(state, group, verification);
  if (outcome.different.empty() && group.uncompared && verification.compared == 0) {
    ban(state, program, group, EventKind::kRefused, kUncompared);
    return;
  }
  if (!group.zeros && !group.shared) core_.queue.compile_took_more(thread_cpu_seconds() - start);
  if (!outcome.different.empty())
    return unverified(program, state, group, outcome, "on a live run's inputs: ");
  {
    std::lock_guard data(state.data);
    settle_state(group);  // with its verdicts, where it had code before
  }
  Event event = event_now(state, EventKind::kVerified, group);
  event.wall_ms = ms_since(begin);
  event.detail = inputs.empty() ? "on made-up inputs" : "on made-up inputs and one live run";
  core_.emit(state, program, std::move(event));
  next_trial(program, state);
}

}  // namespace xc
