#pragma once
// A Program: one graph (the model's, or the body of an If, Loop or Scan) as a session runs it: its
// base plan, the Bounds of its input signatures, its run contexts, and what a tier publishes.
//
// One thing is swapped: SignatureEntry::current, an atomic pointer to an immutable Published. A run
// loads it once and executes what it found to the end.
//
// Sizes that a run finds out on its way cut the plan into segments. Each later segment has entries
// of its own, by the sizes found and by what ran before: the plan is chosen anew there.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/bound.h"
#include "plan/planner.h"
#include "profile/run_trace.h"
#include "profile/value_facts.h"
#include "runtime/bound_cache.h"
#include "runtime/branch_choice.h"
#include "runtime/engine.h"
#include "runtime/epoch.h"
#include "runtime/run_context.h"
#include "runtime/sampling.h"
#include "runtime/session.h"
#include "runtime/tier_hooks.h"

namespace xc {

struct OutputPorts;  // output_pool.h

/// How a program of these knobs is planned.
PlannerOptions planner_options(const Engine& engine, const Config& config);

/// Sampled times of one signature under one plan: per step of its segment, by their numbers in the
/// plan, and for the whole run, and the last samples of the steps a trial looks at.
class BoundTimes {
 public:
  explicit BoundTimes(const Segment& segment)
      : first_(segment.first_step), steps_(segment.end_step - segment.first_step) {}
  struct Step {
    std::atomic<uint64_t> ticks{0};  ///< sum over samples
    std::atomic<uint64_t> best{UINT64_MAX};
  };
  static constexpr size_t kRing = 128;

  void add_step(size_t step, uint64_t ticks) {
    Step& at = steps_[step - first_];
    at.ticks.fetch_add(ticks, std::memory_order_relaxed);
    if (ticks < at.best.load(std::memory_order_relaxed))
      at.best.store(ticks, std::memory_order_relaxed);
  }
  /// Of a run that failed behind the step.
  void take_back(size_t step, uint64_t ticks) {
    steps_[step - first_].ticks.fetch_sub(ticks, std::memory_order_relaxed);
  }
  /// A run of a trial takes this side. Those that fail count too, or their side, with the fewest
  /// samples, would be taken by all that follow.
  void attempt() { attempts_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t attempts() const { return attempts_.load(std::memory_order_relaxed); }
  void add_run(uint64_t ticks, uint64_t focus_ticks) {
    total_.fetch_add(ticks, std::memory_order_relaxed);
    last_.store(ticks, std::memory_order_relaxed);
    const uint64_t sample = samples_.fetch_add(1, std::memory_order_acq_rel);
    if (ring_)
      (*ring_)[sample % kRing].store(static_cast<float>(focus_ticks), std::memory_order_relaxed);
  }
  uint64_t samples() const { return samples_.load(std::memory_order_acquire); }
  /// Mean time of a step / of a run in nanoseconds; 0 without samples, and of other segments'
  /// steps.
  double step_ns(size_t step) const;
  double run_ns() const;
  /// Ticks of the last run.
  uint64_t last_run() const { return last_.load(std::memory_order_relaxed); }
  /// From here on the last samples are kept, for a trial. Before the first of them.
  void keep_recent() { ring_ = std::make_unique<Ring>(); }
  /// Copies the last samples of the focus time, in ticks; none when they are not kept.
  std::vector<float> recent() const;
  size_t step_count() const { return steps_.size(); }

 private:
  using Ring = std::array<std::atomic<float>, kRing>;
  size_t first_;
  std::vector<Step> steps_;
  std::atomic<uint64_t> total_{0}, last_{0};
  std::atomic<uint64_t> samples_{0}, attempts_{0};
  std::unique_ptr<Ring> ring_;
};

/// A Bound of a segment of a plan with the times of the segment's steps. `focus`: per step of the
/// plan, whether a trial compares it; empty = all.
struct Version {
  std::shared_ptr<const Bound> bound;
  std::unique_ptr<BoundTimes> times;
  std::vector<uint8_t> focus;
  explicit Version(std::shared_ptr<const Bound> b)
      : bound(std::move(b)),
        times(std::make_unique<BoundTimes>(bound->plan->segments[bound->segment])) {}
  /// A trial compares it in these steps.
  void compare(std::vector<uint8_t> steps) {
    focus = std::move(steps);
    times->keep_recent();
  }
};

/// What an entry's runs execute. With a challenger, each context alternates between the two.
struct Published {
  std::shared_ptr<Version> active;
  std::shared_ptr<Version> challenger;  ///< null = runs do not alternate
  bool timed = false;  ///< time every run, as with a challenger: one side of a trial
  int64_t trial = 0;   ///< on which one it is, with a challenger or timed
  /// What is published when that ends; made when it begins, for the end asks for no memory.
  std::shared_ptr<const Published> with_active, with_challenger;
};

/// A Bound on no trial.
inline std::shared_ptr<Published> published_alone(std::shared_ptr<const Bound> bound) {
  auto out = std::make_shared<Published>();
  out->active = std::make_shared<Version>(std::move(bound));
  return out;
}

/// Runs of certain sizes: of one input signature, or of one later segment with the sizes found out
/// until then.
struct SignatureEntry : std::enable_shared_from_this<SignatureEntry> {
  /// Of a signature: per input its dims; then the values of element symbols. Of a later segment:
  /// Program::later_key().
  std::vector<int64_t> key;
  std::vector<int64_t> symbols;  ///< known where the segment begins
  uint32_t segment = 0;
  std::shared_ptr<const Plan> begun;  ///< what ran before a later segment; null for the first
  std::atomic<const Published*> current{nullptr};
  std::shared_ptr<const Published> owner;  ///< of `current`; guarded by Program::mutex
  std::shared_ptr<Version> base;     ///< the base plan's; null where another was published at once
  std::shared_ptr<void> tier_facts;  ///< of the tier; guarded by its lock on the program
  std::atomic<uint64_t> runs{0};     ///< sampled count times the period
  std::atomic<int64_t> last_use{0};  ///< steady ns of the last sampled run
  std::atomic<bool> rebinding{false};       ///< a job that binds it anew is posted
  std::atomic<bool> settling{false};        ///< Program::settle_by_itself() has begun
  std::atomic<bool> forgotten{false};       ///< Program::forget(): no run may begin with it
  std::atomic<uint32_t> attention{0};       ///< Program::attention_ at its last run
  std::atomic<int> sample_bits{kNeverRan};  ///< sampling.h

