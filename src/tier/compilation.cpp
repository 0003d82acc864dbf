#include "tier/compilation.h"

#include "base/at_end.h"
#include "base/clock.h"
#include "base/large_stack.h"
#include "tier/failures.h"
#include "tier/region_kernel.h"
#include "tier/region_record.h"
#include "tier/verification.h"

namespace xc::tier {
namespace {

/// CPU seconds after which a region's compile is given up, between its phases.
constexpr double kCompileLimitS = 2;

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

void Compilation::post(const StatePtr& state, Group& group) {
  core_.queue.post_compile(
      state,
      [this, raw = &group](Program& p, ProgramState& s) {
        {
          std::lock_guard data(s.data);  // it may have been frozen before this was posted
          if (s.frozen || raw->state != RegionState::kQueued) return;
        }
        bool ended = false;
        const AtEnd back([&] {
          if (!ended) Refusals::put_back(s, *raw);
        });
        const bool compiled = !dropped(p, s, *raw) && compile(p, s, *raw);
        ended = true;
        if (!compiled) return;
        std::weak_ptr<SignatureEntry> by;
        {
          std::lock_guard data(s.data);
          by = raw->queued.by;
        }
        if (const auto target = by.lock()) live_.ask(p, s, *raw, *target);
      },
      group.queued.urgency);
}

bool Compilation::dropped(Program& program, ProgramState& state, Group& group) {
  if (core_.queue.is_awaited(state)) return false;  // the host wants it now
  const double queued = group.queued.urgency.queued_per_s;
  const double now = core_.queue.lost_per_s(group.queued.urgency);
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

bool Compilation::compile(Program& program, ProgramState& state, Group& group) {
  if (const std::string reason = core_.compiler->disabled(); !reason.empty() && !group.zeros) {
    refusals_.ban(program, state, group, EventKind::kJitDisabled, reason);
    return false;
  }
  if (group.special_of && !specials_.admit(program, state, group)) return false;
  const int64_t begin = steady_ns();
  Made made;
  made.start_s = thread_cpu_seconds();
  group.code.spec = group.spec_in(program);
  try {
    if (!make_kernel(program, state, group, made)) return false;
    made.compile_s = thread_cpu_seconds() - made.start_s;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) {
      refusals_.not_now(program, state, group, std::string("not compiled: ") + error.what());
      return false;
    }
    const std::string disabled = core_.compiler->disabled();
    refusals_.ban(program, state, group,
                  disabled.empty() ? EventKind::kRefused : EventKind::kJitDisabled,
                  std::string("compile failed: ") + error.what());
    return false;
  }
  auto extracted =
      std::make_shared<const RegionGraph>(extract_region(group.graph_of(program), group.made_of()));
  const bool compiled = !made.loaded && !group.zeros && !group.code.shared;
  {
    std::lock_guard data(state.data);
    group.code.extracted = std::move(extracted);
    group.code.kernel = made.kernel;
    group.code.compile_s = made.compile_s;
    if (compiled) ++state.compiled;
    group.state = RegionState::kVerifying;
  }
  if (compiled) {
    Event event = event_now(state, EventKind::kCompiled, group);
    event.wall_ms = ms_since(begin);
    if (!made.phases.empty()) event.detail = breakdown(made.lowering_s, made.phases);
    core_.emit(state, program, std::move(event));
  }
  return verify(program, state, group, made);
}

bool Compilation::make_kernel(Program& program, ProgramState& state, Group& group, Made& made) {
  if (std::shared_ptr<Kernel> known = core_.code.find(group.identity); !core_.faults.wrap)
    made.kernel = std::move(known);
  if (group.zeros) made.kernel = zeros_.kernel_of(group);
  const auto* theirs = dynamic_cast<const RegionKernel*>(made.kernel.get());
  group.code.shared = theirs != nullptr;
  if (theirs) {
    if (Persistence* cache = core_.caches.of(program))
      group.code.key = cache->code_key(group.identity);
    std::lock_guard data(state.data);
    group.code.bytes = theirs->code_bytes();
  }
  if (made.kernel) return true;
  made.loaded = load(program, state, group);
  if (!made.loaded) return lower_and_compile(program, state, group, made);
  made.kernel = group.code.kernel;
  return true;
}

bool Compilation::load(Program& program, ProgramState& state, Group& group) {
  Persistence* cache = core_.caches.of(program);
  if (!cache) return false;
  if (core_.code.is_condemned(group.identity)) return false;
  group.code.key = cache->code_key(group.identity);
  if (cache->is_refused(group.code.key)) return false;  // a compile asks again, and says so
  std::optional<Persistence::Found> found;
  try {
    found = cache->load(group.code.key, group.code.spec);
  } catch (const Error&) {  // no executable memory: a compile would find the same, and says so
    return false;
  }
  if (!found) return false;
  const Region& region = group.made_of();
  auto made = std::make_shared<RegionKernel>(std::move(found->code), std::move(found->phases),
                                             region.inputs.size() + region.outputs.size());
  Event event;
  event.kind = EventKind::kLoaded;
  event.region = group.identity;
  event.subject = group.name;
  event.code_bytes = made->code_bytes();
  std::shared_ptr<Kernel> kernel = std::move(made);
  if (core_.faults.wrap) kernel = core_.faults.wrap(region, std::move(kernel));
  core_.code.share(group.identity, kernel);
  {
    std::lock_guard data(state.data);
    group.code.kernel = std::move(kernel);
    group.code.bytes = event.code_bytes;
  }
  core_.emit(state, program, std::move(event));
  return true;
}

bool Compilation::lower_and_compile(Program& program, ProgramState& state, Group& group,
                                    Made& made) {
  const Region& region = group.made_of();
  RegionCode code;
  if (const auto verdict = lower_region(group.graph_of(program), region, group.code.spec,
                                        core_.compiler->target(), code);
      !verdict.yes()) {
    refusals_.not_lowered(program, state, group, verdict.reason);
    return false;
  }
  made.lowering_s = thread_cpu_seconds() - made.start_s;
  if (Persistence* cache = core_.caches.of(program)) {
    made.calls = encode_region_code(code);
    made.first_run = cache->begin_trial(group.code.key, group.name);
  }
  if (!made.first_run.refusal.empty()) {
    refusals_.ban(program, state, group, EventKind::kRefused, made.first_run.refusal);
    return false;
  }
  any_ = true;
  const double warming = thread_cpu_seconds();
  core_.compiler->warm_up();
  made.start_s += thread_cpu_seconds() - warming;  // the process's, not the region's
  made.phases = make_code(program, state, group, code);
  if (made.phases.empty()) return false;
  auto kernel = std::make_shared<RegionKernel>(std::move(code), made.phases,
                                               region.inputs.size() + region.outputs.size());
  {
    std::lock_guard data(state.data);
    group.code.bytes = kernel->code_bytes();
  }
  made.kernel = std::move(kernel);
  if (core_.faults.wrap) made.kernel = core_.faults.wrap(region, std::move(made.kernel));
  core_.code.share(group.identity, made.kernel);
  return true;
}

std::vector<std::shared_ptr<const PhaseCode>> Compilation::make_code(Program& program,
                                                                     ProgramState& state,
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
      const CodeRoom::Made room = room_.make_for(program, state, group);
      if (room == CodeRoom::Made::kNow) continue;
      if (program.config().jit_mode() != JitMode::kAuto) throw;
      if (room == CodeRoom::Made::kComing) {
        post(shared_state(program), group);
        return {};
      }
      refusals_.not_now(program, state, group, error.message() + "; what it holds saves more");
      return {};
    }
  }
}

