#pragma once
// What the tier knows of one program: its regions and how far each has come, the plans made of
// them, the trial that runs. Plain data; what follows from it is in plan_choice.h, what happens to
// it in the parts of tier.h.
//
// Locks, in the order in which they are taken:
// 1. ProgramState::work: whoever changes plans holds it, through Work (work.h), for as long as a
//    compile takes. Runs wait for it in modes sync and freeze alone, at the first bind of a
//    signature, and where they were given a kernel found wrong.
// 2. ProgramState::data: held for moments, never while a plan is built or bound or an event told.
//    Runs only try it where what they would tell may be left out.
// 3. Leaves, whose holders ask for no other of these: those of JobQueue, SharedCode,
//    PersistentCaches and Specials.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cache/profile_record.h"
#include "plan/fusion/region.h"
#include "plan/fusion/specialise.h"
#include "profile/ledger.h"
#include "profile/size_histogram.h"
#include "runtime/program.h"
#include "tier/policy.h"
#include "tier/region_policy.h"
#include "tier/sized_cost.h"

namespace xc {

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

namespace tier {

/// A signature unused for so long gets no more attention.
constexpr int64_t kPatienceNs = 250'000'000;

/// What waiting for a region's code loses, for the queue. Written under ProgramState::data, read
/// without.
struct Urgency {
  std::atomic<double> loss_per_s{0};
  std::atomic<int64_t> at_ns{0};
  double queued_per_s = 0;  ///< when its compile was posted
  double per_s(int64_t now_ns, double half_life_s) const;
};

/// What a product that skips zeros is predicted by.
struct ZeroSkipping {
  std::shared_ptr<Kernel> kernel;  ///< over the region's operands
  double density = 1;              ///< share of its first operand that is not zero, lately
  Dim elements, columns;           ///< of that operand; of the result
  Dim moved_bytes, right_bytes;    ///< of that operand and the result; of the other operand
  Dim depth;                       ///< of the product
  double seconds(const Dim::Lookup& sizes) const;
  double terms(const Dim::Lookup& sizes) const;  ///< of the whole product
};

/// All places of one region identity in one segment of a program. Under ProgramState::data, but
/// what `work` alone guards.
struct Group {
  // ---- what it is
  Hash128 identity;
  uint32_t segment = 0;  ///< of the base plan: whose entries decide about it
  std::string name;
  std::vector<Region> places;
  std::unordered_set<NodeId> nodes;  ///< of all places
  RegionCost cost;
  SizedCost cost_at;               ///< the same, for sizes
  std::vector<uint32_t> symbols;   ///< of Plan::symbols, that are dims of its operands
  Dim row;                         ///< elements of its innermost loop
  const Group* part_of = nullptr;  ///< the larger region it stands in for where that is not used
  /// A kernel of `special_of` for some sizes, made of the first of its places; null = for any.
  Group* special_of = nullptr;
  std::shared_ptr<const SpecialRegion> special;
  std::vector<SizeFact> facts;  ///< of a special kernel, about the program's symbols
  /// Not compiled: the base plan's step with a kernel that skips the zeros of its first operand.
  std::optional<ZeroSkipping> zeros;
  /// What its kernel is lowered from: the first of its places, or that for special sizes.
  const Region& made_of() const { return special ? special->region : places.front(); }
  const Graph& graph_of(const Program& program) const {
    return special ? special->graph : program.graph();
  }
  StepSpec spec_in(Program& program) const {
    return special ? special->spec : program.planner().region_spec(places.front());
  }

  // ---- how far it has come
  RegionState state = RegionState::kCandidate;
  std::string reason;      ///< of the state, for people
  bool wrong = false;      ///< never tried again
  bool mismatch = false;   ///< found wrong, which other processes are told
  bool leaving = false;    ///< found wrong, and maybe not out of all that runs yet
  bool split = false;      ///< refused once: its parts have groups of their own; `work`
  double predicted_s = 0;  ///< at the sizes seen last
  policy::RegionPolicy policy;
  policy::Rate loss, saved;  ///< seconds: without its code, by its code
  Ledger ledger;
  std::vector<int64_t> decided_on;  ///< key of the signature whose times the last verdict is of

  struct Code {
    std::shared_ptr<Kernel> kernel;  ///< null = there is none, or none yet
    int64_t bytes = 0;
    double compile_s = 0;
    double worst_error = 0;  ///< of verification, in units of what is allowed
    // Guarded by `work`.
    StepSpec spec;
    std::shared_ptr<const RegionGraph> extracted;  ///< for verification
    std::string key;                               ///< in the persistent cache; empty = not kept
    bool shared = false;                           ///< made for another session
    bool uncompared = false;  ///< no made-up sizes gave an element: a live run has to show it
  } code;

  // ---- its compile
  struct Queued {
    Urgency urgency;
    std::weak_ptr<SignatureEntry> by;  ///< whose runs asked for it
    int room_tries = 0;                ///< since then
    int put_off = 0;                   ///< compiles in a row that came to nothing just then
    double again_s = 0;                ///< when another is worth asking for
  } queued;
  int64_t inputs_asked_ns = 0;  ///< when a live run's were last asked for
  bool inputs_posted = false;   ///< a job that asks for them

