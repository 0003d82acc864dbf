// The life of a program and of its runs: construction, the contexts that runs lease, and the order
// of things in a run. Entries are found in signatures.cpp and later_segments.cpp, what a run takes
// of an entry in turns.cpp, what a tier publishes for one in publish.cpp.

#include "runtime/program.h"

#include <algorithm>

#include "base/memory_budget.h"
#include "runtime/epoch_scope.h"
#include "runtime/executor.h"
#include "runtime/overlap.h"

namespace xc {

// ---- construction -------------------------------------------------------------------------------

PlannerOptions planner_options(const Engine& engine, const Config& config) {
  PlannerOptions options;
  options.numerics = config.numerics_mode();
  options.threads = engine.tasks().workers();
  options.reference_only = config.kernels != 0;
  options.post_ops = config.post_ops == 0 && !options.reference_only;
  options.winograd = config.winograd == 0;
  options.layouts = config.layouts == 0 && !options.reference_only;
  return options;
}

Program::Program(std::shared_ptr<Engine> engine, std::shared_ptr<const Graph> graph,
                 const Config& config, std::string name, BranchChoice branches, Packing packing,
                 std::shared_ptr<BoundCache> bound)
    : engine_(std::move(engine)),
      graph_(std::move(graph)),
      config_(config),
      name_(std::move(name)),
      branches_(std::move(branches)),
      planner_(graph_, engine_->backend(), planner_options(*engine_, config_)),
      value_facts_(graph_->value_count()),
      bound_(bound ? std::move(bound)
                   : std::make_shared<BoundCache>(effective(config_, &Config::bound_cache_bytes))),
      body_pool_(std::make_shared<OutputPool>(engine_, graph_->outputs.size())) {
  if (config_.trace_steps > 0)
    trace_ = std::make_unique<RunTrace>(static_cast<size_t>(config_.trace_steps));
  base_plan_ = planner_.build();
  if (packing == Packing::kNow) pack();
}

void Program::pack() {
  // Weights are packed in the background where there is one, and at once where bits must not
  // change. Mode sync packs them with its first compiles.
  const auto mode = config_.jit_mode();
  if (!engine_->tier() || mode == JitMode::kOff || mode == JitMode::kFreeze ||
      (mode == JitMode::kSync && !config_.fuses()) ||
      config_.numerics_mode() == Numerics::kStrict) {
    pack_weights();
    take_packed();  // nothing was bound without, and nobody follows up
  }
}

bool Program::pack_weights(int64_t most_ns) {
  const std::lock_guard lock(packing_);
  const int64_t begin = steady_ns();
  bool some = false;
  for (const auto& step : base_plan_->steps)
    if (step->kernel && step->kernel->wants_prepare()) {
      if (some && steady_ns() - begin >= most_ns) return false;
      step->kernel->prepare();
      packed_.push_back(step.get());
      some = true;
    }
  all_packed_.store(true, std::memory_order_release);
  return true;
}

std::vector<const Step*> Program::take_packed() {
  const std::lock_guard lock(packing_);
  return std::exchange(packed_, {});
}

std::shared_ptr<Program> Program::create(std::shared_ptr<Engine> engine,
                                         std::shared_ptr<const Graph> graph, const Config& config,
                                         const std::string& name, BranchChoice branches,
                                         Packing packing, std::shared_ptr<BoundCache> bound) {
  const std::shared_ptr<Program> out(new Program(std::move(engine), std::move(graph), config, name,
                                                 std::move(branches), packing, std::move(bound)));
  out->bound_->add(out);
  return out;
}

Program::~Program() {
  bound_->remove();
  if (tier_knows_) engine_->tier()->removed(*this);
}

// ---- contexts -----------------------------------------------------------------------------------

bool RunContext::holds_memory() const {
  return scratch.bytes() > 0 || staged.memory().bytes() > 0 ||
         std::ranges::any_of(segments, [](const auto& s) { return s.arena.bytes() > 0; });
}

void RunContext::trim() {
  for (SegmentState& segment : segments)
    if (segment.arena.trim()) segment.resolved[0].serial = segment.resolved[1].serial = 0;
  scratch.trim();
  staged.memory().trim();
}

void RunContext::drop_memory() {
  for (SegmentState& segment : segments) {
    segment.arena.drop();
    segment.resolved[0].serial = segment.resolved[1].serial = 0;
  }
  scratch.drop();
  staged.memory().drop();
}

RunContext& Program::lease() {
  std::lock_guard lock(context_mutex_);
  if (!idle_.empty()) {
    RunContext* context = idle_.back();
    idle_.pop_back();
    return *context;
  }
  contexts_.push_back(std::make_unique<RunContext>(*engine_));
  idle_.reserve(contexts_.size());
  epochs_.add(contexts_.back().get());
  return *contexts_.back();
}

void Program::give_back(RunContext& context) {
  constexpr uint64_t kIdle = 4096, kLooks = 64;
  const bool trims = !bound_->keeps_memory();
  if (trims) context.trim();
  RunContext* unused = nullptr;
  {
    std::lock_guard lock(context_mutex_);
    idle_.push_back(&context);
    context.given_back = ++given_back_;
    if (!trims || given_back_ % kLooks != 0) return;
    const auto it = std::ranges::find_if(idle_, [&](const RunContext* idle) {
      return idle->given_back + kIdle < given_back_ && idle->holds_memory();
    });
    if (it == idle_.end()) return;
    unused = *it;
    idle_.erase(it);
  }
  unused->drop_memory();  // it may take long
  std::lock_guard lock(context_mutex_);
  idle_.insert(idle_.begin(), unused);
}

uint64_t Program::total_runs() {
  std::lock_guard lock(context_mutex_);
  uint64_t total = 0;
  for (const auto& context : contexts_) total += context->runs.load(std::memory_order_relaxed);
  return total;
}

// ---- running ------------------------------------------------------------------------------------

namespace {

/// The owned form of a container or of strings that a caller lends; elements of a container keep
/// their memory.
Tensor taken(const TensorView& value) {
  if (!value) return {};
  Tensor out(value.dtype, Dims(value.dims.begin(), value.dims.end()));
  copy_elements(value, out.view());
  return out;
}

}  // namespace

void Program::run(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                  const std::shared_ptr<OutputPool>& pool, const RunOptions& options) {
  if (options.no_alloc) return run_in_place(inputs, outputs, *pool, options);
  run_once(inputs, outputs, pool, options);
  reclaim_evicted();
}

void Program::run_once(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                       const std::shared_ptr<OutputPool>& pool, const RunOptions& options) {
  LeaseScope lease(*this);
  RunContext& context = lease.context();
  const EpochScope epoch(*this, context);
  SignatureEntry& entry = entry_for(inputs, context);
  const bool shared = shares_inputs(*graph_, inputs, outputs);
  void* inline_data[kPortsOnStack];
  std::vector<void*> more;
  void** data = inline_data;
  if (inputs.size() > kPortsOnStack) {
    more.resize(inputs.size());
    data = more.data();
  }
  std::vector<Tensor> objects;  // containers, which steps take as Tensors, and strided strings
  // Where there are containers: the inputs without them, which are not staged.
  std::vector<TensorView> tensors;
  bool strided = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    data[i] = inputs[i].data;
    const bool container = graph_->value(graph_->inputs[i]).type.kind != Type::Kind::kTensor;
    if (!container && inputs[i].contiguous()) continue;
    strided |= !container;
    if (!container && !holds_objects(inputs[i].dtype)) continue;
    if (container) {
      if (shared && shares_inputs(*graph_, inputs.subspan(i, 1), outputs))
        fail(Status::kInvalidArgument,
             "input '{}': an output lies in its memory, and it is no tensor but a {}: give the "
             "output other memory",
             graph_->value(graph_->inputs[i]).name, graph_->value(graph_->inputs[i]).type.text());
      if (tensors.empty()) tensors.assign(inputs.begin(), inputs.end());
      tensors[i] = {};
    }
    objects.reserve(inputs.size());
    const Tensor& object = objects.emplace_back(taken(inputs[i]));
    data[i] = container ? const_cast<Tensor*>(&object) : object.data();
  }
  const OutputPorts ports{outputs.data(), outputs.size(), pool.get()};
  const Staging staging{tensors.empty() ? inputs : std::span<const TensorView>(tensors), data};
  execute(context, entry, data, ports, options, strided || shared ? &staging : nullptr);
}

