// The queue of background work and its thread: what is done first, what is done no more, and when
// the budget of compile CPU lets it.

#include <algorithm>
#include <cmath>

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/tier.h"

namespace xc {
namespace {

constexpr auto kBudgetLook = std::chrono::milliseconds(20);
constexpr auto kBudgetLookMost = std::chrono::milliseconds(1000);
constexpr auto kReclaimLook = std::chrono::milliseconds(100);
constexpr int64_t kReclaimLookNs = std::chrono::nanoseconds(kReclaimLook).count();

}  // namespace

void Tier::post(const StatePtr& state, std::function<void(Program&, ProgramState&)> job,
                Group* compiles, Charge charge) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || state->gone || !start_thread()) return;
    jobs_.push_back({state, std::move(job), compiles, charge});
  }
  wake_.notify_one();
}

bool Tier::start_thread() {
  if (no_thread_) return false;
  if (thread_.running()) return true;
  if (!faults_.no_thread && thread_.start([this] { thread_main(); })) return true;
  no_thread_ = true;  // tier 0 serves; sampled() tells it once, when no lock is held
  return false;
}

bool Tier::may_start(const Job& job, double cpu_s) {
  if (job.charge != Charge::kBudget) return true;
  // A host that waits for the work to be done has nothing better to do with the time.
  if (job.state->waiting > 0) return true;
  const double age = static_cast<double>(steady_ns() - job.state->added_ns) * 1e-9;
  return !faults_.starved && budget_.allows(cpu_s, age);
}

policy::Prices Tier::prices() const {
  std::lock_guard lock(mutex_);
  policy::Prices prices = prices_;
  prices.queued = static_cast<int64_t>(jobs_.size());
  return prices;
}

/// The first job there is that compiles nothing, else the compile whose region loses most per
/// second. Under mutex_.
std::deque<Tier::Job>::iterator Tier::next_job() {
  const int64_t now = steady_ns();
  const double cpu_s = process_cpu_seconds();  // a system call: once for all
  auto best = jobs_.end();
  double most = -1;
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (!may_start(*job, cpu_s)) continue;
    if (!job->compiles) return job;
    const double loss = job->compiles->urgency.per_s(now, half_life_s());
    if (loss > most) {
      most = loss;
      best = job;
    }
  }
  return best;
}

bool Tier::dropped(Program& program, ProgramState& state, Group& group) {
  {
    std::lock_guard lock(mutex_);
    if (state.waiting > 0) return false;  // the host wants it now
  }
  const double queued = group.urgency.queued_per_s;
  const double now = group.urgency.per_s(steady_ns(), half_life_s());
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
  emit(state, program, std::move(event));
  return true;
}

/// Gives the lock back while something is done for a program, which is held meanwhile. What it
/// throws ends it and is told: a job that fails leaves the program on what it had.
template <class F>
void Tier::busy_with(std::unique_lock<std::mutex>& lock, const StatePtr& state, F&& work) {
  busy_ = state;
  lock.unlock();
  if (const std::shared_ptr<Program> program = state->program.lock()) {
    try {
      work(*program);
    } catch (const std::exception& error) {
      log_failure(error.what());
    } catch (...) {
      log_failure("an exception of the host's");
    }
  }
  lock.lock();
  busy_.reset();
  idle_.notify_all();
}

void Tier::log_failure(const char* what) noexcept {
  try {
    if (engine_) engine_->log(LogLevel::kWarning, std::string("background work failed: ") + what);
  } catch (...) {
    // Not even memory to tell it.
  }
}

/// One that was not looked at this time. Under mutex_.
Tier::StatePtr Tier::next_left_behind() const {
  for (const auto& [program, state] : states_)
    if ((state->left_behind || state->condemning) && !state->gone && state->looked != looks_)
      return state;
  return nullptr;
}

