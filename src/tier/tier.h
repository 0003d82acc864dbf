#pragma once
// The adaptive tier: from sampled times to published plans. State machine of a region: README.md.
//
// Threads. Hooks run on host threads and only add to counters or post a job. One background thread
// per engine, started at the first job, does the rest: search, lowering, compiling, verification,
// judging trials, publishing. In mode sync first_bound() does that work on the calling thread.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/background_thread.h"
#include "cache/profile_record.h"
#include "plan/fusion/region.h"
#include "plan/fusion/specialise.h"
#include "profile/ledger.h"
#include "profile/size_histogram.h"
#include "runtime/program.h"
#include "tier/policy.h"
#include "tier/region_compiler.h"
#include "tier/region_kernel.h"
#include "tier/region_policy.h"
#include "tier/special_policy.h"
#include "tier/verification.h"

namespace xc {

class Persistence;  // persistence.h

enum class RegionState : uint8_t {
  kCandidate,  ///< found, collecting regret
  kQueued,
  kVerifying,  ///< compiled, waits for a live run's inputs
  kReady,      ///< verified, waits for its trial
  kTrial,
  kLive,    ///< in use at some sizes at least
  kBanned,  ///< wrong, refused, or slower wherever it was tried; may come back when only slower
};
std::string_view name(RegionState state);

/// Test seams: faults planted by tests, empty in production.
struct TierFaults {
  /// May replace a compiled kernel (a wrong one, a slower one) or throw.
  std::function<std::shared_ptr<Kernel>(const Region&, std::shared_ptr<Kernel>)> wrap;
  /// The budget never allows a job of its own accord.
  bool starved = false;
  /// Compiled kernels go live as they are: the test compares results itself.
  bool unverified = false;
  /// Kernels are verified between inaccessible pages: what touches them dies there.
  bool guard_pages = false;
  /// Times decide nothing: regions found are compiled at once and predicted to take half the time
  /// at most, trials end with the kernel accepted, the sentinel looks every 64 runs or so.
  bool eager = false;
  /// Kernels for special sizes are tried after one run, whatever they are expected to save; in mode
  /// sync every signature gets its own.
  bool specials = false;
  /// The system refuses the background thread.
  bool no_thread = false;
  /// In place of policy::Rate::kHalfLifeS.
  double half_life_s = 0;
  /// In place of kCompileLimitS when not 0.
  double compile_limit_s = 0;
};

class Tier final : public TierHooks {
 public:
  Tier(std::unique_ptr<RegionCompiler> compiler, const Config& config, TierFaults faults = {});
  ~Tier() override;

  void attach(Engine& engine) override { engine_ = &engine; }
  void added(const std::shared_ptr<Program>& program) override;
  void removed(Program& program) override;
  void first_bound(Program& program, SignatureEntry& entry) override;
  Seat seat_for(Program& program, SignatureEntry& entry) override;
  void seated(Program& program, SignatureEntry& entry, int64_t trial) override;
  void sampled(Program& program, SignatureEntry& entry, double runs, bool compiles) override;
  bool judges() const override { return !thread_.lost(); }
  void failed(Program& program) noexcept override;
  void record(Program& program, Event event) override;
  void summarise(const Program& program, ProfileSummary& summary, bool details) const override;
  void freeze(Program& program) override;
  bool wait_idle(Program& program, std::chrono::milliseconds timeout) override;
  void warm_up(Program& program, bool on) override;
  bool settled(Program& program, SignatureEntry& entry) override;

  /// Signatures published at once after a verdict; the others follow when they run.
  static constexpr size_t kMaxRebound = 512;