  HeldBytes held;       ///< all that is kept for it
  bool passes = false;  ///< it serves one run, or those of a loop, and joins no table
  // In a table, guarded by its lock.
  std::list<SignatureEntry*>::iterator place;  ///< in Program::order_
  int64_t placed = 0;                          ///< last_use when it was put there
};

/// The longest unused first. Runs may go on meanwhile.
std::vector<std::shared_ptr<SignatureEntry>> by_last_use(
    const std::vector<std::shared_ptr<SignatureEntry>>& entries);

/// When a program packs weights that no background work would: a program that only keeps variants
/// may never need to.
enum class Packing : uint8_t { kNow, kLater };

/// Whether a new entry joins the table, where later runs of its sizes find it.
enum class Joins : uint8_t {
  kWhereThereIsRoom,  ///< not while what left it cannot go, for a run that began long ago
  kAlways,
  kNever,
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  /// `graph`: typed and verified. Children of control-flow nodes are created on first use.
  /// `bound`: what it counts its entries in, with others; null = one of its own.
  static std::shared_ptr<Program> create(std::shared_ptr<Engine> engine,
                                         std::shared_ptr<const Graph> graph, const Config& config,
                                         const std::string& name, BranchChoice branches = {},
                                         Packing packing = Packing::kNow,
                                         std::shared_ptr<BoundCache> bound = nullptr);
  ~Program();

  /// Runs with inputs in graph order.
  void run(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
           const std::shared_ptr<OutputPool>& pool, const RunOptions& options);
  /// The same for bodies: whole tensors out.
  std::vector<Tensor> run_tensors(std::span<const TensorView> inputs, const RunOptions& options);

