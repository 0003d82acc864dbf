#pragma once
// What a sampled run tells the tier: is a region worth compiling, does a trial have enough to
// decide, has a live region become slow. On a host thread: counts and posts, never waits.

#include <cstdint>
#include <utility>
#include <vector>

#include "tier/compilation.h"
#include "tier/core.h"
#include "tier/live_verification.h"
#include "tier/publishing.h"
#include "tier/region_search.h"
#include "tier/sentinel.h"
#include "tier/specials.h"
#include "tier/trials.h"
#include "tier/zeros.h"

namespace xc::tier {

class Observer {
 public:
  Observer(Core& core, Publishing& publishing, ZeroSites& zeros, RegionSearch& search,
           Specials& specials, Trials& trials, LiveVerification& live, Compilation& compilation,
           Sentinel& sentinel)
      : core_(core),
        publishing_(publishing),
        zeros_(zeros),
        search_(search),
        specials_(specials),
        trials_(trials),
        live_(live),
        compilation_(compilation),
        sentinel_(sentinel) {}
  // TierHooks.
  void sampled(Program& program, const StatePtr& state, SignatureEntry& entry, double runs,
               bool compiles);
  void failed(const StatePtr& state, bool ended) noexcept;
  void ended(const StatePtr& state, SignatureEntry& entry) noexcept;

 private:
  /// One timed run, as the regions that it met are told of it.
  struct Sample {
    SignatureEntry& entry;
    const Version& version;   ///< that ran
    const Plan& base;         ///< the base plan
    const GroupFacts& facts;  ///< of the entry
    double runs;              ///< for which it stands
    int64_t now_ns;
    policy::Prices prices;
    double now_s() const { return static_cast<double>(now_ns) * 1e-9; }
  };
  /// Regions that became worth compiling; told of and posted when state.data is free again.
  using Queued = std::vector<std::pair<Group*, Event>>;
  /// What a sample asks for, once all regions were told of it.
  struct Wanted {
    Queued compiles;
    Group* trial = nullptr;  ///< the region to try
    bool doubted = false;    ///< which has become slow: it comes before others
  };

  // Without state.data.
  void swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry);
  void post_queued(Program& program, const StatePtr& state, Queued queued);

  // All below under state.data.
  /// Regions are searched once a few runs were timed.
  void count_to_search(const StatePtr& state, const SignatureEntry& entry);
  /// A sample of an entry that is on a trial, maybe one that ended.
  void sampled_on_trial(const StatePtr& state, SignatureEntry& entry, const Published& published);
  void follow(const StatePtr& state, SignatureEntry& entry, const GroupFacts& facts,
              const Published& published);
  void join_trial(Program& program, ProgramState& state,
                  const std::shared_ptr<SignatureEntry>& entry);
  void add_sample(const StatePtr& state, Group& group, const GroupFact& fact, const Sample& sample,
                  Wanted& wanted);
  /// `base_s`: what a run takes without the group's code.
  static void add_loss(Group& group, double base_s, const Sample& sample);
  void ran_fused(const StatePtr& state, Group& group, int size, const Sample& sample);
  /// False where the group has nothing to win, whatever it would take.
  bool ran_base(const StatePtr& state, Group& group, const GroupFact& fact, const Sample& sample);
  void queue_if_worth(const ProgramState& state, Group& group, const Sample& sample,
                      Wanted& wanted);
  /// Doubts what runs of the entry use.
  void doubt_all(const StatePtr& state, SignatureEntry& entry);

  Core& core_;
  Publishing& publishing_;
  ZeroSites& zeros_;
  RegionSearch& search_;
  Specials& specials_;
  Trials& trials_;
  LiveVerification& live_;
  Compilation& compilation_;
  Sentinel& sentinel_;
};

}  // namespace xc::tier
