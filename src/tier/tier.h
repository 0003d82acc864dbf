#pragma once
// The adaptive tier: from sampled times to published plans. State machine of a region: README.md.
//
// Threads. Hooks run on host threads and only add to counters or post a job. One background thread
// per engine, started at the first job, does the rest: search, lowering, compiling, verification,
// judging trials, publishing. In mode sync first_bound() does that work on the calling thread.
//
// A child made by fork() after the thread was started: hooks see that and do nothing, asking for no
// lock, for the thread that is not there may hold it. Plans stay what they are.

#include <memory>

#include "runtime/tier_hooks.h"
#include "tier/code_room.h"
#include "tier/compilation.h"
#include "tier/condemnation.h"
#include "tier/core.h"
#include "tier/first_bind.h"
#include "tier/live_verification.h"
#include "tier/observer.h"
#include "tier/profile_keeper.h"
#include "tier/publishing.h"
#include "tier/refusals.h"
#include "tier/region_search.h"
#include "tier/restore.h"
#include "tier/sentinel.h"
#include "tier/specials.h"
#include "tier/trials.h"
#include "tier/warm_up.h"
#include "tier/weight_packing.h"
#include "tier/zeros.h"

namespace xc {

class Tier final : public TierHooks {
 public:
  Tier(std::unique_ptr<RegionCompiler> compiler, const Config& config, TierFaults faults = {});
  ~Tier() override;

  void attach(Engine&) override {}
  void added(const std::shared_ptr<Program>& program) override;
  void removed(Program& program) override;
  void first_bound(Program& program, SignatureEntry& entry) override;
  Seat seat_for(Program& program, SignatureEntry& entry) override;
  void seated(Program& program, SignatureEntry& entry, int64_t trial) override;
  void sampled(Program& program, SignatureEntry& entry, double runs, bool compiles) override;
  bool judges() const override { return !core_.queue.lost() && !core_.queue.refused(); }
  void failed(const Program& program, bool ended) noexcept override;
  void ended(const Program& program, SignatureEntry& entry) noexcept override;
  void record(Program& program, Event event) override;
  void summarise(const Program& program, ProfileSummary& summary, bool details) const override;
  void freeze(Program& program) override;
  bool wait_idle(Program& program, std::chrono::milliseconds timeout) override;
  void warm_up(Program& program, bool on) override;
  bool settled(Program& program, SignatureEntry& entry) override;

 private:
  /// What a run asks, without the queue's lock; null where the thread is lost.
  tier::StatePtr state_in_run(const Program& program) const noexcept {
    return core_.queue.lost() ? nullptr : tier::shared_state(program);
  }

  tier::Core core_;
  // Each knows those above that it is given, and no others.
  tier::ProfileKeeper keeper_{core_};
  tier::Publishing publishing_{core_};
  tier::ZeroSites zeros_{core_, publishing_};
  tier::RegionSearch search_{core_, zeros_};
  tier::Refusals refusals_{core_, keeper_, search_};
  tier::CodeRoom room_{core_, publishing_};
  tier::Specials specials_{core_, room_};
  tier::Trials trials_{core_, publishing_, keeper_, search_, refusals_, specials_};
  tier::LiveVerification live_{core_, refusals_, trials_};
  tier::Compilation compilation_{core_, zeros_, refusals_, room_, specials_, live_};
  tier::Condemnation condemnation_{core_, publishing_, refusals_, trials_};
  tier::Sentinel sentinel_{core_, refusals_, condemnation_};
  tier::Restore restore_{core_, publishing_, zeros_, search_, specials_, compilation_};
  tier::WeightPacking packing_{core_, restore_};
  // What hooks call.
  tier::FirstBind first_bind_{core_,        publishing_,   search_,  specials_,
                              compilation_, condemnation_, restore_, packing_};
  tier::Observer observer_{core_,   publishing_, zeros_,       search_,  specials_,
                           trials_, live_,       compilation_, sentinel_};
  tier::WarmUp warm_up_{core_, trials_};
};

}  // namespace xc
