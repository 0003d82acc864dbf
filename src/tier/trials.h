#pragma once
// Trials: two plans that differ in one region run in turn, on every signature that comes by, until
// the times of the steps in which they differ decide.

#include <cstdint>
#include <memory>
#include <vector>

#include "tier/core.h"
#include "tier/profile_keeper.h"
#include "tier/publishing.h"
#include "tier/refusals.h"
#include "tier/region_search.h"
#include "tier/specials.h"

namespace xc::tier {

class Trials {
 public:
  Trials(Core& core, Publishing& publishing, ProfileKeeper& keeper, RegionSearch& search,
         Refusals& refusals, Specials& specials)
      : core_(core),
        publishing_(publishing),
        keeper_(keeper),
        search_(search),
        refusals_(refusals),
        specials_(specials) {}

  // ---- of signatures that come for the first time (TierHooks)
  TierHooks::Seat seat_for(Program& program, ProgramState& state, SignatureEntry& entry);
  void seated(ProgramState& state, SignatureEntry& entry, int64_t trial);

  // ---- on running threads, under state.data
  /// Posts the start of a trial; one of a region that is `doubted` waits for no budget.
  void post_start(const StatePtr& state, Group& group, bool doubted, SignatureEntry& entry);
  /// Counts a sample of an entry that is on a trial. False where that trial has ended: then the
  /// entry is about to leave.
  bool count_sample(const StatePtr& state, SignatureEntry& entry, const Published& published);
  /// Counts a run without a sample; `ended`: by the host.
  void count_failure(const StatePtr& state, bool ended);
  /// Posts the end of a trial that gets no samples; it is asked for again later, after a while if
  /// its runs `failed`.
  void give_up(const StatePtr& state, bool failed);

  // ---- in jobs, which hold state.work
  /// Starts what the signature used last still has to be measured for.
  void next(Program& program, ProgramState& state);
  /// False when the trial is over, full, of other sizes, or changes nothing for this signature.
  bool join(Program& program, ProgramState& state, const std::shared_ptr<SignatureEntry>& entry);
  /// Its entries go on with one side. Asks for no memory.
  void end(Program& program, ProgramState& state, bool accepted);

 private:
  /// What a trial has shown so far.
  struct Evidence {
    std::vector<policy::Sides> sides;      ///< of each signature
    std::shared_ptr<SignatureEntry> most;  ///< the one with the most samples: it gives the figures
    double scale = 0;                      ///< of its times, in ticks; 0: it was on one side only
    double lost_s = 0;                     ///< by running the slower side
    struct Medians {
      std::vector<int64_t> shape;
      double active_s, challenger_s;
    };
    std::vector<Medians> medians;  ///< of the signatures on both sides
  };

  void start(Program& program, ProgramState& state, Group& group,
             const std::shared_ptr<SignatureEntry>& entry);
  /// Posts a look at the trial, where none is posted yet. Under state.data.
  void post_judge(const StatePtr& state);
  void judge(Program& program, ProgramState& state);
  static Evidence gather(Program& program, ProgramState& state, const Trial& trial);
  /// Notes a verdict, and in `event`, which has the figures.
  static void decide(ProgramState& state, const Trial& trial, const Evidence& evidence, bool fused,
                     Event& event);
  /// Ends it without a verdict, as give_up() says.
  void abandon(Program& program, ProgramState& state, bool failed);
  /// Posts that an entry leaves, which is on no trial that runs. Under state.data.
  void post_leave(const StatePtr& state, SignatureEntry& entry);

  Core& core_;
  Publishing& publishing_;
  ProfileKeeper& keeper_;
  RegionSearch& search_;
  Refusals& refusals_;
  Specials& specials_;
};

}  // namespace xc::tier
