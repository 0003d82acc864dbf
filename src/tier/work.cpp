#include "tier/work.h"

#include <thread>

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
  state_.worker.store({}, std::memory_order_relaxed);
  lock_.unlock();
  try {
    for (const Event& event : told) program_.engine().emit(event);
  } catch (...) {
    // Contracts forbid it to the listener; and there may be no memory to hand an event on.
  }
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

}  // namespace xc::tier