 private:
  /// What a product that skips zeros is predicted by.
  struct ZeroSkipping {
    std::shared_ptr<Kernel> kernel;  ///< over the region's operands
    double density = 1;              ///< share of its first operand that is not zero, as seen
    Dim elements, columns;           ///< of that operand; of the result
    Dim moved_bytes, right_bytes;    ///< of that operand and the result; of the other operand
    Dim depth;                       ///< of the product
    double seconds(const Dim::Lookup& sizes) const;
    double terms(const Dim::Lookup& sizes) const;  ///< of the whole product
  };
  /// All places of one region identity in one segment of a program.
  struct Group {
    Hash128 identity;
    uint32_t segment = 0;  ///< of the base plan: whose entries decide about it
    std::vector<Region> places;
    std::string name;
    RegionState state = RegionState::kCandidate;
    std::string reason;
    policy::RegionPolicy policy;
    Ledger ledger;
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<const RegionGraph> extracted;  ///< for verification
    StepSpec spec;
    RegionCost cost;
    double predicted_s = 0, compile_s = 0;  ///< predicted: at the sizes seen last
    int64_t code_bytes = 0;
    double worst_error = 0;  ///< of verification, in units of what is allowed
    bool wrong = false;      ///< never tried again
    bool split = false;      ///< refused once: its parts have groups of their own
    /// What its kernel is lowered from: the first of its places, or that for special sizes.
    const Region& made_of() const { return special ? special->region : places.front(); }
    const Graph& graph_of(const Program& program) const {
      return special ? special->graph : program.graph();
    }
    StepSpec spec_in(Program& program) const {
      return special ? special->spec : program.planner().region_spec(places.front());
    }
    const Group* part_of = nullptr;  ///< the larger region it stands in for where that is not used
    /// A kernel of `special_of` for some sizes, made of the first of its places; null = for any.
    Group* special_of = nullptr;
    std::shared_ptr<const SpecialRegion> special;
    std::vector<SizeFact> facts;  ///< of a special kernel, about the program's symbols
    /// Not compiled: the base plan's step with a kernel that skips the zeros of its first operand.
    std::optional<ZeroSkipping> zeros;
    std::vector<uint32_t> symbols;     ///< of Plan::symbols, that are dims of its operands
    Dim row;                           ///< elements of its innermost loop
    double used_runs = 0;              ///< in use, since its sizes were looked at
    bool specialising = false;         ///< a job that adds a special kernel is posted
    int64_t asked_ns = 0;              ///< when a live run's inputs were last asked for
    std::unordered_set<NodeId> nodes;  ///< of all places
    std::vector<int64_t> decided_key;  ///< key of the signature of the last verdict
    bool mismatch = false;             ///< found wrong, which other processes are told
    bool leaving = false;              ///< found wrong, and maybe not out of all that runs yet
    bool uncompared = false;  ///< no made-up sizes gave an element: a live run has to show it
    bool shared = false;      ///< its code was made for another session
    std::string code_key;     ///< in the persistent cache; empty = not kept
    // Watching a live region: times since the last look (see watch()).
    struct Watch {
      const SignatureEntry* entry = nullptr;
      const BoundTimes* times = nullptr;
      int64_t seen_ns = 0;
      uint64_t samples = 0;
      double ns = 0;
      double reference_s = 0;  ///< what it replaced takes on this signature
      int alarms = 0;
    } watch;
    /// What waiting for its code loses, for the queue: read without state.data.
    struct Urgency {
      std::atomic<double> loss_per_s{0};
      std::atomic<int64_t> at_ns{0};
      double queued_per_s = 0;  ///< when its compile was posted
      double per_s(int64_t now_ns, double half_life_s) const;
    } urgency;
    policy::Rate loss, saved;                ///< seconds: without its code, by its code
    int room_tries = 0;                      ///< since it was queued
    std::weak_ptr<SignatureEntry> asked_by;  ///< whose runs queued it
    struct Sentinel {
      double runs = 0;  ///< in use since it last looked
      double due = policy::kSentinelRuns;
      int64_t asked_ns = 0;
    } sentinel;
    std::weak_ptr<SignatureEntry> decided_on;  ///< whose times the last verdict's are
    /// Its steps in plans looked at, by their serials.
    std::map<uint64_t, std::vector<uint32_t>> steps_in;
    const std::vector<uint32_t>& steps_of(const Version& version);
    /// Mean time of its steps in one run of `version`.
    double seconds_in(const Version& version);
    /// Flops per second that the fastest of its steps that are matrix products reaches there; 0
    /// without any.
    double product_rate_in(const Version& version);
  };
  /// What a region would do in a run of certain sizes.
  struct Fact {
    double predicted_s = 0;  ///< fused, all places
    int size = 0;  ///< policy::size_class; of no meaning where a run has yet to find out sizes
    bool applies = true;  ///< of a special kernel: unless the sizes are known to be others
  };
  /// Fact::predicted_s, where products are as fast as those that run instead: the host was measured
  /// in a moment, maybe while another core was at work on what they share.
  static double predicted_in(Group& group, const Fact& fact, const Version& version);
  /// Facts of the groups, in order, for one signature; what SignatureEntry::tier_facts points at.
  using Facts = std::vector<Fact>;
  /// A plan and the groups that are fused in it, in the order in which they claimed nodes. Known as
  /// long as something runs it: a kernel in it may be found wrong.
  struct Variant {
    std::vector<const Group*> groups;
    uint64_t serial = 0;                ///< Plan::serial
    std::shared_ptr<const Plan> plan;   ///< null: entries alone keep it
    std::weak_ptr<const Plan> running;  ///< the same plan
    uint64_t used = 0;                  ///< ProgramState::plans_given when it was asked for last
    bool outdated = false;              ///< has code that was let go: no run is given it any more
    bool wrong = false;                 ///< has a kernel found wrong in use
  };
  /// Two plans compared on live runs of one class of sizes.
  struct Trial {
    Group* group = nullptr;  ///< null = none
    int size = 0;
    int reach = 0;         ///< classes next to it that take part
    bool confirm = false;  ///< about taking it out
    /// Whether runs of an entry take part.
    bool covers(const SignatureEntry& entry, const Fact& fact) const {
      return group && entry.segment == group->segment && fact.applies &&
             std::abs(fact.size - size) <= reach;
    }
    std::vector<std::weak_ptr<SignatureEntry>> entries;
    uint64_t samples = 0;
    int64_t began_ns = 0;
    int64_t seen_ns = 0;  ///< its last sample
    int failures = 0;     ///< runs without a sample
    bool judge_posted = false;
  };
  /// A step of the base plan whose kernel may skip zeros of its first operand, `value`.
  struct ZeroSite {
    uint32_t step;
    uint32_t segment;
    ValueId value;
    bool made = false;  ///< a group for it, or never
  };
  struct ProgramState {
    std::weak_ptr<Program> program;
    std::mutex work;  ///< held while the program's plans are worked on; taken through Work
    std::atomic<std::thread::id> worker{};  ///< the thread that holds it
    std::vector<Event> told;                ///< by that thread meanwhile
    bool gone = false;       ///< its owner is letting go: no new jobs; guarded by Tier::mutex_
    bool postponed = false;  ///< told that its jobs wait for the budget; Tier::mutex_
    int waiting = 0;         ///< host threads in wait_idle(): its jobs need no budget; Tier::mutex_
    // What the thread looks at again and again until it is done, and that asks for no memory to be
    // remembered. Guarded by Tier::mutex_.
    bool left_behind = false;            ///< what a run may still see (reclaim())
    bool condemning = false;             ///< kernels of it may be among Tier::condemned_
    uint64_t looked = 0;                 ///< Tier::looks_ when it was looked at last
    std::atomic<bool> any_wrong{false};  ///< some Variant::wrong is set, or was
    std::mutex data;                     ///< guards what follows
    bool analysed = false, analysing = false, frozen = false;
    int warming = 0;  ///< hosts in Session::warm_up(): what gains anything is compiled
    std::vector<std::unique_ptr<Group>> groups;
    uint64_t samples = 0;              ///< before regions were searched
    std::vector<SizeHistogram> sizes;  ///< per symbol of the base plan
    std::vector<ZeroSite> zero_sites;
    uint64_t zero_looks = 0;  ///< samples, since what is known of them was asked
    /// Accepted by an earlier process, of sites whose weights are not packed yet: which, and what
    /// is known of each. Guarded by `work`.
    std::vector<std::pair<uint32_t, std::vector<cache::RegionRecord>>> zeros_to_come;
    std::vector<Variant> variants;  ///< at most kMaxVariants with a plan, those used last
    uint64_t plans_given = 0;
    Trial trial;
    bool trial_posted = false;
    int64_t added_ns = 0;
    double spent_s = 0;
    int64_t compiled = 0, swapped = 0, rolled_back = 0, rejected = 0;
    EventLog events;
    FusionReport considered;            ///< by the search, for explain
    std::atomic<uint64_t> toggles{0};   ///< force_swap
    std::atomic<bool> recalled{false};  ///< the persistent cache was asked about it
    double restore_s = 0;               ///< CPU that the search took: what a restart has to do
  };
  using StatePtr = std::shared_ptr<ProgramState>;