void Tier::look_at_left_behind(std::unique_lock<std::mutex>& lock) {
  left_behind_ = hurry_ = false;
  looked_ns_ = steady_ns();
  ++looks_;
  for (StatePtr state = next_left_behind(); state && !stopping_; state = next_left_behind()) {
    state->looked = looks_;
    const bool left = std::exchange(state->left_behind, false);
    const bool condemning = std::exchange(state->condemning, false);
    busy_with(lock, state, [&](Program& program) {
      if (left) reclaim(program);
      if (!condemning) return;
      bool done = false;
      const AtEnd again([&] {
        if (done) return;
        const std::lock_guard relock(mutex_);
        state->condemning = left_behind_ = true;
      });
      const Work work(*state, program);
      take_out_condemned(program, *state);
      done = true;
    });
    lock.unlock();
    state.reset();
    lock.lock();
  }
}

void Tier::reclaim(Program& program) {
  program.epochs().reclaim();
  if (program.epochs().retired() == 0) return;
  const StatePtr state = state_of(program);
  const std::lock_guard lock(mutex_);
  if (state && !state->gone) state->left_behind = left_behind_ = true;
}

void Tier::thread_main() {
  std::unique_lock lock(mutex_);
  auto budget_look = kBudgetLook;
  while (true) {
    const auto called = [&] { return stopping_ || hurry_ || !jobs_.empty(); };
    if (left_behind_)
      wake_.wait_for(lock, kReclaimLook, called);
    else
      wake_.wait(lock, called);
    if (stopping_) return;
    if (hurry_ || (left_behind_ && steady_ns() - looked_ns_ >= kReclaimLookNs)) {
      look_at_left_behind(lock);
      continue;
    }
    if (jobs_.empty()) continue;
    // Over the budget the job stays queued, so that its program can still be taken away: the budget
    // refills with the process's CPU time, and a process that waits for us uses none.
    const auto next = next_job();
    if (next == jobs_.end()) {
      tell_postponed(lock);
      // A process that does nothing is not woken for a budget that does not grow.
      constexpr double kIdleS = 1e-3;
      const double used = process_cpu_seconds();
      if (!stopping_ && !hurry_) wake_.wait_for(lock, budget_look);
      budget_look = process_cpu_seconds() - used < kIdleS
                        ? std::min(2 * budget_look, kBudgetLookMost)
                        : kBudgetLook;
      continue;
    }
    budget_look = kBudgetLook;
    Job job = std::move(*next);
    jobs_.erase(next);
    job.state->postponed = false;
    const bool charged = job.charge != Charge::kNone && job.state->waiting == 0;
    const double start = thread_cpu_seconds();
    const int64_t begin = steady_ns();
    double spent = 0;
    busy_with(lock, job.state, [&](Program& program) {
      const AtEnd count([&] {
        job.run = nullptr;
        spent = thread_cpu_seconds() - start;
        std::lock_guard data(job.state->data);
        job.state->spent_s += spent;
      });
      const Work work(*job.state, program);
      job.run(program, *job.state);
    });
    if (charged) budget_.spend(spent);
    prices_.worked(static_cast<double>(steady_ns() - begin) * 1e-9, spent);
    lock.unlock();
    job = {};
    lock.lock();
  }
}

bool Tier::wait_idle(Program& program, std::chrono::milliseconds timeout) {
  const StatePtr state = state_of(program);
  if (!state) return true;
  std::unique_lock lock(mutex_);
  ++state->waiting;
  wake_.notify_one();
  const bool idle = idle_.wait_for(lock, timeout, [&] {
    return busy_ != state && !state->condemning &&
           std::none_of(jobs_.begin(), jobs_.end(),
                        [&](const Job& job) { return job.state == state; });
  });
  --state->waiting;
  return idle;
}

/// Says once per wait, for the program whose job is next, that it waits for the budget. Gives the
/// lock back meanwhile; the program is held like for a job.
void Tier::tell_postponed(std::unique_lock<std::mutex>& lock) {
  const StatePtr state = jobs_.front().state;
  if (std::exchange(state->postponed, true)) return;
  busy_with(lock, state, [&](Program& program) {
    Event event;
    event.kind = EventKind::kPostponed;
    event.detail = "over the budget of compile CPU; goes on as the process uses more";
    emit(*state, program, std::move(event));
  });
}

}  // namespace xc
