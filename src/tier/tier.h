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
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/background_thread.h"
#include "cache/profile_record.h"
#include "plan/fusion/region.h"
#include "runtime/program.h"
#include "tier/policy.h"
#include "tier/region_compiler.h"
#include "tier/region_kernel.h"
#include "tier/verification.h"

namespace xc {

class Persistence;  // persistence.h

enum class RegionState : uint8_t {
  kCandidate,  ///< found, collecting regret
  kQueued,
  kVerifying,  ///< compiled, waits for a live run's inputs
  kReady,      ///< verified, waits for its trial
  kTrial,
  kLive,
  kBanned,  ///< wrong, refused or slower; may come back after its back-off when only slower
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
};

class Tier final : public TierHooks {
 public:
  Tier(std::unique_ptr<RegionCompiler> compiler, const Config& config, TierFaults faults = {});
  ~Tier() override;

  void attach(Engine& engine) override { engine_ = &engine; }
  void added(const std::shared_ptr<Program>& program) override;
  void removed(Program& program) override;
  void first_bound(Program& program, SignatureEntry& entry) override;
  void sampled(Program& program, SignatureEntry& entry, double runs) override;
  void summarise(const Program& program, ProfileSummary& summary) const override;
  void freeze(Program& program) override;
  bool wait_idle(Program& program, std::chrono::milliseconds timeout) override;

 private:
  /// All places of one region identity in one program.
  struct Group {
    Hash128 identity;
    std::vector<Region> places;
    std::string name;
    RegionState state = RegionState::kCandidate;
    std::string reason;
    policy::Regret regret;
    std::shared_ptr<Kernel> kernel;
    std::shared_ptr<const Graph> graph;  ///< extracted, for verification
    StepSpec spec;
    RegionCost cost;
    double predicted_s = 0, base_s = 0, fused_s = 0, compile_s = 0;
    int64_t code_bytes = 0;
    int refusals = 0;
    bool wrong = false;     ///< never tried again
    bool removing = false;  ///< the trial is about taking it out
    bool split = false;     ///< banned once: its parts have groups of their own
    int64_t banned_until_ns = 0;
    uint64_t accepted_at_run = 0;
    int64_t asked_ns = 0;                        ///< when a live run's inputs were last asked for
    std::unordered_set<NodeId> nodes;            ///< of all places
    const SignatureEntry* decided_on = nullptr;  ///< whose times base_s and fused_s are
    std::vector<int64_t> decided_key;            ///< its key: other processes know it by that
    cache::Verdict verdict = cache::Verdict::kNone;  ///< what other processes may know of it
    std::string code_key;                            ///< in the persistent cache; empty = not kept
    std::unordered_map<const SignatureEntry*, double> predicted;  ///< seconds, per signature
    // Watching a live region: times since the last look (see sampled()).
    struct Watch {
      const SignatureEntry* entry = nullptr;
      uint64_t bound_serial = 0;
      int64_t seen_ns = 0;
      uint64_t samples = 0;
      double ns = 0;
      double reference_s = 0;  ///< what it replaced takes on this signature
      int alarms = 0;
    } watch;
    // Positions of its steps in the plan looked at last.
    uint64_t seen_plan = UINT64_MAX;
    std::vector<uint32_t> seen_steps;
    /// Mean time of its steps in one run of `version`.
    double seconds_in(const Version& version);
  };
  struct ProgramState {
    std::weak_ptr<Program> program;
    std::mutex work;    ///< held while the program's plans are worked on
    bool gone = false;  ///< its owner is letting go: no new jobs; guarded by Tier::mutex_
    int waiting = 0;    ///< host threads in wait_idle(): its jobs need no budget; Tier::mutex_
    std::mutex data;    ///< guards what follows
    bool analysed = false, analysing = false, frozen = false;
    std::vector<std::unique_ptr<Group>> groups;
    uint64_t samples = 0;  ///< before regions were searched
    Group* trial = nullptr;
    std::shared_ptr<const Plan> trial_plan;
    std::vector<std::weak_ptr<SignatureEntry>> on_trial;
    uint64_t trial_samples = 0;
    bool judge_posted = false;
    int64_t added_ns = 0;
    double spent_s = 0;
    int64_t compiled = 0, swapped = 0, rolled_back = 0, rejected = 0;
    double saved_s = 0;  ///< of regions no longer live
    std::vector<Event> events;
    std::atomic<uint64_t> toggles{0};   ///< force_swap
    std::atomic<bool> recalled{false};  ///< the persistent cache was asked about it
    double restore_s = 0;  ///< CPU that the search and lowering took: what a restart has to do
  };
  using StatePtr = std::shared_ptr<ProgramState>;

