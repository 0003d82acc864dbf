#pragma once
// Moving runs to the plan that their sizes choose (plan_choice.h): plans are made once and shared.
// All of it holds state.work.

#include <cstdint>
#include <memory>
#include <vector>

#include "tier/core.h"

namespace xc::tier {

class Publishing {
 public:
  /// Signatures published at once after a verdict; the others follow when they run.
  static constexpr size_t kMaxRebound = 512;

  explicit Publishing(Core& core) : core_(core) {}
  /// The plan with these groups fused, those first that come first where groups overlap.
  std::shared_ptr<const Plan> plan_with(Program& program, ProgramState& state,
                                        const std::vector<const Group*>& groups);
  /// Moves a signature to the plan of its sizes and to kernels that were not bound in a hurry. In a
  /// frozen session plans stay, but for kernels found wrong and those that skip zeros.
  void bind_anew(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same on a run's path: fused kernels may want more memory than its sizes are to have, and
  /// it keeps the steps then.
  void bind_anew_or_settle(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same of many: one that cannot be bound, for a limit say, keeps what it runs. Where that is
  /// wrong, it goes back to the base plan; where that is over a limit too, out of the table.
  void bind_anew_or_keep(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same of all signatures, at most `most`, those used last; the others follow when they run.
  void everywhere(Program& program, ProgramState& state, size_t most = kMaxRebound);

 private:
  Core& core_;
};

}  // namespace xc::tier