  /// The program of a control-flow body for inputs of these types and ranks, made at first use.
  Program& child(const Node& node, size_t subgraph, std::span<const TensorView> inputs);
  /// The program that runs inputs of these ranks, where the model leaves some open, and for which
  /// Ifs turn out so, where inputs decide that (branch_choice.h); made by `make` at first use, null
  /// where that makes none. Fails as a run does for inputs of other types.
  std::shared_ptr<Program> variant(std::span<const TensorView> inputs,
                                   const std::function<std::shared_ptr<Program>()>& make);
  /// The same of what is there; null where there is none.
  std::shared_ptr<Program> find_variant(std::span<const TensorView> inputs);
  /// The same for a run that may not allocate: refused where there is none.
  std::shared_ptr<Program> known_variant(std::span<const TensorView> inputs);
  /// Where there are more than `kept` variants, the one used least lately of those that nobody
  /// holds, which is none of this one's any more; null where there is none.
  std::shared_ptr<Program> take_variant(size_t kept);
  /// How many of them lately ran.
  size_t variants_in_use() const;
  /// Those made so far, the one used last first.
  std::vector<std::shared_ptr<Program>> variants() const;
  /// The outcomes of Ifs that it was made for.
  const BranchChoice& branches() const { return branches_; }
  /// Packs what Packing::kLater has left, unless there is background work that does.
  void pack();
  /// Packs weights of the base plan that are not yet, whose kernels take less scratch from there
  /// on: one step's after the other, until all are or, behind the first, `most_ns` have gone by.
  /// Whether all are. Slow; any thread.
  bool pack_weights(int64_t most_ns = std::numeric_limits<int64_t>::max());
  /// The steps whose weights were packed since it was asked last.
  std::vector<const Step*> take_packed();

  /// Fails as a run of inputs of these dims would, as far as the types of the inputs tell; nothing
  /// is said of inputs that are no tensors.
  void check_shapes(const std::vector<Dims>& shapes) const;

  // Pieces of run(), also used by prepared calls and by loops over a body.
  RunContext& lease();
  void give_back(RunContext& context);
  /// The entry of these inputs, bound when new. Fails with kInvalidArgument naming the input.
  SignatureEntry& entry_for(std::span<const TensorView> inputs, RunContext& context,
                            Joins joins = Joins::kWhereThereIsRoom);
  /// As entry_for, for whoever keeps it beyond a run (prepared calls, loops): in the table and held
  /// it is not evicted, so that whatever replaces plans finds it among entries(). Where it is
  /// `forgotten`, another has to be asked for.
  std::shared_ptr<SignatureEntry> shared_entry_for(std::span<const TensorView> inputs,
                                                   RunContext& context,
                                                   Joins joins = Joins::kAlways);
  /// Whether the elements that sizes follow from are those of the entry; its dims are.
  bool has_elements(const SignatureEntry& entry, std::span<const TensorView> inputs) const;
  /// One run of a prepared call: execute() inside an epoch.
  void run_prepared(RunContext& context, SignatureEntry& entry, void* const* input_data,
                    const OutputPorts& outputs, const RunOptions& options);
  /// The same where some inputs may have to be copied first.
  void run_staged(RunContext& context, SignatureEntry& entry, const Staging& staging,
                  const OutputPorts& outputs, const RunOptions& options);
  /// `input_data`: one pointer per graph input. `staging`: null, or what is copied first
  /// (StagedInputs), with its pointers in `input_data`.
  void execute(RunContext& context, SignatureEntry& entry, void* const* input_data,
               const OutputPorts& outputs, const RunOptions& options,
               const Staging* staging = nullptr);

  /// Where results of a body come from.
  const std::shared_ptr<OutputPool>& body_pool() const { return body_pool_; }
  /// Whether a signature is the dims of the inputs alone, no values of theirs.
  bool signature_is_dims() const;
  /// Whether all sizes of a run, those of its results too, follow from the dims of its inputs.
  bool sizes_follow_dims() const;
  /// Destroys evicted signatures that no run is in, some at a time. Called outside a run.
  void reclaim_evicted();
  /// The entry of a later segment in a run that executed `begun` until then; bound when new. Inside
  /// an epoch, like all that follows from an entry.
  SignatureEntry& later_entry(const std::shared_ptr<const Plan>& begun, uint32_t segment,
                              const std::vector<int64_t>& symbols, RunContext& context);
  /// How the context's run number `run` takes an entry; `first`: how it took the run's first
  /// segment, which is looked at as a whole.
  Turn take_turn(SignatureEntry& entry, uint64_t run, const Turn* first = nullptr);

