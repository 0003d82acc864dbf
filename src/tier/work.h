#pragma once
// Working on a program's plans, and telling of it.

#include <mutex>

#include "tier/program_state.h"

namespace xc::tier {

/// Holds ProgramState::work. Events and log lines of the time reach the host when it is let go of:
/// a listener may call the session.
class Work {
 public:
  /// `wait`: false takes the lock only where it is free.
  Work(ProgramState& state, const Program& program, bool wait = true);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  explicit operator bool() const { return lock_.owns_lock(); }

 private:
  ProgramState& state_;
  const Program& program_;
  std::unique_lock<std::mutex> lock_;
};

/// Keeps an event with the program's and delivers it: now, or when the calling thread's Work ends.
/// With no lock held that a run could want.
void deliver(ProgramState& state, const Program& program, Event event);

/// Logs a failure of a part of some work that goes on, at the same time.
void deliver_failure(ProgramState& state, const Program& program, const char* what) noexcept;

}  // namespace xc::tier
