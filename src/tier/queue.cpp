#include "tier/queue.h"

#include <algorithm>

#include "base/at_end.h"
#include "base/clock.h"
#include "tier/failures.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

constexpr auto kBudgetLook = std::chrono::milliseconds(20);
constexpr auto kBudgetLookMost = std::chrono::milliseconds(1000);
constexpr auto kReclaimLook = std::chrono::milliseconds(100);
constexpr int64_t kReclaimLookNs = std::chrono::nanoseconds(kReclaimLook).count();

/// A lock goes to whoever comes first, and job after job this thread would.
void wait_for_freeze(const ProgramState& state) {
  while (const int waiting = state.freezing.load()) state.freezing.wait(waiting);
}

}  // namespace

JobQueue::JobQueue(double cpu_percent, const TierFaults& faults, Job take_out_condemned)
    : faults_(faults), take_out_condemned_(std::move(take_out_condemned)), budget_(cpu_percent) {}

void JobQueue::stop() {
  if (thread_.lost()) {
    (void)signals_.release();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  thread_.join();
}

// ---- programs -----------------------------------------------------------------------------------

void JobQueue::add(const Program& program, const StatePtr& state) {
  std::lock_guard lock(mutex_);
  states_[&program] = state;
}

void JobQueue::remove(const Program& program) {
  std::unique_lock lock(mutex_);
  const auto it = states_.find(&program);
  if (it == states_.end()) return;
  const StatePtr state = it->second;
  state->in_queue.gone = true;
  std::erase_if(jobs_, [&](const Waiting& job) { return job.state == state; });
  // A job in progress holds the program, and through it the engine that owns this thread: it must
  // end before the owner lets go.
  idle_.wait(lock, [&] { return busy_ != state; });
  states_.erase(&program);
}

StatePtr JobQueue::state_of(const Program& program) const {
  if (thread_.lost()) return nullptr;
  std::lock_guard lock(mutex_);
  const auto it = states_.find(&program);
  return it == states_.end() ? nullptr : it->second;
}

std::vector<StatePtr> JobQueue::states() const {
  std::vector<StatePtr> out;
  std::lock_guard lock(mutex_);
  for (const auto& [program, state] : states_) out.push_back(state);
  return out;
}

// ---- jobs ---------------------------------------------------------------------------------------

void JobQueue::post(const StatePtr& state, Job job, Charge charge) {
  post({state, std::move(job), nullptr, charge});
}

void JobQueue::post_once(const StatePtr& state, bool& posted, Job job, Charge charge) {
  if (posted) return;
  post(
      state,
      [&posted, job = std::move(job)](Program& program, ProgramState& its) {
        const AtEnd done([&] {
          std::lock_guard data(its.data);
          posted = false;
        });
        job(program, its);
      },
      charge);
  posted = true;  // `data` is held: the job's end waits for it
}

void JobQueue::post_compile(const StatePtr& state, Job job, const Urgency& urgency) {
  post({state, std::move(job), &urgency, Charge::kBudget});
}

void JobQueue::post(Waiting job) {
  if (lost()) return;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || job.state->in_queue.gone || !start_thread()) return;
    jobs_.push_back(std::move(job));
    ++calls_;
  }
  wake_.notify_one();
}

bool JobQueue::start_thread() {
  if (refused_) return false;
  if (thread_.running()) return true;
  if (!faults_.no_thread && thread_.start([this] { thread_main(); })) return true;
  refused_ = true;  // tier 0 serves; who asks take_refusal() tells it, when no lock is held
  return false;
}

void JobQueue::drop_compiles(const StatePtr& state) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const Waiting& job) { return job.state == state && job.urgency; });
  }
  idle_.notify_all();
}

bool JobQueue::wait_idle(const StatePtr& state, std::chrono::milliseconds timeout) {
  InQueue& mine = state->in_queue;
  std::unique_lock lock(mutex_);
  ++mine.waiting;
  ++calls_;
  wake_.notify_one();
  const bool idle = idle_.wait_for(lock, timeout, [&] {
    return busy_ != state && !mine.condemning &&
           std::none_of(jobs_.begin(), jobs_.end(),
                        [&](const Waiting& job) { return job.state == state; });
  });
  --mine.waiting;
  return idle;
}

bool JobQueue::is_going(const ProgramState& state) const {
  std::lock_guard lock(mutex_);
  return state.in_queue.gone || stopping_;
}

bool JobQueue::is_awaited(const ProgramState& state) const {
  std::lock_guard lock(mutex_);
  return state.in_queue.waiting > 0;
}

double JobQueue::lost_per_s(const Urgency& urgency) const {
  return urgency.per_s(steady_ns(), half_life_s());
}

int64_t JobQueue::size() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(jobs_.size());
}

bool JobQueue::may_start(const Waiting& job, double cpu_s) {
  if (job.charge != Charge::kBudget) return true;
  // A host that waits for the work to be done has nothing better to do with the time.
  if (job.state->in_queue.waiting > 0) return true;
  const double age = static_cast<double>(steady_ns() - job.state->added_ns) * 1e-9;
  return !faults_.starved && budget_.allows(cpu_s, age);
}

/// The first job there is that compiles nothing, else the compile whose region loses most per
/// second.
std::deque<JobQueue::Waiting>::iterator JobQueue::next_job() {
  const int64_t now = steady_ns();
  const double cpu_s = process_cpu_seconds();  // a system call: once for all
  auto best = jobs_.end();
  double most = -1;
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (!may_start(*job, cpu_s)) continue;
    if (!job->urgency) return job;
    const double loss = job->urgency->per_s(now, half_life_s());
    if (loss > most) {
      most = loss;
      best = job;
    }
  }
  return best;
}

