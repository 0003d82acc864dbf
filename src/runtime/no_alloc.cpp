// A run that may not allocate: whatever it needs is looked for first, and where something is
// missing it is refused before anything was touched. What earlier runs of the same shapes left is
// enough.

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "runtime/epoch_scope.h"
#include "runtime/executor.h"
#include "runtime/output_pool.h"
#include "runtime/overlap.h"
#include "runtime/program.h"

namespace xc {
namespace {

/// What is missing, and what the caller can do about it.
[[noreturn]] void refuse(std::string_view why, std::string_view cure) {
  fail(Status::kLimit, "this run may not allocate, and {}: {}", why, cure);
}

constexpr std::string_view kRunOnce = "run these shapes once without no_alloc",
                           kNeverServed = "run this model without no_alloc";

/// A context of the program for the time of a run, if one is idle.
class IdleContext {
 public:
  IdleContext(Program& program, RunContext& context) : program_(program), context_(context) {}
  ~IdleContext() { program_.give_back(context_); }
  IdleContext(const IdleContext&) = delete;
  IdleContext& operator=(const IdleContext&) = delete;

 private:
  Program& program_;
  RunContext& context_;
};

/// Outputs that the run took for the caller: given back where it fails.
class TakenOutputs {
 public:
  explicit TakenOutputs(const OutputPorts& outputs) : outputs_(outputs) {}
  ~TakenOutputs() {
    for (uint32_t i = 0; i < outputs_.count; ++i)
      if ((taken_ >> i & 1) != 0) std::exchange(outputs_.slots[i], nullptr)->release();
  }
  TakenOutputs(const TakenOutputs&) = delete;
  TakenOutputs& operator=(const TakenOutputs&) = delete;
  bool take(uint32_t output, DType dtype, std::span<const int64_t> dims) {
    outputs_.slots[output] = outputs_.pool->acquire_ready(output, dtype, dims);
    taken_ |= static_cast<uint64_t>(outputs_.slots[output] != nullptr) << output;
    return outputs_.slots[output] != nullptr;
  }
  void keep() { taken_ = 0; }

 private:
  static_assert(kPortsOnStack <= 64);
  const OutputPorts& outputs_;
  uint64_t taken_ = 0;  ///< bit i: slot i
};

/// Refuses where a run of `bound` in `context` would have to allocate.
void check_memory(const Bound& bound, const RunContext& context) {
  const Plan& plan = *bound.plan;
  if (plan.segments.size() > 1)
    refuse("some of its sizes are known only while it runs", kNeverServed);
  for (const BoundStep& step : bound.steps)
    if (!step.kernel || step.kernel->allocates) {
      const Step& by = *plan.steps[step.step];
      refuse(fmt::format("the model has steps that make memory of their own ('{}', {})", by.name,
                         by.spec.op->name),
             kNeverServed);
    }
  if (context.segments.size() <= bound.segment ||
      context.segments[bound.segment].arena.bytes() < bound.arena_bytes ||
      context.scratch.bytes() < bound.all_scratch_bytes())
    refuse("its working memory is too small", kRunOnce);
  const ResolvedBound& resolved = context.segments[bound.segment].resolved[0];
  if (resolved.pointers.capacity() < bound.pointers.size() ||
      context.bases.capacity() < plan.buffers.size())
    refuse("its plan is new",
           "run these shapes once without no_alloc, and freeze the session if its plans should not "
           "change");
}

}  // namespace

size_t Program::key_size(std::span<const TensorView> inputs) const {
  size_t size = inputs.size();
  for (const TensorView& t : inputs) size += t.dims.size();
  for (const PlanSymbol& symbol : base_plan_->symbols)
    size += symbol.source == PlanSymbol::Source::kInputElement;
  return size;
}

std::shared_ptr<Program> Program::known_variant(std::span<const TensorView> inputs) {
  auto known = find_variant(inputs);
  if (!known) refuse("these shapes are new", kRunOnce);
  return known;
}

RunContext& Program::take_idle() {
  std::unique_lock lock(context_mutex_);
  if (!idle_.empty()) {
    RunContext* const context = idle_.back();
    idle_.pop_back();
    return *context;
  }
  const bool none = contexts_.empty();
  lock.unlock();
  if (none) refuse("no run has made a context yet", kRunOnce);
  refuse("every context of the session is in use",
         "run these shapes once without no_alloc on as many threads at once");
}

void Program::run_in_place(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                           OutputPool& pool, const RunOptions& options) {
  check_inputs(inputs);
  if (!bound_->keeps_memory()) {
    pool.keep_memory();
    bound_->keep_memory();
  }
  void* data[kPortsOnStack];
  if (std::max(inputs.size(), outputs.size()) > kPortsOnStack)
    refuse(fmt::format("the model has more than {} inputs or outputs", kPortsOnStack),
           kNeverServed);
  bool strided = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    data[i] = inputs[i].data;
    if (graph_->value(graph_->inputs[i]).type.kind != Type::Kind::kTensor)
      refuse("inputs that are no tensors are copied", kNeverServed);
    if (inputs[i].contiguous()) continue;
    if (holds_objects(inputs[i].dtype))
      refuse("strings that are not row-major are copied", "give them row-major");
    strided = true;
  }
  RunContext& context = take_idle();
  const IdleContext held(*this, context);
  const EpochScope epoch(*this, context);
  if (context.key.capacity() < key_size(inputs)) refuse("these shapes are new", kRunOnce);
  key_of(inputs, context.key);
  SignatureEntry* entry = nullptr;
  {
    std::shared_lock lock(table_mutex_);
    if (const auto it = table_.find(context.key); it != table_.end()) entry = it->second.get();
  }
  if (!entry) refuse("these shapes are new", kRunOnce);
  Version& version = *entry->current.load(std::memory_order_seq_cst)->active;
  const Bound& bound = *version.bound;
  const OutputPorts ports{outputs.data(), outputs.size(), &pool};
  const Staging staging{inputs, data};
  const bool staged = shares_inputs(*graph_, inputs, outputs) || strided;
  const bool room = context.staged.has_room(inputs.size());
  if (staged && room) context.staged.choose(staging, ports, bound.shared_ports);
  if (staged && !(room && context.staged.ready(inputs)))
    refuse("copies of inputs that are not row-major, or in whose memory an output lies, are new",
           "run these inputs once without no_alloc, or give row-major ones and other memory");
  check_memory(bound, context);
  TakenOutputs taken(ports);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const PlanValue& value = bound.plan->values[bound.plan->outputs[i]];
    const Storage storage = bound.plan->buffers[value.buffer].storage;
    if (value.dtype == DType::kUndefined || storage == Storage::kDynamic)
      refuse("an output is made by the run", kNeverServed);
    if (!outputs[i] && storage == Storage::kOutput &&
        !taken.take(i, value.dtype, bound.dims(bound.plan->outputs[i])))
      refuse("no returned output is free", "release one, or give a tensor for it");
  }
  const uint64_t run = context.runs.load(std::memory_order_relaxed);
  context.runs.store(run + 1, std::memory_order_relaxed);
  // What only such runs use is in use all the same.
  if (is_sampled(run, kSampleBits)) entry->last_use.store(steady_ns(), std::memory_order_relaxed);
  if (staged) {
    context.staged.place(staging, nullptr);
    context.staged.copy(inputs);
  }
  Executor(*this, context, options).run({.version = &version}, 0, data, ports);
  taken.keep();
}

}  // namespace xc
