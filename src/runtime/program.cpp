#include "runtime/program.h"

#include <algorithm>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/hash.h"
#include "ops/containers.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "runtime/capture.h"
#include "runtime/executor.h"
#include "runtime/overlap.h"
#include "runtime/sampling.h"

namespace xc {

// ---- times --------------------------------------------------------------------------------------

double BoundTimes::step_ns(size_t step) const {
  const uint64_t n = samples();
  return n == 0 ? 0
                : ticks_to_ns(steps_[step].ticks.load(std::memory_order_relaxed)) /
                      static_cast<double>(n);
}

double BoundTimes::run_ns() const {
  const uint64_t n = samples();
  return n == 0 ? 0 : ticks_to_ns(total_.load(std::memory_order_relaxed)) / static_cast<double>(n);
}

std::vector<float> BoundTimes::recent() const {
  const auto n = ring_ ? std::min<uint64_t>(samples(), kRing) : 0;
  std::vector<float> out;
  for (uint64_t k = 0; k < n; ++k) out.push_back((*ring_)[k].load(std::memory_order_relaxed));
  return out;
}

// ---- construction -------------------------------------------------------------------------------

namespace {

PlannerOptions planner_options(const Engine& engine, const Config& config) {
  PlannerOptions options;
  options.numerics = static_cast<Numerics>(config.numerics);
  options.threads = engine.tasks().workers();
  options.reference_only = config.kernels != 0;
  options.post_ops = config.post_ops == 0 && !options.reference_only;
  options.layouts = config.layouts == 0 && !options.reference_only;
  return options;
}

}  // namespace

Program::Program(std::shared_ptr<Engine> engine, std::shared_ptr<const Graph> graph,
                 const Config& config, std::string name)
    : engine_(std::move(engine)),
      graph_(std::move(graph)),
      config_(config),
      name_(std::move(name)),
      planner_(graph_, engine_->backend(), planner_options(*engine_, config_)),
      value_facts_(graph_->value_count()),
      body_pool_(std::make_shared<OutputPool>(engine_, graph_->outputs.size())) {
  if (config_.trace_steps > 0)
    trace_ = std::make_unique<RunTrace>(static_cast<size_t>(config_.trace_steps));
  base_plan_ = planner_.build();
  // Weights are packed in the background where there is one, and at once where bits must not
  // change.
  const auto mode = static_cast<JitMode>(config_.jit);
  if (!engine_->tier() || mode == JitMode::kOff || mode == JitMode::kFreeze ||
      static_cast<Numerics>(config_.numerics) == Numerics::kStrict)
    for (const auto& step : base_plan_->steps)
      if (step->kernel && step->kernel->wants_prepare()) step->kernel->prepare();
}

std::shared_ptr<Program> Program::create(std::shared_ptr<Engine> engine,
                                         std::shared_ptr<const Graph> graph, const Config& config,
                                         const std::string& name) {
  return std::shared_ptr<Program>(new Program(std::move(engine), std::move(graph), config, name));
}

Program::~Program() {
  if (tier_knows_) engine_->tier()->removed(*this);
}

// ---- contexts -----------------------------------------------------------------------------------

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
  std::lock_guard lock(context_mutex_);
  idle_.push_back(&context);
}

namespace {

/// Epoch of a run: set at entry, cleared at exit.
class EpochScope {
 public:
  EpochScope(const Epochs& epochs, RunContext& context) : context_(context) {
    context_.epoch.store(epochs.current(), std::memory_order_seq_cst);
  }
  ~EpochScope() { context_.epoch.store(0, std::memory_order_release); }
  EpochScope(const EpochScope&) = delete;
  EpochScope& operator=(const EpochScope&) = delete;

 private:
  RunContext& context_;
};

}  // namespace

// ---- signatures ---------------------------------------------------------------------------------

size_t Program::KeyHash::operator()(const std::vector<int64_t>& key) const noexcept {
  return static_cast<size_t>(hash_bytes(key.data(), key.size() * sizeof(int64_t)).low);
}