  // ---- while it is in use
  /// How long it takes on one signature (see observer.cpp).
  struct Watch {
    const SignatureEntry* entry = nullptr;
    const BoundTimes* times = nullptr;
    int64_t seen_ns = 0;
    uint64_t samples = 0;  ///< of `times`, taken over into `window`
    double seconds = 0;    ///< of those
    policy::Watch window{};
  } watch;
  struct Sentinel {
    double runs = 0;  ///< in use since it last looked
    double due = policy::kSentinelRuns;
    int64_t asked_ns = 0;
    bool posted = false;  ///< a job that asks for a run's operands
  } sentinel;
  struct Specialising {
    double runs = 0;      ///< in use since its sizes were looked at
    bool posted = false;  ///< a job that adds a special kernel
  } specialising;

  // ---- its steps
  const std::vector<uint32_t>& steps_of(const Version& version);
  /// Mean time of its steps in one run of `version`.
  double seconds_in(const Version& version);
  /// Flops per second that the fastest of its steps that are matrix products reaches there; 0
  /// without any.
  double product_rate_in(const Version& version);
  /// In plans looked at, by their serials.
  std::map<uint64_t, std::vector<uint32_t>> steps_in;
};

/// What a region would do in a run of certain sizes.
struct GroupFact {
  int size = 0;         ///< policy::size_class; of no meaning where a run has yet to find out sizes
  bool applies = true;  ///< of a special kernel: unless the sizes are known to be others
};

/// Facts of the groups, in order, for one signature; what SignatureEntry::tier_facts points at.
struct GroupFacts : std::vector<GroupFact> {
  std::weak_ptr<const Plan> over_limit;  ///< what was to run there and needs more than is allowed
  const Group* untried = nullptr;        ///< whose trial does
};

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
  int reach = 0;          ///< classes next to it that take part
  bool confirm = false;   ///< about taking it out
  bool specials = false;  ///< and with it its kernels for special sizes
  /// Whether runs of an entry take part.
  bool covers(const SignatureEntry& entry, const GroupFact& fact) const {
    return group && entry.segment == group->segment && fact.applies &&
           std::abs(fact.size - size) <= reach;
  }
  std::vector<std::weak_ptr<SignatureEntry>> entries;
  uint64_t samples = 0;
  int64_t began_ns = 0;
  int64_t seen_ns = 0;                  ///< its last sample
  int64_t patience_ns = kPatienceNs;    ///< how long it waits for another
  int failures = 0;                     ///< runs without a sample
  int ended = 0;                        ///< runs that the host ended
  static constexpr int kEnded = 8;      ///< of those, between two looks whether one side has others
  static constexpr size_t kOthers = 3;  ///< of the side without what is in use, for that to go
  bool judge_posted = false;
};

/// A step of the base plan whose kernel may skip zeros of its first operand, `value`.
struct ZeroSite {
  uint32_t step;
  uint32_t segment;
  ValueId value;
  bool made = false;  ///< a group for it, or never
  Group* group = nullptr;
};

/// What the queue keeps of a program. Guarded by its lock.
struct InQueue {
  bool gone = false;       ///< its owner is letting go: no new jobs
  bool postponed = false;  ///< told that its jobs wait for the budget
  int waiting = 0;         ///< host threads in wait_idle(): its jobs need no budget
  // What the thread looks at again and again until it is done, and that asks for no memory to be
  // remembered.
  bool left_behind = false;  ///< what a run may still see (JobQueue::reclaim())
  bool condemning = false;   ///< kernels of it may be among those that SharedCode condemned
  uint64_t looked = 0;       ///< JobQueue::looks_ when it was looked at last
};

struct ProgramState {
  std::weak_ptr<Program> program;
  std::mutex work;  ///< held while the program's plans are worked on; taken through Work
  std::atomic<std::thread::id> worker{};  ///< the thread that holds it
  /// Threads that wait for it to freeze the program: before them the background thread does not
  /// take it, and what takes long ends.
  std::atomic<int> freezing{0};
  std::vector<Event> told;            ///< by that thread meanwhile
  std::vector<std::string> failures;  ///< to be logged, likewise
  InQueue in_queue;
  int64_t added_ns = 0;
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
  bool trial_posted = false;    ///< a job that starts one, and waits for the budget
  bool confirm_posted = false;  ///< one that starts one about what became slow
  bool end_posted = false;      ///< one that gives the trial up
  double spent_s = 0;
  int64_t compiled = 0, swapped = 0, rolled_back = 0, rejected = 0;
  EventLog events;
  FusionReport considered;            ///< by the search, for explain
  std::atomic<uint64_t> toggles{0};   ///< force_swap
  std::atomic<bool> recalled{false};  ///< the persistent cache was asked about it
  double restore_s = 0;               ///< CPU that the search took: what a restart has to do
};
using StatePtr = std::shared_ptr<ProgramState>;

/// Of a program that has one, also when it was removed.
inline StatePtr shared_state(const Program& program) {
  return std::static_pointer_cast<ProgramState>(program.tier_state);
}

}  // namespace tier
}  // namespace xc
