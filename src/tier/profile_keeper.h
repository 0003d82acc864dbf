#pragma once
// What this process learnt, kept for the next: restore.h puts it to use.

#include <atomic>

#include "tier/core.h"

namespace xc::tier {

class ProfileKeeper {
 public:
  explicit ProfileKeeper(Core& core) : core_(core) {}
  /// Keeps the verdicts of a program, in mode auto. Holds state.work.
  void keep(Program& program, ProgramState& state);

 private:
  /// Measures the host with care, once per machine: after the first verdict, as a job that the
  /// budget allows.
  void calibrate(const StatePtr& state);

  Core& core_;
  std::atomic<bool> calibrating_{false};
};

}  // namespace xc::tier