namespace {

/// Whether a value is of a type, as far as a sequence or optional promises it: element types.
bool holds(const Type& type, const TensorView& value) {
  switch (type.kind) {
    case Type::Kind::kTensor:
      return value.dtype == type.dtype;
    case Type::Kind::kOptional:
      return !value || holds(*type.element, value);
    case Type::Kind::kSequence: {
      if (value.dtype != DType::kTensor || value.rank() != 1) return false;
      bool all = true;
      for (int64_t i = 0; i < value.dims[0]; ++i)
        all = all && holds(*type.element, value.as<const Tensor>()[i * value.strides[0]].view());
      return all;
    }
    case Type::Kind::kMap:
      return is_map(value, type.dtype, type.element->dtype);
  }
  return false;
}

/// An element of an input that sizes follow from. The least number, which Slice knows as "from the
/// start", has no negative: the next one stands for it, which is as far from any size.
int64_t element_of(const TensorView& input, int64_t index) {
  return std::max(load_int64(input.data, input.dtype, index), -INT64_MAX);
}

/// The owned form of a container that a caller lends; elements keep their memory.
Tensor taken(const TensorView& value) {
  if (!value) return {};
  Tensor out(value.dtype, Dims(value.dims.begin(), value.dims.end()));
  copy_elements(value, out.view());
  return out;
}

}  // namespace

void Program::check_inputs(std::span<const TensorView> inputs) const {
  if (inputs.size() != graph_->inputs.size())
    fail(Status::kInvalidArgument, "the model takes {} inputs, {} were given",
         graph_->inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph_->value(graph_->inputs[i]);
    const auto wrong = [&] {
      fail(Status::kInvalidArgument, "input '{}': expected {}, got {}{}", value.name,
           value.type.text(), inputs[i] ? xc::name(inputs[i].dtype) : "nothing",
           to_text(Dims(inputs[i].dims.begin(), inputs[i].dims.end())));
    };
    if (value.type.kind != Type::Kind::kTensor) {
      if (!holds(value.type, inputs[i])) wrong();
      continue;
    }
    if (inputs[i].dtype != value.type.dtype) wrong();
    if (!value.type.dims) continue;
    if (inputs[i].dims.size() != value.type.dims->size()) wrong();
    for (size_t axis = 0; axis < inputs[i].dims.size(); ++axis) {
      const auto expected = (*value.type.dims)[axis].constant();
      if (inputs[i].dims[axis] < 0 || (expected && *expected != inputs[i].dims[axis])) wrong();
    }
  }
}

void Program::key_of(std::span<const TensorView> inputs, std::vector<int64_t>& key) const {
  key.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& t = inputs[i];
    // No size of a plan depends on what a container holds.
    if (graph_->value(graph_->inputs[i]).type.kind != Type::Kind::kTensor) {
      key.push_back(-1);
      continue;
    }
    key.push_back(t.rank());
    key.insert(key.end(), t.dims.begin(), t.dims.end());
  }
  for (const PlanSymbol& symbol : base_plan_->symbols)
    if (symbol.source == PlanSymbol::Source::kInputElement)
      key.push_back(element_of(inputs[symbol.operand], symbol.index));
}