void Program::run_prepared(RunContext& context, SignatureEntry& entry, void* const* input_data,
                           const OutputPorts& outputs, const RunOptions& options) {
  const EpochScope epoch(*this, context);
  execute(context, entry, input_data, outputs, options);
}

void Program::run_staged(RunContext& context, SignatureEntry& entry, const Staging& staging,
                         const OutputPorts& outputs, const RunOptions& options) {
  const EpochScope epoch(*this, context);
  execute(context, entry, staging.data, outputs, options, &staging);
}

std::shared_ptr<SignatureEntry> Program::shared_entry_for(std::span<const TensorView> inputs,
                                                          RunContext& context, Joins joins) {
  const EpochScope epoch(*this, context);
  for (;;) {
    std::shared_ptr<SignatureEntry> entry = entry_for(inputs, context, joins).shared_from_this();
    if (entry->passes) return entry;
    // Held and in the table it stays there; between the two it may have been evicted.
    std::shared_lock lock(table_mutex_);
    if (const auto it = table_.find(entry->key); it != table_.end() && it->second == entry)
      return entry;
  }
}

void Program::execute(RunContext& context, SignatureEntry& entry, void* const* input_data,
                      const OutputPorts& outputs, const RunOptions& options,
                      const Staging* staging) {
  if (config_.max_memory_bytes > 0 && !options.budget) [[unlikely]] {
    MemoryBudget budget(config_.max_memory_bytes);
    RunOptions within = options;
    within.budget = &budget;
    return execute(context, entry, input_data, outputs, within, staging);
  }
  const uint64_t n = context.runs.load(std::memory_order_relaxed);
  context.runs.store(n + 1, std::memory_order_relaxed);
  Turn turn = take_turn(entry, n);
  if (options.made_up) turn.look = 0;
  context.on_trial = turn.trial;
  try {
    const BudgetScope staged(options.budget);  // the memory is the context's, and used again
    if (staging) [[unlikely]] {
      context.staged.choose(*staging, outputs, turn.version->bound->shared_ports);
      context.staged.place(*staging, options.budget);
      context.staged.copy(staging->inputs);
    }
    Executor(*this, context, options).run(turn, n, input_data, outputs);
  } catch (const Error& error) {
    tell_failed(context, entry, options, error.status());
    throw;
  } catch (...) {
    tell_failed(context, entry, options, Status::kInternal);
    throw;
  }
  try {
    observe(entry, turn, n, options);
    for (const auto& later : context.later) observe(*later.entry, later.turn, n, options);
  } catch (...) {
    // The results are the caller's already: that nothing is learnt from the run is all it may cost.
  }
}

void Program::tell_failed(RunContext& context, SignatureEntry& entry, const RunOptions& options,
                          Status status) const noexcept {
  if (options.no_compile && !context.on_trial) return;
  constexpr int kInARow = 8;  // between two words to the tier
  const bool ended = status == Status::kCancelled || status == Status::kDeadline;
  TierHooks* const tier = context.on_trial || ended ? known_tier() : nullptr;
  if (!tier) return;
  if (context.on_trial) return tier->failed(*this, ended);
  const uint64_t run = context.runs.load(std::memory_order_relaxed);
  context.ended = context.last_ended + 1 == run ? context.ended + 1 : 1;
  context.last_ended = run;
  if (context.ended % kInARow == 0) tier->ended(*this, entry);
}

}  // namespace xc