  /// A signature unused for so long gets no more attention.
  static constexpr int64_t kPatienceNs = 250'000'000;
  static constexpr size_t kMaxVariants = 64;
  /// CPU seconds after which a region's compile is given up, between its phases.
  static constexpr double kCompileLimitS = 2;

  /// Null in a child made by fork() after the thread was started: there the tier does nothing more,
  /// and asks for no lock, for the thread that is not there may hold it. Plans stay what they are.
  StatePtr state_of(const Program& program) const;
  /// Whose CPU the budget limits: what adaptation costs, not what mode off does as well.
  enum class Charge : uint8_t {
    kBudget,
    kSoon,  ///< counted, never kept waiting: what ends a trial, in which the slower side runs
    kNone
  };
  /// `compiles`: the region that the job compiles, if any.
  void post(const StatePtr& state, std::function<void(Program&, ProgramState&)> job,
            Group* compiles = nullptr, Charge charge = Charge::kBudget);
  /// False when the system refuses it. Under mutex_.
  bool start_thread();
  void thread_main();
  struct Job {
    StatePtr state;
    std::function<void(Program&, ProgramState&)> run;
    Group* compiles = nullptr;
    Charge charge = Charge::kBudget;
  };
  std::deque<Job>::iterator next_job();
  /// Puts a queued region back to where it was when its runs come no more.
  bool dropped(Program& program, ProgramState& state, Group& group);
  policy::Prices prices() const;
  double half_life_s() const {
    return faults_.half_life_s > 0 ? faults_.half_life_s : policy::Rate::kHalfLifeS;
  }
  void prepare_in_background(const Program& program, const StatePtr& state);
  bool may_start(const Job& job, double cpu_s);
  /// Posts the end of a trial that gets no samples; it is asked for again later, after a while if
  /// its runs `failed`. Under state.data.
  void give_up_trial(const StatePtr& state, bool failed);
  void emit(ProgramState& state, const Program& program, Event event);
  static double ms_since(int64_t begin_ns);
  /// "MatMul+Add+Relu": the first few, views apart.
  static std::string op_names(const Graph& graph, std::span<const NodeId> nodes);
  /// An event about a region, with what is known of it. Under state.data.
  static Event event_of(EventKind kind, const Group& group);
  /// The same, taking the lock.
  static Event event_now(ProgramState& state, EventKind kind, const Group& group);
  void tell_postponed(std::unique_lock<std::mutex>& lock);