bool Compilation::verify(Program& program, ProgramState& state, Group& group, Made& made) {
  Verification verification{*group.code.extracted, group.code.spec, *made.kernel,
                            core_.faults.guard_pages};
  {
    std::lock_guard data(state.data);
    if (const auto entry = group.queued.by.lock())
      verification.seen = sizes_of(program, entry->symbols, group);
  }
  const Outcome outcome = outcome_of([&] {
    // In mode sync this is the caller's thread.
    return core_.faults.unverified ? std::string()
                                   : on_large_stack([&] { return verify_synthetic(verification); });
  });
  saw_error(state, group, verification);
  group.code.uncompared = verification.compared == 0 && !core_.faults.unverified;
  if (!group.zeros && !group.code.shared)  // else nothing was compiled
    core_.queue.compiled_in(thread_cpu_seconds() - made.start_s);
  Persistence* const cache = core_.caches.of(program);
  if (!outcome.different.empty()) {
    if (cache && made.loaded && !outcome.later) cache->forget_code(group.code.key);
    refusals_.unverified(program, state, group, outcome, "");
    return false;
  }
  if (group.code.uncompared && program.config().jit_mode() != JitMode::kAuto) {
    refusals_.ban(program, state, group, EventKind::kRefused, LiveVerification::kUncompared);
    return false;
  }
  if (cache && !made.phases.empty() && !group.code.uncompared) {
    cache->keep_code(group.code.key, group.name, made.compile_s, std::move(made.calls),
                     made.phases);
    core_.report_problems(program, state);
  }
  return true;
}

}  // namespace xc::tier