SignatureEntry& Program::entry_for(std::span<const TensorView> inputs, RunContext& context) {
  // The same signature as the last run of this context, nearly always.
  if (context.last_entry &&
      context.last_generation == generation_.load(std::memory_order_acquire) &&
      inputs.size() == graph_->inputs.size()) {
    const std::vector<int64_t>& key = context.last_entry->key;
    size_t at = 0;
    bool same = true;
    for (size_t i = 0; i < inputs.size() && same; ++i) {
      const Type& type = graph_->value(graph_->inputs[i]).type;
      same = type.kind == Type::Kind::kTensor && inputs[i].dtype == type.dtype &&
             key[at++] == inputs[i].rank() &&
             std::equal(inputs[i].dims.begin(), inputs[i].dims.end(),
                        key.begin() + static_cast<int64_t>(at));
      at += inputs[i].dims.size();
    }
    if (same && at < key.size())
      for (const PlanSymbol& symbol : base_plan_->symbols)
        if (symbol.source == PlanSymbol::Source::kInputElement && same)
          same = key[at++] == element_of(inputs[symbol.operand], symbol.index);
    if (same) return *const_cast<SignatureEntry*>(context.last_entry);
  }
  check_inputs(inputs);
  std::vector<int64_t>& key = context.key;
  key_of(inputs, key);
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  SignatureEntry* entry = nullptr;
  {
    std::shared_lock lock(table_mutex_);
    if (const auto it = table_.find(key); it != table_.end()) entry = it->second.get();
  }
  if (!entry) entry = &add_entry(inputs, key);
  context.last_entry = entry;
  context.last_generation = generation;
  return *entry;
}

namespace {

/// What is kept for a signature. `adapts`: another plan may join the base plan.
int64_t held_bytes(const SignatureEntry& entry, const Version& version, bool adapts) {
  constexpr size_t kBlocks = 256;  // nodes, control blocks and what the C library adds
  const size_t own = sizeof(SignatureEntry) + sizeof(Published) + sizeof(Version) +
                     sizeof(BoundTimes) + version.times->step_count() * sizeof(BoundTimes::Step) +
                     (2 * entry.key.size() + entry.symbols.size()) * sizeof(int64_t) + kBlocks;
  const int64_t bound = version.bound->held_bytes;
  return static_cast<int64_t>(own) + bound + (adapts && entry.base ? bound / 2 : 0);
}

}  // namespace

SignatureEntry& Program::add_entry(std::span<const TensorView> inputs, std::vector<int64_t> key) {
  auto entry = std::make_shared<SignatureEntry>();
  for (const PlanSymbol& symbol : base_plan_->symbols) {
    if (symbol.source == PlanSymbol::Source::kInputDim)
      entry->symbols.push_back(inputs[symbol.operand].dims[symbol.index]);
    else if (symbol.source == PlanSymbol::Source::kInputElement)
      entry->symbols.push_back(element_of(inputs[symbol.operand], symbol.index));
  }
  const Dim::Lookup lookup = [&](const std::string& symbol) {
    return symbol_value(*base_plan_, entry->symbols, symbol);
  };
  for (const Plan::InputCheck& check : base_plan_->input_checks) {
    const auto expected = check.expected.evaluate(lookup);
    if (expected && *expected != inputs[check.input].dims[check.axis])
      fail(Status::kInvalidArgument, "input '{}': dim {} must be {} = {} here, got {}",
           graph_->value(graph_->inputs[check.input]).name, check.axis, check.expected.text(),
           *expected, inputs[check.input].dims[check.axis]);
  }
  entry->key = std::move(key);
  TierHooks::Seat seat;
  try {
    seat = bind_first(*entry);
  } catch (const Error& error) {
    if (error.status() != Status::kInvalidModel || entry->symbols.empty()) throw;
    // The model was found valid when it was loaded: it is these sizes that do not go through it.
    throw Error(Status::kInvalidArgument, "with these input sizes: " + error.message(),
                error.where());
  }
  return insert(std::move(entry), seat);
}

