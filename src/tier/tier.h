#pragma once
// The adaptive tier: from sampled times to published plans. State machine of a region: README.md.
//
// Threads. Hooks run on host threads and only add to counters or post a job. One background thread
// per engine, started at the first job, does the rest: search, lowering, compiling, verification,
// judging trials, publishing. In mode sync first_bound() does that work on the calling thread.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/profile_record.h"
#include "plan/fusion/region.h"
#include "plan/fusion/specialise.h"
#include "runtime/program.h"
#include "tier/core.h"
#include "tier/failures.h"
#include "tier/plan_choice.h"
#include "tier/policy.h"
#include "tier/region_kernel.h"
#include "tier/special_policy.h"
#include "tier/verification.h"
#include "tier/work.h"

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

  /// Signatures published at once after a verdict; the others follow when they run.
  static constexpr size_t kMaxRebound = 512;

 private:
  using Fact = tier::Fact;
  using Facts = tier::Facts;
  using Group = tier::Group;
  using ProgramState = tier::ProgramState;
  using StatePtr = tier::StatePtr;
  using Trial = tier::Trial;
  using Charge = tier::Charge;
  using ZeroSite = tier::ZeroSite;

  /// Fact::predicted_s, where products are as fast as those that run instead: the host was measured
  /// in a moment, maybe while another core was at work on what they share.
  /// What skips zeros goes by those seen lately.
  static double predicted_in(Group& group, const Fact& fact, const Version& version);

  /// CPU seconds after which a region's compile is given up, between its phases.
  static constexpr double kCompileLimitS = 2;

  /// Puts a queued region back to where it was when its runs come no more.
  bool dropped(Program& program, ProgramState& state, Group& group);
  void prepare_in_background(const Program& program, const StatePtr& state);
  /// Posts the end of a trial that gets no samples; it is asked for again later, after a while if
  /// its runs `failed`. Under state.data.
  void give_up_trial(const StatePtr& state, bool failed);
  /// Ends it so.
  void abandon_trial(Program& program, ProgramState& state, bool failed);
  /// Posts a look at the trial, where none is posted yet. Under state.data.
  void post_judge(const StatePtr& state);
  /// Whether it is tried now: what values decide is not tried on made-up ones. Under state.data.
  static bool may_try(const ProgramState& state, const Group& group) {
    return !group.zeros || state.warming == 0;
  }
  /// "MatMul+Add+Relu": the first few, views apart.
  static std::string op_names(const Graph& graph, std::span<const NodeId> nodes);

  // Parts of sampled(), under state.data (but swap_by_force() and post_queued()).
  /// One timed run, as the regions that it met are told of it.
  struct Sample {
    SignatureEntry& entry;
    const Version& version;  ///< that ran
    const Facts& facts;      ///< of the entry
    double runs;             ///< for which it stands
    int64_t now_ns;
    policy::Prices prices;
    double now_s() const { return static_cast<double>(now_ns) * 1e-9; }
  };
  /// Regions that became worth compiling; told of and posted when `data` is free again.
  using Queued = std::vector<std::pair<Group*, Event>>;
  /// What a sample asks for, once all regions were told of it.
  struct Wanted {
    Queued compiles;
    Group* trial = nullptr;  ///< the region to try
    bool doubted = false;    ///< which has become slow: it comes before others
  };
  /// Regions are searched once a few runs were timed.
  void count_to_search(const StatePtr& state, const SignatureEntry& entry);
  /// A sample of an entry that is on a trial, maybe one that ended.
  void sampled_on_trial(const StatePtr& state, SignatureEntry& entry, const Published& published);
  /// Which values the sizes take that this segment's entries tell.
  static void count_sizes(ProgramState& state, const Sample& sample);
  void add_sample(const StatePtr& state, Group& group, const Fact& fact, const Sample& sample,
                  Wanted& wanted);
  /// `base_s`: what a run takes without the group's code.
  static void add_loss(Group& group, double base_s, const Sample& sample);
  void ask_again_for_inputs(const StatePtr& state, Group& group, const Sample& sample);
  void ran_fused(const StatePtr& state, Group& group, int size, const Sample& sample);
  /// False where the group has nothing to win, whatever it would take.
  bool ran_base(const StatePtr& state, Group& group, const Fact& fact, const Sample& sample);
  void queue_if_worth(const ProgramState& state, Group& group, const Sample& sample,
                      Wanted& wanted);
  /// Posts the start of a trial; one of a region that is `doubted` waits for no budget.
  void post_trial(const StatePtr& state, Group& group, bool doubted, SignatureEntry& entry);
  /// Doubts what runs of the entry use. Under state.data.
  void doubt_all(const StatePtr& state, SignatureEntry& entry);
  void post_queued(Program& program, const StatePtr& state, Queued queued);
  void swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry);
  void follow(const StatePtr& state, SignatureEntry& entry, const Facts& facts,
              const Published& published);
  static void watch(Group& group, int size, SignatureEntry& entry, const Version& version,
                    int64_t now);

  // Jobs. All hold state.work.
  /// Costs at the sizes of the signature used last.
  static FusionOptions fusion_options(Program& program);
  void analyse(Program& program, ProgramState& state);
  /// Finds regions, inside of a group where one is given, and adds them; the events to tell of
  /// them. A search that fails finds none and says so; for want of memory it may be tried again.
  std::vector<Event> find_groups(Program& program, ProgramState& state,
                                 const FusionOptions& options, FusionReport* considered,
                                 const Group* part_of);
  static Event search_refused(const std::exception& error);
  /// Of a region and others of its identity, without a place yet.
  static std::unique_ptr<Group> make_group(Program& program, const Region& region);
  /// All whose sizes can be written down; the events to tell of them. What fails adds none.
  std::vector<Event> add_groups(Program& program, ProgramState& state, std::vector<Region> regions,
                                const Group* part_of = nullptr);
  /// How a verification ended.
  struct Outcome {
    std::string different;  ///< what is not as it should be; empty = nothing
    bool compared = false;  ///< and it was seen to be so: it is not that the verification failed
    bool later = false;     ///< it failed for now
  };
  static Outcome outcome_of(const std::function<std::string()>& verify);
  /// Throws where it failed for want of memory in the middle: put_back() then.
  bool compile(Program& program, ProgramState& state, Group& group);
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
  /// Parts of compile(). False: the region was banned, or has to wait, and that was told.
  /// The kernel: another session's, the persistent cache's or a new one.
  bool make_kernel(Program& program, ProgramState& state, Group& group, Made& made);
  bool lower_and_compile(Program& program, ProgramState& state, Group& group, Made& made);
  /// On made-up inputs; what is right goes into the persistent cache.
  bool verify_made(Program& program, ProgramState& state, Group& group, Made& made);
  /// A candidate again, whose compile or verification came to nothing: regret is counted anew.
  static void put_back(ProgramState& state, Group& group) noexcept;
  /// The same, told with the reason.
  void not_now(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// What verification said no to: banned, or put back where it only failed for now.
  void unverified(Program& program, ProgramState& state, Group& group, const Outcome& outcome,
                  const std::string& where);
  std::vector<std::shared_ptr<const PhaseCode>> make_code(Program& program, ProgramState& state,
                                                          Group& group, const RegionCode& code);
  /// The code cache: code_cache.cpp.
  enum class Room : uint8_t {
    kNone,    ///< nothing saves so little that it should go
    kMade,    ///< there is some now
    kComing,  ///< other programs are asked to let go
  };
  /// Code of one kernel, which programs may share.
  struct Code {
    double saved_per_s = 0;
    int64_t bytes = 0;
    bool stays = false;                              ///< some user cannot do without
    std::vector<std::pair<StatePtr, Group*>> users;  ///< in all programs
  };
  std::map<const Kernel*, Code> code_in_use();
  /// Lets go of the code that saves least per byte, if that is clearly less than `group` would.
  Room make_room(Program& program, ProgramState& state, Group& group);
  /// Posts the compile of a queued region.
  void post_compile(const StatePtr& state, Group& group);
  void evict(Program& program, ProgramState& state, Group& group, const std::string& why);
  /// The sizes of an entry by the names that the group's kernel knows them by.
  static Symbols sizes_of(const Program& program, const SignatureEntry& entry, const Group& group);
  void ask_for_inputs(Program& program, ProgramState& state, Group& group, SignatureEntry& entry);
  static void saw_error(ProgramState& state, Group& group, const Verification& verification);
  void verify_inputs(Program& program, ProgramState& state, Group& group,
                     const std::vector<Tensor>& inputs, const Symbols& symbols);
  void start_trial(Program& program, ProgramState& state, Group& group,
                   const std::shared_ptr<SignatureEntry>& entry);
  /// Starts what the signature used last still has to be measured for.
  void next_trial(Program& program, ProgramState& state);
  /// False when the trial is over, full, of other sizes, or changes nothing for this signature.
  bool join_trial(Program& program, ProgramState& state,
                  const std::shared_ptr<SignatureEntry>& entry);
  /// Asks for no memory.
  static void leave_trial(Program& program, SignatureEntry& entry, bool accepted);
  /// Posts that an entry leaves, which is on no trial that runs. Under state.data.
  void leave_ended_trial(const StatePtr& state, SignatureEntry& entry);
  void end_trial(Program& program, ProgramState& state, bool accepted);
  static double predicted_s(ProgramState& state, SignatureEntry& entry, const Group& group);
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
  static Evidence gather(Program& program, ProgramState& state, const Trial& trial);
  void judge(Program& program, ProgramState& state);
  /// Notes a verdict, and in `event`, which has the figures.
  static void decide(ProgramState& state, const Trial& trial, const Evidence& evidence, bool fused,
                     Event& event);
  /// At most `most` signatures, those used last; the others follow when they run.
  void publish_everywhere(Program& program, ProgramState& state, size_t most = kMaxRebound);
  /// Moves a signature to the plan of its sizes and to kernels that were not bound in a hurry. In a
  /// frozen session plans stay, but for kernels found wrong and those that skip zeros.
  void bind_anew(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same on a run's path: fused kernels may want more memory than its sizes are to have, and
  /// it keeps the steps then.
  void bind_anew_or_settle(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same of many: one that cannot be bound, for a limit say, keeps what it runs. Where that is
  /// wrong, it goes back to the base plan; where that is over a limit too, out of the table.
  void bind_anew_or_keep(Program& program, ProgramState& state, SignatureEntry& entry);
  void prepare_weights(Program& program, ProgramState& state);
  /// The plan with these groups fused, those first that come first where groups overlap.
  std::shared_ptr<const Plan> plan_with(Program& program, ProgramState& state,
                                        const std::vector<const Group*>& groups);
  /// Never again: wrong, or not to be had.
  void ban(ProgramState& state, Program& program, Group& group, EventKind kind, std::string reason);
  /// The rows and cells of a region with products that is not used at some size.
  void offer_parts(Program& program, ProgramState& state, Group& group);

  // Kernels for some sizes only: specials.cpp.
  /// Counts runs of a region in use; posts a special kernel for the sizes at hand where these are
  /// frequent and none was made. Under state.data.
  void consider_special(const StatePtr& state, Group& group, std::span<const int64_t> symbols,
                        double runs, double now_s);
  /// What may be taken for granted of these sizes. Under state.data.
  std::vector<SizeFact> facts_about(const ProgramState& state, const Plan& plan, const Group& group,
                                    std::span<const int64_t> symbols) const;
  /// Elements of the innermost loop at these sizes; kNominalSize where that is not known.
  static double row_of(const ProgramState& state, const Group& group,
                       std::span<const int64_t> symbols);
  /// The share of a region's time that a special kernel would save.
  double expected_gain(const ProgramState& state, const Group& group,
                       std::span<const int64_t> symbols, double now_s) const;
  /// What a special kernel would take where `now_s` seconds are spent now.
  double predicted_special(const ProgramState& state, const Group& special, int size,
                           std::span<const int64_t> symbols, double taken_s, double now_s) const;
  /// A trial of a special kernel, which took `fused_s`, against what took `base_s`, is over.
  void learn_gain(const ProgramState& state, const Group& special, const Trial& trial,
                  const SignatureEntry& entry, double base_s, double fused_s);
  /// A candidate: it has to earn its compile like any region. Null where there is one already, or
  /// nothing to take for granted. Holds state.work.
  Group* add_special(Program& program, ProgramState& state, Group& general,
                     const std::vector<SizeFact>& facts);
  /// Testing, in mode sync: kernels for the sizes of this signature, used without trials.
  void specialise_at_once(Program& program, ProgramState& state, const SignatureEntry& entry);
  /// Whether another kernel of the same region may be had; one that saves clearly less is let go.
  bool admit_special(Program& program, ProgramState& state, Group& special);
  /// The kernel of a region with those of `groups` that are for some of its sizes, and its name.
  static PlannedRegion with_specials(const Region& place, const Group& general,
                                     const std::vector<const Group*>& groups);

  // Products of mostly zeros: zeros.cpp.
  /// From here on runs look at what the base plan's products could skip.
  void watch_zeros(Program& program, ProgramState& state);
  /// Posts candidates where sampled runs of the segment saw enough zeros. Under state.data.
  void consider_zeros(const StatePtr& state, const Program& program, const SignatureEntry& entry);
  /// A candidate like any region. Null: the kernel has no such form, or a region has the nodes.
  /// `density`: as seen; unset: accepted by an earlier process.
  Group* add_zeros(Program& program, ProgramState& state, ZeroSite& site,
                   std::optional<double> density);
  std::shared_ptr<Kernel> zeros_kernel(const Group& group) const;
  /// Of a program that was frozen: its runs go back to what takes one time whatever comes.
  void let_go_of_zeros(Program& program, ProgramState& state);
  /// Those that an earlier process accepted, but in mode freeze.
  void add_recorded_zeros(Program& program, ProgramState& state,
                          const cache::ProfileRecord& record);
  /// The same where the kernels had to wait for packed weights, which are there now.
  void add_zeros_to_come(Program& program, ProgramState& state);
  /// The region of a site.
  static Region zero_region(Program& program, const ZeroSite& site);

  // Watching the results of what is in use: sentinel.cpp.
  /// Counts runs of a region in use; whether it is time to look. Under state.data.
  bool sentinel_due(Group& group, double runs, int64_t now) const;
  void ask_sentinel(Program& program, ProgramState& state, Group& group, SignatureEntry& entry);
  /// `operands`: a run's copies of what the region's step read and wrote; `running`: the group, or
  /// its special kernels one of which the step ran.
  void check_sentinel(Program& program, ProgramState& state, Group& group,
                      const std::vector<Group*>& running, const std::vector<Tensor>& operands);
  /// The code of a region is wrong: no session of the engine gets it any more, and those that have
  /// it are about to let go of it (take_out_condemned()).
  void found_wrong(const Hash128& identity, const std::string& reason);
  /// The same of code that nothing of this program runs yet; bans it, here and for later processes.
  void ban_wrong(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// Condemns what was found wrong in any session. Where it throws, it is called again.
  void take_out_condemned(Program& program, ProgramState& state);
  /// Takes a region out of every plan and bans it for good, here and for later processes.
  void condemn(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// Whether some entry runs a kernel found wrong.
  static bool runs_wrong(Program& program, ProgramState& state);
  /// The same of an entry that came into the table just now, after it was given its plan: it is
  /// bound anew.
  void replace_wrong(Program& program, ProgramState& state, SignatureEntry& entry);

  // Between processes: restore.cpp.
  /// At the first bind, on the calling thread: puts a profile to use, here or as a job.
  void recall(Program& program, SignatureEntry& entry);
  void recall_profile(Program& program, const StatePtr& state, SignatureEntry& entry);
  /// Holds state.work. `first`: the signature to publish at once; null = all of them.
  void restore(Program& program, ProgramState& state, const cache::ProfileRecord& record,
               SignatureEntry* first);
  void add_recorded_specials(Program& program, ProgramState& state,
                             const cache::ProfileRecord& record);
  /// Takes over what is known of the group, one record per class of sizes.
  void revive(Program& program, ProgramState& state, Group& group,
              const std::vector<const cache::RegionRecord*>& known);
  /// The group's kernel from the cache; false when it is not there.
  bool load(Program& program, ProgramState& state, Group& group);
  /// Measures the host with care, once per machine: after the first verdict, as a job that the
  /// budget allows.
  void calibrate(const StatePtr& state);
  /// Keeps the verdicts of a program.
  void remember(Program& program, ProgramState& state);

  tier::Core core_;
  std::atomic<bool> any_compiled_{false};
  std::atomic<bool> calibrating_{false};
  mutable std::mutex gain_mutex_;
  policy::SpecialGain special_gain_;  ///< guarded by gain_mutex_
};

}  // namespace xc
