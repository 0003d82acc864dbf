#pragma once
// What becomes of a region whose kernel is not to be had: banned for good, or a candidate again.
// All of it holds state.work.

#include <functional>
#include <string>

#include "tier/core.h"
#include "tier/profile_keeper.h"
#include "tier/region_search.h"

namespace xc::tier {

/// How a verification ended.
struct Outcome {
  std::string different;  ///< what is not as it should be; empty = nothing
  bool compared = false;  ///< and it was seen to be so: it is not that the verification failed
  bool later = false;     ///< it failed for now
};
/// `verify`: the difference that it sees.
Outcome outcome_of(const std::function<std::string()>& verify);

class Refusals {
 public:
  Refusals(Core& core, ProfileKeeper& keeper, RegionSearch& search)
      : core_(core), keeper_(keeper), search_(search) {}
  /// Never again: wrong, or not to be had.
  void ban(Program& program, ProgramState& state, Group& group, EventKind kind, std::string reason);
  /// Its kernel cannot be written down; smaller ones may.
  void not_lowered(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// Never again: code that nothing of this program runs yet: here, in other sessions and for later
  /// processes.
  void ban_wrong(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// What verification said no to: banned, or put back where it only failed for now.
  void unverified(Program& program, ProgramState& state, Group& group, const Outcome& outcome,
                  const std::string& where);
  /// The code of a region is wrong: no session of the engine gets it any more, and those that have
  /// it are about to let go of it (Condemnation).
  void found_wrong(const Hash128& identity, const std::string& reason);

  /// A candidate again, whose compile or verification came to nothing: regret is counted anew.
  static void put_back(ProgramState& state, Group& group) noexcept;
  /// The same, told with the reason; not again before some time, twice as long each time in a row.
  void not_now(Program& program, ProgramState& state, Group& group, const std::string& reason);

 private:
  Core& core_;
  ProfileKeeper& keeper_;
  RegionSearch& search_;
};

}  // namespace xc::tier