TierHooks::Seat Program::bind_first(SignatureEntry& entry) {
  BindOptions options;
  options.max_arena_bytes = config_.max_memory_bytes;
  auto published = std::make_shared<Published>();
  TierHooks* tier = tier_knows_.load(std::memory_order_acquire) ? engine_->tier() : nullptr;
  TierHooks::Seat seat;
  if (tier) seat = tier->seat_for(*this, entry);
  if (!seat.plan) seat.plan = entry.begun ? entry.begun : base_plan_;
  published->active = std::make_shared<Version>(bind(entry, seat.plan, options));
  if (published->active->bound->plan != seat.plan) seat.timed = false;
  if (seat.timed) published->active->compare(seat.focus);
  published->timed = seat.timed;
  if (published->active->bound->plan == base_plan_) entry.base = published->active;
  entry.held_bytes = held_bytes(entry, *published->active, tier != nullptr);
  entry.current.store(published.get(), std::memory_order_release);
  entry.owner = std::move(published);
  entry.last_use.store(steady_ns(), std::memory_order_relaxed);
  entry.attention.store(attention_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return seat;
}

SignatureEntry& Program::insert(std::shared_ptr<SignatureEntry> entry,
                                const TierHooks::Seat& seat) {
  SignatureEntry* result = nullptr;
  bool added = false;
  {
    std::unique_lock lock(table_mutex_);
    const auto [it, inserted] = table_.try_emplace(entry->key, entry);
    result = it->second.get();
    added = inserted;
    if (inserted) {
      if (entry->segment == 0) signatures_.fetch_add(1, std::memory_order_relaxed);
      bound_bytes_.fetch_add(entry->held_bytes, std::memory_order_relaxed);
    }
  }
  if (!added) return *result;
  if (seat.timed) engine_->tier()->seated(*this, *result, seat.trial);
  evict_if_needed();
  if (TierHooks* tier = engine_->tier();
      tier && config_.jit != static_cast<int64_t>(JitMode::kOff)) {
    std::call_once(tier_once_, [&] {
      tier->added(shared_from_this());
      tier_knows_.store(true, std::memory_order_release);
    });
    tier->first_bound(*this, *result);
  }
  return *result;
}

std::vector<std::shared_ptr<SignatureEntry>> by_last_use(
    const std::vector<std::shared_ptr<SignatureEntry>>& entries) {
  // Each time is read once: an order that changes while it sorts leads std::sort out of its range.
  std::vector<std::pair<int64_t, std::shared_ptr<SignatureEntry>>> timed;
  for (const auto& entry : entries)
    timed.emplace_back(entry->last_use.load(std::memory_order_relaxed), entry);
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::shared_ptr<SignatureEntry>> out;
  for (auto& [time, entry] : timed) out.push_back(std::move(entry));
  return out;
}

void Program::evict_if_needed() {
  const int64_t cap = effective(config_, &Config::bound_cache_bytes);
  if (bound_bytes_.load(std::memory_order_relaxed) <= cap) return;
  std::vector<std::shared_ptr<SignatureEntry>> victims;
  const int64_t before = bound_bytes_.load(std::memory_order_relaxed);
  {
    std::unique_lock lock(table_mutex_);
    std::vector<std::shared_ptr<SignatureEntry>> by_age;
    for (const auto& [key, entry] : table_) by_age.push_back(entry);
    by_age = by_last_use(by_age);
    // The newest quarter always stays: it holds what runs are about to use.
    for (size_t k = 0; k < by_age.size() * 3 / 4; ++k) {
      if (bound_bytes_.load(std::memory_order_relaxed) <= cap / 2) break;
      bound_bytes_.fetch_sub(by_age[k]->held_bytes, std::memory_order_relaxed);
      table_.erase(by_age[k]->key);
      victims.push_back(by_age[k]);
    }
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  Event event;
  event.kind = EventKind::kEvicted;
  event.shapes = static_cast<int64_t>(victims.size());
  event.bytes = before - bound_bytes_.load(std::memory_order_relaxed);
  event.detail = fmt::format("plans bound to {} shapes, cap {} bytes", victims.size(), cap);
  for (auto& victim : victims) epochs_.retire(std::move(victim));
  // The run that binds holds them back itself: it lets go of them when it ends.
  evicted_.store(true, std::memory_order_release);
  if (TierHooks* tier = engine_->tier())
    tier->record(*this, std::move(event));
  else
    engine_->emit(event);
}

// ---- publishing ---------------------------------------------------------------------------------

void Program::publish(SignatureEntry& entry, std::shared_ptr<const Published> published) {
  std::shared_ptr<const Published> old;
  {
    std::lock_guard lock(mutex_);
    entry.current.store(published.get(), std::memory_order_release);
    old = std::exchange(entry.owner, std::move(published));
  }
  epochs_.retire(std::move(old));
  epochs_.reclaim();
}

void Program::set_base(SignatureEntry& entry, std::shared_ptr<Version> base) {
  std::shared_ptr<Version> old;
  std::shared_ptr<const Published> now;
  {
    std::lock_guard lock(mutex_);
    old = std::exchange(entry.base, base);
    if (entry.owner->active == old) {
      auto published = std::make_shared<Published>(*entry.owner);
      published->active = base;
      now = std::move(published);
    }
  }
  if (now) publish(entry, std::move(now));
  epochs_.retire(std::move(old));
}

std::shared_ptr<const Published> Program::published(const SignatureEntry& entry) const {
  std::lock_guard lock(mutex_);
  return entry.owner;
}

void Program::settle(SignatureEntry& entry) {
  std::shared_ptr<Version> base, active;
  {
    std::lock_guard lock(mutex_);
    base = entry.base;
    active = entry.owner->active;
  }
  const auto again = [&](const Version& version) {
    return std::make_shared<Version>(bind(entry, version.bound->plan, {.background = true}));
  };
  if (base && base->bound->provisional) set_base(entry, again(*base));
  if (active == base || !active->bound->provisional) return;
  auto settled = std::make_shared<Published>();
  settled->active = again(*active);
  {
    std::lock_guard lock(mutex_);
    if (entry.owner->active != active || entry.owner->challenger) return;
  }
  publish(entry, std::move(settled));
}

uint64_t Program::total_runs() {
  std::lock_guard lock(context_mutex_);
  uint64_t total = 0;
  for (const auto& context : contexts_) total += context->runs.load(std::memory_order_relaxed);
  return total;
}

std::vector<std::shared_ptr<SignatureEntry>> Program::entries() {
  std::shared_lock lock(table_mutex_);
  std::vector<std::shared_ptr<SignatureEntry>> out;
  for (const auto& [key, entry] : table_) out.push_back(entry);
  return out;
}

void Program::set_preferred_plan(std::shared_ptr<const Plan> plan) {
  std::lock_guard lock(mutex_);
  preferred_plan_ = std::move(plan);
}

std::shared_ptr<const Plan> Program::preferred_plan() const {
  std::lock_guard lock(mutex_);
  return preferred_plan_;
}

std::vector<std::shared_ptr<Program>> Program::children() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Program>> out;
  for (const auto& [body, children] : children_)
    for (const Child& child : children) out.push_back(child.program);
  return out;
}

// ---- running ------------------------------------------------------------------------------------

void Program::execute(RunContext& context, SignatureEntry& entry, void* const* input_data,
                      const OutputPorts& outputs, const RunOptions& options) {
  const uint64_t n = context.runs.load(std::memory_order_relaxed);
  context.runs.store(n + 1, std::memory_order_relaxed);
  const Turn turn = take_turn(entry, n);
  Executor(*this, context, options).run(turn, n, input_data, outputs);
  observe(entry, turn, n, options);
  for (const auto& later : context.later) observe(*later.entry, later.turn, n, options);
}

Turn Program::take_turn(SignatureEntry& entry, uint64_t run, const Turn* first) {
  const Published& published = *entry.current.load(std::memory_order_seq_cst);
  Turn turn;
  const bool trial = published.challenger != nullptr;
  if (trial)
    turn.side =
        trial_side(published.active->times->samples(), published.challenger->times->samples(), run);
  turn.version = turn.side ? published.challenger.get() : published.active.get();
  const uint32_t attention = attention_.load(std::memory_order_relaxed);
  const bool called = entry.attention.load(std::memory_order_relaxed) != attention;
  if (called) entry.attention.store(attention, std::memory_order_relaxed);
  if (trial || published.timed || called || run < 5) {
    turn.timed = true;
  } else if (first) {  // a run is looked at as a whole
    turn.timed = first->timed;
    turn.stands_for = first->stands_for;
  } else {
    const int bits = entry.sample_bits.load(std::memory_order_relaxed);
    const int known =
        bits < 0 ? std::min(kUnknownBits, latest_bits_.load(std::memory_order_relaxed)) : bits;
    turn.timed = is_sampled(run, known);
    turn.stands_for = uint32_t{1} << known;
    if (bits < 0) [[unlikely]] {
      if (bits == kRanOnce && !turn.timed) {
        turn.timed = true;
        turn.stands_for = 0;
      }
      entry.sample_bits.store(bits + 1, std::memory_order_relaxed);
    }
  }
  if (turn.timed && run > 0 && config_.jit != static_cast<int64_t>(JitMode::kOff))
    turn.times = turn.version->times.get();
  if (turn.times) turn.look = first ? first->look : value_facts_.due();
  return turn;
}

void Program::observe(SignatureEntry& entry, const Turn& turn, uint64_t run,
                      const RunOptions& options) {
  if (!turn.timed) return;
  if (config_.jit == static_cast<int64_t>(JitMode::kOff)) {
    // Without a background thread a shape that repeats pays for its primitives itself, once.
    entry.sample_bits.store(kSampleBits, std::memory_order_relaxed);
    if (run >= (1 << kSampleBits) && turn.version->bound->provisional &&
        !entry.rebinding.exchange(true, std::memory_order_relaxed))
      settle(entry);
    return;
  }
  if (turn.times) {
    const int bits = sample_bits(*turn.times);
    entry.sample_bits.store(bits, std::memory_order_relaxed);
    if (entry.segment == 0) latest_bits_.store(bits, std::memory_order_relaxed);
  }
  if (turn.stands_for == 0) return;
  const uint64_t begin = ticks();
  if (entry.segment == 0) runs_.fetch_add(1, std::memory_order_relaxed);
  entry.last_use.store(steady_ns(), std::memory_order_relaxed);
  if (TierHooks* tier = engine_->tier();
      tier && !frozen_.load(std::memory_order_relaxed) && !options.no_compile)
    tier->sampled(*this, entry, turn.stands_for);
  looked(ticks() - begin);
}

void Program::looked(uint64_t spent) {
  // An interruption is no part of the cost: down at once, up slowly.
  const uint64_t before = look_ticks_.load(std::memory_order_relaxed);
  look_ticks_.store(before == 0 || spent < before ? spent : before + (spent - before) / 8,
                    std::memory_order_relaxed);
}

int Program::sample_bits(const BoundTimes& times) const {
  constexpr uint64_t kClock = 64;  // ticks: reading the clock around a step, and adding up
  return xc::sample_bits(runs(), static_cast<double>(times.last_run()),
                         static_cast<double>(look_ticks_.load(std::memory_order_relaxed) +
                                             kClock * times.step_count()));
}

void Program::run(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                  const std::shared_ptr<OutputPool>& pool, const RunOptions& options) {
  if (options.no_alloc) return run_in_place(inputs, outputs, *pool, options);
  run_once(inputs, outputs, pool, options);
  reclaim_evicted();
}

void Program::reclaim_evicted() {
  if (evicted_.load(std::memory_order_relaxed) && evicted_.exchange(false)) epochs_.reclaim();
}

bool Program::sizes_follow_dims() const {
  return base_plan_->segments.size() == 1 &&
         std::none_of(base_plan_->symbols.begin(), base_plan_->symbols.end(),
                      [](const PlanSymbol& symbol) {
                        return symbol.source == PlanSymbol::Source::kInputElement;
                      });
}

void Program::run_once(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                       const std::shared_ptr<OutputPool>& pool, const RunOptions& options) {
  constexpr size_t kInline = 32;
  LeaseScope lease(*this);
  RunContext& context = lease.context();
  const EpochScope epoch(epochs_, context);
  SignatureEntry& entry = entry_for(inputs, context);
  check_apart(inputs, outputs);
  void* inline_data[kInline];
  std::vector<void*> more;
  void** data = inline_data;
  if (inputs.size() > kInline) {
    more.resize(inputs.size());
    data = more.data();
  }
  std::vector<Tensor> copies;      // strided inputs are the exception
  std::vector<Tensor> containers;  // steps take them as Tensor objects
  for (size_t i = 0; i < inputs.size(); ++i) {
    data[i] = inputs[i].data;
    if (graph_->value(graph_->inputs[i]).type.kind != Type::Kind::kTensor) {
      containers.reserve(inputs.size());
      data[i] = &containers.emplace_back(taken(inputs[i]));
      continue;
    }
    if (!inputs[i].contiguous()) {
      Tensor copy(inputs[i].dtype, Dims(inputs[i].dims.begin(), inputs[i].dims.end()));
      copy_elements(inputs[i], copy.view());
      data[i] = copy.data();
      copies.push_back(std::move(copy));
    }
  }
  execute(context, entry, data, {outputs.data(), outputs.size(), pool.get()}, options);
}

std::shared_ptr<SignatureEntry> Program::shared_entry_for(std::span<const TensorView> inputs,
                                                          RunContext& context) {
  const EpochScope epoch(epochs_, context);
  return entry_for(inputs, context).shared_from_this();
}

void Program::run_prepared(RunContext& context, SignatureEntry& entry, void* const* input_data,
                           const OutputPorts& outputs, const RunOptions& options) {
  const EpochScope epoch(epochs_, context);
  execute(context, entry, input_data, outputs, options);
}

std::vector<Tensor> Program::run_tensors(const std::vector<Tensor>& inputs,
                                         const RunOptions& options) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<xc_tensor*> slots(graph_->outputs.size(), nullptr);
  run(views, slots, body_pool_, options);
  std::vector<Tensor> out;
  for (xc_tensor* handle : slots) out.push_back(take_tensor(handle));
  return out;
}