  /// A signature unused for so long gets no more attention.
  static constexpr int64_t kPatienceNs = 250'000'000;

  StatePtr state_of(const Program& program) const;
  void post(const StatePtr& state, std::function<void(Program&, ProgramState&)> job);
  void thread_main();
  void prepare_in_background(const Program& program, const StatePtr& state);
  bool may_start(const ProgramState& state);
  void emit(ProgramState& state, const Program& program, Event event);

  // Parts of sampled(), under state.data (but swap_by_force()).
  void swap_by_force(Program& program, ProgramState& state, SignatureEntry& entry);
  void follow(Program& program, const StatePtr& state, SignatureEntry& entry,
              const Published& published);
  static double predicted_s(const Program& program, Group& group, const SignatureEntry& entry);
  void watch(const StatePtr& state, Group& group, const SignatureEntry& entry,
             const Version& version, int64_t now);

  // Jobs. All hold state.work.
  static FusionOptions fusion_options(Program& program);
  void analyse(Program& program, ProgramState& state);
  void split_up(Program& program, ProgramState& state, const Group& group);
  void add_groups(Program& program, ProgramState& state, std::vector<Region> regions);
  bool compile(Program& program, ProgramState& state, Group& group);
  void ask_for_inputs(Program& program, ProgramState& state, Group& group, SignatureEntry& entry);
  void verify_inputs(Program& program, ProgramState& state, Group& group,
                     const std::vector<Tensor>& inputs, const Symbols& symbols);
  void start_trial(Program& program, ProgramState& state);
  /// False when the trial is over, full, or changes nothing for this signature.
  bool join_trial(Program& program, ProgramState& state,
                  const std::shared_ptr<SignatureEntry>& entry);
  static void leave_trial(Program& program, SignatureEntry& entry, bool accepted);
  void end_trial(Program& program, ProgramState& state, bool accepted);
  void judge(Program& program, ProgramState& state);
  static void publish_everywhere(Program& program, const std::shared_ptr<const Plan>& plan);
  /// Moves a signature to the preferred plan and to kernels that were not bound in a hurry.
  static void bind_anew(Program& program, SignatureEntry& entry);
  void prepare_weights(Program& program, ProgramState& state);
  std::shared_ptr<const Plan> build(Program& program, ProgramState& state, const Group* with,
                                    const Group* without);
  void ban(ProgramState& state, Program& program, Group& group, EventKind kind, std::string reason,
           bool forever);

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
  /// True when the group is live.
  bool revive(Program& program, ProgramState& state, Group& group,
              const cache::RegionRecord& known);
  /// The group's kernel from the cache; false when it is not there.
  bool load(Program& program, ProgramState& state, Group& group, const RegionCode& code);
  /// Keeps the verdicts of a program.
  void remember(Program& program, ProgramState& state);

  Engine* engine_ = nullptr;
  std::unique_ptr<RegionCompiler> compiler_;
  TierFaults faults_;
  policy::Prices prices_;
  policy::Budget budget_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, idle_;
  std::unordered_map<const Program*, StatePtr> states_;
  struct Job {
    StatePtr state;
    std::function<void(Program&, ProgramState&)> run;
  };
  std::deque<Job> jobs_;
  StatePtr busy_;
  bool stopping_ = false;
  bool any_compiled_ = false;
  std::map<std::string, std::unique_ptr<Persistence>> persistence_;  ///< by directory
  BackgroundThread thread_;
  /// Compiled kernels by region identity, shared by the engine's programs.
  std::map<Hash128, std::weak_ptr<Kernel>> kernels_;
};

}  // namespace xc