  // Parts of sampled(), under state.data (but swap_by_force()).
  void swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry);
  void follow(const StatePtr& state, SignatureEntry& entry, const Facts& facts,
              const Published& published);
  static void watch(Group& group, int size, SignatureEntry& entry, const Version& version,
                    int64_t now);
  static Fact fact_of(const Group& group, const Plan& plan, std::span<const int64_t> symbols);
  /// Facts of all groups. Under state.data.
  static Facts facts_of(const ProgramState& state, const Plan& plan,
                        std::span<const int64_t> symbols);
  static const Facts& known_facts(const ProgramState& state, SignatureEntry& entry);
  /// The groups that runs of these sizes use fused, larger regions first; `with` in any case,
  /// `without` in no case. Those of earlier segments are as the entry found them, those of later
  /// ones are left to what comes after it. Under state.data.
  static std::vector<const Group*> chosen(const ProgramState& state, const SignatureEntry& entry,
                                          const Facts& facts, const Group* with = nullptr,
                                          const Group* without = nullptr);
  /// The plan of these groups when it was built before, else null. Under state.data.
  static std::shared_ptr<const Plan> find_plan(ProgramState& state,
                                               const std::vector<const Group*>& groups);
  /// From now on find_plan() knows it. Under state.data.
  static void keep_plan(ProgramState& state, const std::vector<const Group*>& groups,
                        const std::shared_ptr<const Plan>& plan);
  /// The groups of a plan built before; none for the base plan. Under state.data.
  static const std::vector<const Group*>& groups_in(const ProgramState& state, const Plan& plan);
  /// Whether runs under the plan use the group's kernel. Under state.data.
  static bool uses(const ProgramState& state, const Plan& plan, const Group& group);
  /// Whether a group, or a kernel for some of its sizes in its stead, is among those.
  static bool covered_by(const std::vector<const Group*>& groups, const Group& group);
  /// Live, ready or banned, from what was decided at the sizes tried.
  static void settle_state(Group& group);