// ---- what it knows of the host ------------------------------------------------------------------

policy::Prices JobQueue::prices() const {
  std::lock_guard lock(mutex_);
  policy::Prices prices = prices_;
  prices.queued = static_cast<int64_t>(jobs_.size());
  return prices;
}

void JobQueue::compiled_in(double seconds) {
  std::lock_guard lock(mutex_);
  prices_.learn(seconds);
}

void JobQueue::compile_took_more(double seconds) {
  std::lock_guard lock(mutex_);
  prices_.learn(prices_.compile_s + seconds);
}

void JobQueue::put_load(Event& event) const {
  std::lock_guard lock(mutex_);
  event.queue = static_cast<int64_t>(jobs_.size());
  event.budget_ms = budget_.tokens() * 1e3;
}

// ---- what is left behind ------------------------------------------------------------------------

void JobQueue::reclaim(Program& program) {
  if (lost()) return;
  program.epochs().reclaim();
  if (program.epochs().retired() == 0) return;
  const StatePtr state = state_of(program);
  const std::lock_guard lock(mutex_);
  if (state && !state->in_queue.gone) state->in_queue.left_behind = left_behind_ = true;
}

void JobQueue::look_for_condemned() {
  {
    std::lock_guard lock(mutex_);
    if (!start_thread()) return;
    for (const auto& [program, state] : states_) state->in_queue.condemning = true;
    left_behind_ = hurry_ = true;
  }
  wake_.notify_one();
}

/// One that was not looked at this time.
StatePtr JobQueue::next_left_behind() const {
  for (const auto& [program, state] : states_) {
    const InQueue& its = state->in_queue;
    if ((its.left_behind || its.condemning) && !its.gone && its.looked != looks_) return state;
  }
  return nullptr;
}

void JobQueue::look_at_left_behind(std::unique_lock<std::mutex>& lock) {
  left_behind_ = hurry_ = false;
  looked_ns_ = steady_ns();
  ++looks_;
  for (StatePtr state = next_left_behind(); state && !stopping_; state = next_left_behind()) {
    InQueue& its = state->in_queue;
    its.looked = looks_;
    const bool left = std::exchange(its.left_behind, false);
    const bool condemning = std::exchange(its.condemning, false);
    busy_with(lock, state, [&](Program& program) {
      if (left) reclaim(program);
      if (!condemning) return;
      bool done = false;
      const AtEnd again([&] {
        if (done) return;
        const std::lock_guard relock(mutex_);
        its.condemning = left_behind_ = true;
      });
      const Work work(*state, program);
      take_out_condemned_(program, *state);
      done = true;
    });
    lock.unlock();
    state.reset();
    lock.lock();
  }
}

// ---- the thread ---------------------------------------------------------------------------------

/// Gives the lock back while something is done for a program, which is held meanwhile. What it
/// throws ends it and is told: a job that fails leaves the program on what it had.
template <class F>
void JobQueue::busy_with(std::unique_lock<std::mutex>& lock, const StatePtr& state, F&& work) {
  busy_ = state;
  lock.unlock();
  if (const std::shared_ptr<Program> program = state->program.lock()) {
    try {
      work(*program);
    } catch (const std::exception& error) {
      log_failure(*program, error.what());
    } catch (...) {
      log_failure(*program, "an exception of the host's");
    }
  }
  lock.lock();
  busy_.reset();
  idle_.notify_all();
}

void JobQueue::thread_main() {
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
    const uint64_t calls = calls_;
    const auto next = next_job();
    if (next == jobs_.end()) {
      tell_postponed(lock);  // lets go of the lock
      // A process that does nothing is not woken for a budget that does not grow.
      constexpr double kIdleS = 1e-3;
      const double used = process_cpu_seconds();
      wake_.wait_for(lock, budget_look, [&] { return stopping_ || hurry_ || calls_ != calls; });
      budget_look = process_cpu_seconds() - used < kIdleS
                        ? std::min(2 * budget_look, kBudgetLookMost)
                        : kBudgetLook;
      continue;
    }
    budget_look = kBudgetLook;
    Waiting job = std::move(*next);
    jobs_.erase(next);
    run(lock, std::move(job));
  }
}

void JobQueue::run(std::unique_lock<std::mutex>& lock, Waiting job) {
  job.state->in_queue.postponed = false;
  const bool charged = job.charge != Charge::kNone && job.state->in_queue.waiting == 0;
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
    wait_for_freeze(*job.state);
    const Work work(*job.state, program);
    job.run(program, *job.state);
  });
  if (charged) budget_.spend(spent);
  prices_.worked(static_cast<double>(steady_ns() - begin) * 1e-9, spent);
  lock.unlock();
  job = {};
  lock.lock();
}

/// Says once per wait, for the program whose job is next, that it waits for the budget. Gives the
/// lock back meanwhile; the program is held like for a job.
void JobQueue::tell_postponed(std::unique_lock<std::mutex>& lock) {
  const StatePtr state = jobs_.front().state;
  if (std::exchange(state->in_queue.postponed, true)) return;
  busy_with(lock, state, [&](Program& program) {
    Event event;
    event.kind = EventKind::kPostponed;
    event.detail = "over the budget of compile CPU; goes on as the process uses more";
    put_load(event);
    deliver(*state, program, std::move(event));
  });
}

}  // namespace xc::tier