  // For the tier.
  /// Entries of later segments that follow a plan that is published no more make room.
  void drop_stale_segments();
  /// Binds a plan for the sizes of an entry. Of a later segment: the plan that runs until then,
  /// where `plan` does otherwise there (plan/continues.h).
  std::shared_ptr<const Bound> bind(const SignatureEntry& entry,
                                    const std::shared_ptr<const Plan>& plan,
                                    const BindOptions& options) const;
  void publish(SignatureEntry& entry, std::shared_ptr<const Published> published);
  /// What is published now, kept alive.
  std::shared_ptr<const Published> published(const SignatureEntry& entry) const;
  /// What is bound of the base plan, kept alive; null where another plan was bound at once.
  std::shared_ptr<const Version> base_of(const SignatureEntry& entry) const;
  /// Takes an entry out of the table: the next run of its sizes binds it as if it were new.
  void forget(const SignatureEntry& entry);
  /// Binds again, with all the time it takes, what was bound in a hurry (Bound::provisional) or
  /// before its weights were packed.
  void settle(SignatureEntry& entry);
  /// The same, of kernels as many as `seconds` suffice for, and one at least. Whether that is all.
  bool settle_some(SignatureEntry& entry, double seconds);
  /// Of all segments.
  std::vector<std::shared_ptr<SignatureEntry>> entries();
  /// Per segment the entry used last; null where there is none.
  std::vector<std::shared_ptr<SignatureEntry>> latest_entries();
  Planner& planner() { return planner_; }
  const std::shared_ptr<const Plan>& base_plan() const { return base_plan_; }
  /// The plan that runs of the sizes seen last prefer; null = the base plan. For those who look on.
  void set_preferred_plan(std::shared_ptr<const Plan> plan);
  std::shared_ptr<const Plan> preferred_plan() const;
  /// Something concerns signatures that may not be sampled for long: the next run of each is.
  void call_attention() { attention_.fetch_add(1, std::memory_order_relaxed); }
  Epochs& epochs() { return epochs_; }
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }
  uint64_t signatures() const { return signatures_.load(std::memory_order_relaxed); }
  const Config& config() const { return config_; }
  Engine& engine() const { return *engine_; }
  const Graph& graph() const { return *graph_; }
  const std::string& name() const { return name_; }
  /// Programs of this one's control-flow bodies, and variants of it, made so far.
  std::vector<std::shared_ptr<Program>> children() const;
  /// Takes one of them out, of a program that runs no more; null when there is none. Takes no
  /// memory.
  std::shared_ptr<Program> take_child();

  /// Calls `keep` once with row-major copies of the graph values `values` of the next run of what
  /// `entry` executes now and whose sizes are `wanted` (Bound::symbols; asked by running threads);
  /// the running thread copies at most `max_bytes`.
  /// False when they cannot be had: larger than that, or no value of the base plan.
  /// A run serves one request. The last of each `who` counts, and eight at a time: a ninth takes
  /// the place of the oldest.
  bool request_capture(const void* who, SignatureEntry& entry, const std::vector<ValueId>& values,
                       int64_t max_bytes, std::function<bool(std::span<const int64_t>)> wanted,
                       std::function<void(std::vector<Tensor>)> keep);
  /// Calls `keep` once with row-major copies of the operands of the first step of what `entry`
  /// executes now that is `wanted`: inputs as the step found them, then outputs, both without
  /// constants. The running thread copies at most `max_bytes`. False when there is no such step, or
  /// its operands are larger. Waits like the requests above, among them.
  bool request_operands(const void* who, SignatureEntry& entry,
                        const std::function<bool(const Step&)>& wanted, int64_t max_bytes,
                        std::function<void(std::vector<Tensor>)> keep);
  /// What sampled runs saw of the values that the tier wants to be watched.
  ValueFacts& value_facts() { return value_facts_; }
  const ValueFacts& value_facts() const { return value_facts_; }
  /// Steps of sampled runs; null unless Config::trace_steps asks for them.
  RunTrace* trace() const { return trace_.get(); }
  /// Bodies of control flow too, and those that are not there yet.
  void set_frozen(bool frozen);
  bool frozen() const { return frozen_.load(); }
  /// Whether a tier follows its runs: looks at their times, binds anew what was bound in a hurry.
  bool adapts() const;
  /// Memory of all signatures, of the Programs of bodies and variants too. One that began with the
  /// base plan counts half of that again, for the fused plan that may join it.
  const std::shared_ptr<BoundCache>& bound_cache() const { return bound_; }
  /// Runs so far, all contexts.
  uint64_t total_runs();
  /// Rebinds the base plan of an entry (weights were packed) and publishes it when it is active.
  void set_base(SignatureEntry& entry, std::shared_ptr<Version> base);