Program& Program::child(const Node& node, size_t subgraph, std::span<const TensorView> inputs) {
  const auto fits = [&](const Child& child) {
    return std::equal(inputs.begin(), inputs.end(), child.inputs.begin(), child.inputs.end(),
                      [](const TensorView& given, const std::pair<DType, int64_t>& known) {
                        return given.dtype == known.first && given.rank() == known.second;
                      });
  };
  std::lock_guard lock(mutex_);
  std::vector<Child>& children = children_[node.subgraphs.at(subgraph).get()];
  const auto known = std::find_if(children.begin(), children.end(), fits);
  if (known != children.end()) return *known->program;
  // Dims the model fixes stay; the others become symbols of the body, whose rank is known now.
  auto body = std::make_shared<Graph>(node.subgraphs[subgraph]->clone());
  Child child;
  for (size_t i = 0; i < body->inputs.size(); ++i) {
    child.inputs.emplace_back(inputs[i].dtype, inputs[i].rank());
    Value& value = body->value(body->inputs[i]);
    if (value.type.kind != Type::Kind::kTensor) continue;
    SymDims dims;
    for (int64_t axis = 0; axis < inputs[i].rank(); ++axis) {
      const bool declared =
          value.type.dims && static_cast<int64_t>(value.type.dims->size()) == inputs[i].rank();
      const auto fixed =
          declared ? (*value.type.dims)[static_cast<size_t>(axis)].constant() : std::nullopt;
      dims.push_back(fixed ? Dim(*fixed)
                           : Dim::symbol("b" + std::to_string(i) + "_" + std::to_string(axis)));
    }
    value.type = Type::tensor(inputs[i].dtype, dims);
    value.elements.reset();
  }
  for (uint32_t v = 0; v < body->value_count(); ++v)
    if (!body->value(v).is_input && !body->value(v).is_constant()) {
      body->value(v).type.dims.reset();
      body->value(v).elements.reset();
    }
  infer_types(*body);
  child.program = create(engine_, body, config_, name_ + "/" + node.name);
  return *children.emplace_back(std::move(child)).program;
}

}  // namespace xc
