#include "tier/work.h"

#include <new>
#include <thread>

#include "tier/failures.h"

namespace xc::tier {

Work::Work(ProgramState& state, const Program& program, bool wait)
    : state_(state), program_(program), lock_(state.work, std::defer_lock) {
  if (wait)
    lock_.lock();
  else if (!lock_.try_lock())
    return;
  state_.worker.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

Work::~Work() {
  if (!lock_) return;
  const std::vector<Event> told = std::exchange(state_.told, {});
  const std::vector<std::string> failures = std::exchange(state_.failures, {});
  state_.worker.store({}, std::memory_order_relaxed);
  lock_.unlock();
  try {
    for (const Event& event : told) program_.engine().emit(event);
  } catch (...) {
    // Contracts forbid it to the listener; and there may be no memory to hand an event on.
  }
  for (const std::string& failure : failures) log_failure(program_, failure.c_str());
}

void deliver(ProgramState& state, const Program& program, Event event) {
  event.run = const_cast<Program&>(program).total_runs();
  {
    std::lock_guard data(state.data);
    event.time_ns = program.engine().age_ns();
    state.events.add(event);
  }
  if (state.worker.load(std::memory_order_relaxed) == std::this_thread::get_id())
    state.told.push_back(std::move(event));
  else
    program.engine().emit(event);
}

void deliver_failure(ProgramState& state, const Program& program, const char* what) noexcept {
  if (state.worker.load(std::memory_order_relaxed) != std::this_thread::get_id())
    return log_failure(program, what);
  try {
    state.failures.emplace_back(what);
  } catch (const std::bad_alloc&) {
    // Not even memory to tell it.
  }
}

}  // namespace xc::tier
