#pragma once
// Does a kernel that was right on made-up inputs agree with what it replaces on those of a live
// run? A run copies them, the background thread compares.

#include <span>
#include <vector>

#include "tier/core.h"
#include "tier/refusals.h"
#include "tier/trials.h"
#include "tier/verification.h"

namespace xc::tier {

class LiveVerification {
 public:
  LiveVerification(Core& core, Refusals& refusals, Trials& trials)
      : core_(core), refusals_(refusals), trials_(trials) {}
  /// Asks a run of the plan that the entry's runs take, of whatever sizes comes next, for the
  /// inputs of a group that was just compiled; where none can be had, made-up ones have to do. What
  /// is right goes on to its trial. Holds state.work.
  void ask(Program& program, ProgramState& state, Group& group, SignatureEntry& entry);
  /// Posts the same, where they were asked for a while ago and did not come. Under state.data.
  void ask_again(const StatePtr& state, Group& group, SignatureEntry& entry, int64_t now_ns);

  /// Why a kernel is refused that no sizes have shown anything of.
  static constexpr const char* kUncompared =
      "nothing to compare it on: no sizes tried give it an element";

 private:
  void captured(Program& program, ProgramState& state, Group& group,
                const std::vector<Tensor>& inputs, const std::vector<int64_t>& symbols);
  void verify(Program& program, ProgramState& state, Group& group,
              const std::vector<Tensor>& inputs, const Symbols& symbols);

  Core& core_;
  Refusals& refusals_;
  Trials& trials_;
};

/// Values of the base plan's symbols by the names that the group's kernel knows them by.
Symbols sizes_of(const Program& program, std::span<const int64_t> symbols, const Group& group);
/// Notes how far off a verification found the group.
void saw_error(ProgramState& state, Group& group, const Verification& verification);

}  // namespace xc::tier