  std::shared_ptr<void> tier_state;  ///< of the tier; set before the first run

 private:
  friend class Executor;
  Program(std::shared_ptr<Engine> engine, std::shared_ptr<const Graph> graph, const Config& config,
          std::string name, BranchChoice branches, Packing packing,
          std::shared_ptr<BoundCache> bound);
  /// `like`: see BindOptions.
  SignatureEntry& add_entry(std::span<const TensorView> inputs, std::vector<int64_t> key,
                            const Bound* like, RunContext& context, Joins joins);
  bool joins_table(Joins joins);
  /// Does much of what was evicted wait for a run that goes on?
  bool is_held_up();
  /// What a context ran last, which has the same sizes in most steps of what it runs next, often: a
  /// decoder's, token by token. Null where that has left the table.
  std::shared_ptr<const Bound> ran_last(const SignatureEntry* last, uint64_t generation) const;
  /// Binds a new entry, with packed weights where it does not fit without.
  std::shared_ptr<const Bound> bind_within_limits(SignatureEntry& entry,
                                                  const std::shared_ptr<const Plan>& plan,
                                                  const Bound* like);
  /// Chooses what a new entry runs and binds it; the tier's seat.
  TierHooks::Seat bind_first(SignatureEntry& entry, const Bound* like);
  /// Into the table, unless another thread was faster; what passes: into the context, for the run.
  SignatureEntry& insert(std::shared_ptr<SignatureEntry> entry, const TierHooks::Seat& seat,
                         RunContext& context);
  /// What a finished run told of an entry: to the tier.
  void observe(SignatureEntry& entry, const Turn& turn, uint64_t run, const RunOptions& options);
  /// The tier, if it knows this program and the program may change.
  TierHooks* known_tier() const;
  /// Whether a trial of this program's would end.
  bool judged() const;
  /// A run failed, which may have taken part in a trial.
  void tell_failed(RunContext& context, SignatureEntry& entry, const RunOptions& options,
                   Status status) const noexcept;
  /// Where no tier follows up, a shape that repeats pays for its primitives itself, a run for some.
  /// Whether the next run should for more.
  bool settle_by_itself(SignatureEntry& entry, const Turn& turn, uint64_t run);
  /// Binds anew what is better bound by now.
  void rebind(SignatureEntry& entry, const BindOptions& options);
  /// Telling of a run took so many ticks.
  void looked(uint64_t spent);
  /// How rarely to look at runs like the last one of these.
  int sample_bits(const BoundTimes& times) const;
  /// Of an entry of a later segment; no signature's begins like it.
  static void later_key(const Plan& begun, uint32_t segment, const std::vector<int64_t>& symbols,
                        std::vector<int64_t>& key);
  void run_once(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                const std::shared_ptr<OutputPool>& pool, const RunOptions& options);
  /// Into `key`, whose memory is used again.
  void key_of(std::span<const TensorView> inputs, std::vector<int64_t>& key) const;
  size_t key_size(std::span<const TensorView> inputs) const;
  /// run() with RunOptions::no_alloc: no_alloc.cpp.
  void run_in_place(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                    OutputPool& pool, const RunOptions& options);
  /// A context for such a run; refused where none is idle.
  RunContext& take_idle();
  void check_count(size_t inputs) const;
  void check_inputs(std::span<const TensorView> inputs) const;
  /// Evicts, here and in other Programs of the cache, until they hold what they may. Outside locks.
  void make_room();
  /// Evicts those used least lately, of those that were there first; how many.
  size_t evict_some();
  void tell_evicted(int64_t shapes, int64_t bytes);
  /// Out of the table, whose lock is held for writing; null where it is not in it.
  std::shared_ptr<SignatureEntry> take_out(const SignatureEntry& entry, bool evicted);
  /// When the entry that would go first ran last; none where all stay.
  std::optional<int64_t> oldest_use() const;

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Graph> graph_;
  Config config_;
  std::string name_;
  BranchChoice branches_;
  Planner planner_;
  std::shared_ptr<const Plan> base_plan_;
  std::shared_ptr<const Plan> preferred_plan_;
  std::unique_ptr<RunTrace> trace_;
  ValueFacts value_facts_;

