#pragma once
// A region from candidate to a kernel that agrees with what it replaces on made-up inputs: shared
// by another session, loaded from the persistent cache, or lowered and compiled.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cache/poison.h"
#include "tier/code_room.h"
#include "tier/core.h"
#include "tier/live_verification.h"
#include "tier/refusals.h"
#include "tier/specials.h"
#include "tier/zeros.h"

namespace xc::tier {

class Compilation {
 public:
  Compilation(Core& core, ZeroSites& zeros, Refusals& refusals, CodeRoom& room, Specials& specials,
              LiveVerification& live)
      : core_(core),
        zeros_(zeros),
        refusals_(refusals),
        room_(room),
        specials_(specials),
        live_(live) {}
  /// Posts the compile of a queued region, behind which a live run is asked for its inputs.
  void post(const StatePtr& state, Group& group);
  /// False: the region was banned, or has to wait, and that was told. Throws where it failed for
  /// want of memory in the middle: Refusals::put_back() then. Holds state.work.
  bool compile(Program& program, ProgramState& state, Group& group);
  /// The group's kernel from the persistent cache; false when it is not there. Holds state.work.
  bool load(Program& program, ProgramState& state, Group& group);
  /// Whether anything was compiled yet.
  bool any() const { return any_; }

 private:
  /// A region's kernel on its way through compile().
  struct Made {
    std::shared_ptr<Kernel> kernel;
    std::vector<std::shared_ptr<const PhaseCode>> phases;  ///< compiled here; kept once verified
    std::string calls;            ///< how the phases are called, kept with them
    cache::Permission first_run;  ///< held until it is verified
    bool loaded = false;          ///< from the persistent cache
    double start_s = 0;           ///< of the thread's CPU, warming the compiler up left out
    double lowering_s = 0, compile_s = 0;
  };
  /// Puts a queued region back to where it was when its runs come no more.
  bool dropped(Program& program, ProgramState& state, Group& group);
  // Parts of compile(), which return as it does.
  /// The kernel: another session's, the persistent cache's or a new one.
  bool make_kernel(Program& program, ProgramState& state, Group& group, Made& made);
  bool lower_and_compile(Program& program, ProgramState& state, Group& group, Made& made);
  /// Code of every phase; none when it has to wait for room, which is told.
  std::vector<std::shared_ptr<const PhaseCode>> make_code(Program& program, ProgramState& state,
                                                          Group& group, const RegionCode& code);
  /// On made-up inputs; what is right goes into the persistent cache.
  bool verify(Program& program, ProgramState& state, Group& group, Made& made);

  Core& core_;
  ZeroSites& zeros_;
  Refusals& refusals_;
  CodeRoom& room_;
  Specials& specials_;
  LiveVerification& live_;
  std::atomic<bool> any_{false};
};

}  // namespace xc::tier
