#pragma once
// Adaptation before a host serves: compiled without waiting for regret, decided by trials as ever.

#include "tier/core.h"
#include "tier/trials.h"

namespace xc::tier {

class WarmUp {
 public:
  WarmUp(Core& core, Trials& trials) : core_(core), trials_(trials) {}
  // TierHooks.
  void turn(const StatePtr& state, bool on);
  bool settled(const Program& program, ProgramState& state, SignatureEntry& entry) const;

 private:
  Core& core_;
  Trials& trials_;
};

}  // namespace xc::tier