  mutable std::mutex mutex_;  // publishing, preferred plan, children
  Epochs epochs_;
  std::atomic<uint64_t> runs_{0};              ///< looked at
  std::atomic<uint64_t> look_ticks_{0};        ///< what looking at a run costs, about
  std::atomic<int> latest_bits_{kSampleBits};  ///< sample_bits of the entry timed last
  std::atomic<uint64_t> signatures_{0};
  std::atomic<bool> frozen_{false};
  std::atomic<uint32_t> attention_{0};
  std::atomic<bool> evicted_{false};  ///< signatures wait for runs to leave them
  const std::shared_ptr<BoundCache> bound_;
  std::mutex packing_;
  std::vector<const Step*> packed_;  // guarded by packing_, until taken
  std::atomic<bool> all_packed_{false};
  std::once_flag tier_once_;
  std::atomic<bool> tier_knows_{false};

  /// Not noexcept: then libstdc++ keeps the hashes, and looking for a new key reads no other keys.
  struct KeyHash {
    size_t operator()(const std::vector<int64_t>& key) const;
  };
  mutable std::shared_mutex table_mutex_;
  std::unordered_map<std::vector<int64_t>, std::shared_ptr<SignatureEntry>, KeyHash> table_;
  /// The same entries, in the order in which eviction looks at them: the first put in first, those
  /// used since behind.
  std::list<SignatureEntry*> order_;
  std::atomic<uint64_t> generation_{1};  // bumped when entries are evicted

  std::mutex context_mutex_;
  std::vector<std::unique_ptr<RunContext>> contexts_;
  std::vector<RunContext*> idle_;  ///< the one given back last at the end
  uint64_t given_back_ = 0;        ///< so often some context was

  struct Child {
    std::vector<std::pair<DType, int64_t>> inputs;  ///< their types and ranks
    std::shared_ptr<Program> program;
    uint64_t last_use = 0;  ///< by uses_
  };
  // By body, and variants by the graph itself; guarded by mutex_.
  std::unordered_map<const Graph*, std::vector<Child>> children_;
  uint64_t uses_ = 0;  ///< of any of them, or none; guarded by mutex_
  /// Null where there is none; with mutex_ held.
  std::shared_ptr<Program> find_child(const Graph& graph, std::span<const TensorView> inputs);
  std::shared_ptr<Program> known_child(const Graph& graph, std::span<const TensorView> inputs);
  /// What is there then: another one, where another thread was faster.
  std::shared_ptr<Program> add_child(const Graph& graph, std::span<const TensorView> inputs,
                                     std::shared_ptr<Program> program);
  std::shared_ptr<OutputPool> body_pool_;

  class EpochScope;
  friend class CaptureScope;
  struct Capture;
  struct Captures;
  void install(std::shared_ptr<Capture> capture);
  std::atomic<const Captures*> captures_{nullptr};
  std::shared_ptr<const Captures> captures_owner_;  // guarded by mutex_
};

/// A context of the program while it lives.
class LeaseScope {
 public:
  explicit LeaseScope(Program& program) : program_(program), context_(program.lease()) {}
  ~LeaseScope() { program_.give_back(context_); }
  LeaseScope(const LeaseScope&) = delete;
  LeaseScope& operator=(const LeaseScope&) = delete;
  RunContext& context() { return context_; }

 private:
  Program& program_;
  RunContext& context_;
};

}  // namespace xc
