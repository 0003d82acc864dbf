#pragma once
// Steps of the base plan that want their weights packed have that done in the background.

#include "tier/core.h"
#include "tier/restore.h"

namespace xc::tier {

class WeightPacking {
 public:
  WeightPacking(Core& core, Restore& restore) : core_(core), restore_(restore) {}
  /// Posts it where there is anything to pack, in mode auto. At nobody's cost: mode off does it
  /// too.
  void post(const Program& program, const StatePtr& state);
  /// In parts, as where the host is slow to give memory hundreds of megabytes take seconds: behind
  /// each what is bound takes what is packed. Ends behind the part under way where the program
  /// goes. Holds state.work.
  void pack(Program& program, ProgramState& state);

 private:
  void bind_again(Program& program, ProgramState& state);

  Core& core_;
  Restore& restore_;
};

}  // namespace xc::tier