  /// Holds state.work. Events of the time reach the host when it is let go of: a listener may call
  /// the session.
  class Work {
   public:
    /// `wait`: false takes the lock only where it is free.
    Work(ProgramState& state, const Program& program, bool wait = true);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    explicit operator bool() const { return lock_.owns_lock(); }

   private:
    ProgramState& state_;
    const Program& program_;
    std::unique_lock<std::mutex> lock_;
  };

  // Jobs. All hold state.work.
  /// Costs at the sizes of the signature used last.
  static FusionOptions fusion_options(Program& program);
  void analyse(Program& program, ProgramState& state);
  /// All of them or none; the events to tell of them.
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
  /// A candidate again, whose compile or verification came to nothing: regret is counted anew.
  static void put_back(ProgramState& state, Group& group) noexcept;
  /// The same, told with the reason.
  void not_now(Program& program, ProgramState& state, Group& group, const std::string& reason);
  /// What verification said no to: banned, or put back where it only failed for now.
  void unverified(Program& program, ProgramState& state, Group& group, const Outcome& outcome,
                  const std::string& where);
  static bool is_out_of_memory(const std::exception& error);
  /// Whether what failed so may go through another time: when there is memory, or at other sizes.
  static bool may_pass_later(const std::exception& error);
  std::vector<std::shared_ptr<const PhaseCode>> make_code(Program& program, ProgramState& state,
                                                          Group& group, const RegionCode& code);
  /// The code cache: code_cache.cpp.
  enum class Room : uint8_t {
    kNone,    ///< nothing saves so little that it should go
    kMade,    ///< there is some now
    kComing,  ///< other programs are asked to let go
  };
  /// Lets go of the code that saves least per byte, if that is clearly less than `group` would.
  Room make_room(Program& program, ProgramState& state, Group& group);
  /// Whether nothing but plans needs its code. Under the data lock of its program.
  static bool evictable(const Group& group);
  /// Plans with the group are given to no run any more. `wrong`: nor are they to be run.
  static void drop_variants(ProgramState& state, const Group& group, bool wrong);
  void share(const Hash128& identity, const std::shared_ptr<Kernel>& kernel);
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
  /// Whether what is published is on the trial that runs. Under state.data.
  static bool is_tried(const ProgramState& state, const Published& published) {
    return state.trial.group && published.trial == state.trial.began_ns;
  }
  static const Fact& fact_at(const ProgramState& state, const Facts& facts, const Group& group);
  static bool applies(const ProgramState& state, const Facts& facts, const Group& group) {
    return fact_at(state, facts, group).applies;
  }
  static double predicted_s(ProgramState& state, SignatureEntry& entry, const Group& group);
  void judge(Program& program, ProgramState& state);
  /// At most `most` signatures, those used last; the others follow when they run.
  void publish_everywhere(Program& program, ProgramState& state, size_t most = kMaxRebound);
  /// Moves a signature to the plan of its sizes and to kernels that were not bound in a hurry. In a
  /// frozen session plans stay, but for kernels found wrong.
  void bind_anew(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same on a run's path: fused kernels may want more memory than its sizes are to have, and
  /// it keeps the steps then.
  void bind_within_limits(Program& program, ProgramState& state, SignatureEntry& entry);
  /// The same of many: one that cannot be bound, for a limit say, keeps what it runs. Where that is
  /// wrong, it goes back to the base plan; where that is over a limit too, out of the table.
  void bind_anew_if_possible(Program& program, ProgramState& state, SignatureEntry& entry);
  void prepare_weights(Program& program, ProgramState& state);
  /// Lets go of what no run can see any longer, at once or as soon as the last of those has ended.
  void reclaim(Program& program);
  template <class F>
  void busy_with(std::unique_lock<std::mutex>& lock, const StatePtr& state, F&& work);
  void log_failure(const char* what) noexcept;
  void look_at_left_behind(std::unique_lock<std::mutex>& lock);
  /// The plan with these groups fused, those first that come first where groups overlap.
  std::shared_ptr<const Plan> plan_with(Program& program, ProgramState& state,
                                        const std::vector<const Group*>& groups);
  /// Never again: wrong, or not to be had.
  void ban(ProgramState& state, Program& program, Group& group, EventKind kind, std::string reason);
  /// The rows and cells of a region with products that is not used at some size.
  void offer_parts(Program& program, ProgramState& state, Group& group);

  // Kernels for some sizes only: specials.cpp.
  /// Whether special kernels can be built on this region: its general one exists and is right.
  static bool stands(const Group* general) {
    return general && general->kernel && !general->wrong &&
           general->state != RegionState::kVerifying;
  }
  /// Whether a kernel of the region for these sizes runs under the plan. Under state.data.
  static bool uses_special(const ProgramState& state, const Plan& plan, const Facts& facts,
                           const Group& general);
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
  /// Those that an earlier process accepted.
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
  /// Whether either side has a kernel found wrong in use. Under state.data.
  static bool is_wrong(const ProgramState& state, const Published& published);
  /// Whether some entry runs one.
  static bool runs_wrong(Program& program, ProgramState& state);
  /// The same of an entry that came into the table just now, after it was given its plan: it is
  /// bound anew.
  void replace_wrong(Program& program, ProgramState& state, SignatureEntry& entry);

  // Between processes: restore.cpp.
  /// Null without a cache directory.
  Persistence* persistence(const Program& program);
  void report_problems(Program& program, ProgramState& state);
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

  Engine* engine_ = nullptr;
  std::unique_ptr<RegionCompiler> compiler_;
  TierFaults faults_;
  policy::Budget budget_;

  std::atomic<bool> any_compiled_{false};
  mutable std::mutex mutex_;  // guards what follows
  policy::Prices prices_;
  policy::SpecialGain special_gain_;
  /// Apart, for destroying one on which a thread waited when fork() was called never ends.
  struct Signals {
    std::condition_variable wake, idle;
  };
  std::unique_ptr<Signals> signals_ = std::make_unique<Signals>();
  std::condition_variable &wake_ = signals_->wake, &idle_ = signals_->idle;
  std::unordered_map<const Program*, StatePtr> states_;
  std::deque<Job> jobs_;
  StatePtr busy_;
  // Some program has ProgramState::left_behind or condemning set; `hurry_`: it was not looked at.
  bool left_behind_ = false, hurry_ = false;
  uint64_t looks_ = 0;
  int64_t looked_ns_ = 0;
  StatePtr next_left_behind() const;
  bool stopping_ = false;
  std::atomic<bool> calibrating_{false};
  std::map<std::string, std::unique_ptr<Persistence>> persistence_;  ///< by directory
  BackgroundThread thread_;
  std::atomic<bool> no_thread_{false}, no_thread_told_{false};  ///< the system refused it
  /// Compiled kernels by region identity, shared by the engine's programs.
  std::map<Hash128, std::weak_ptr<Kernel>> kernels_;
  std::map<Hash128, std::string> condemned_;  ///< regions whose kernels were found wrong: how
};

}  // namespace xc
