#pragma once
// Kernels found wrong in use (sentinel.h, another session's verification) leave every plan. To
// remember which asks for no memory beyond one entry of SharedCode; what follows is tried again
// until it is done.

#include <string>

#include "tier/core.h"
#include "tier/publishing.h"
#include "tier/refusals.h"
#include "tier/trials.h"

namespace xc::tier {

class Condemnation {
 public:
  Condemnation(Core& core, Publishing& publishing, Refusals& refusals, Trials& trials)
      : core_(core), publishing_(publishing), refusals_(refusals), trials_(trials) {}
  /// Condemns what was found wrong in any session. Where it throws, it is called again. Holds
  /// state.work.
  void take_out(Program& program, ProgramState& state);
  /// Of an entry that came into the table just now, after it was given its plan: where that has a
  /// kernel found wrong it is bound anew. On a running thread, which waits for state.work then.
  void replace_wrong(Program& program, ProgramState& state, SignatureEntry& entry);

 private:
  /// Takes a region out of every plan and bans it for good, here and for later processes.
  void condemn(Program& program, ProgramState& state, Group& group, const std::string& reason);

  Core& core_;
  Publishing& publishing_;
  Refusals& refusals_;
  Trials& trials_;
};

}  // namespace xc::tier
