// A run that may not allocate: whatever it needs is looked for first, and where something is
// missing it is refused before anything was touched. What earlier runs of the same shapes left is
// enough.

#include <algorithm>

#include "base/clock.h"
#include "runtime/executor.h"
#include "runtime/output_pool.h"
#include "runtime/overlap.h"
#include "runtime/program.h"

namespace xc {
namespace {

constexpr size_t kMaxPorts = 64;

[[noreturn]] void refuse(const std::string& why) {
  fail(Status::kLimit,
       "this run may not allocate, and {}: run these shapes once without no_alloc (with as many "
       "threads at once), or prepare a call; freeze the session if its plans should not change",
       why);
}

/// A context of the program for the time of a run, if one is idle.
class IdleContext {
 public:
  IdleContext(Program& program, RunContext& context) : program_(program), context_(context) {}
  ~IdleContext() {
    context_.epoch.store(0, std::memory_order_release);
    program_.give_back(context_);
  }
  IdleContext(const IdleContext&) = delete;
  IdleContext& operator=(const IdleContext&) = delete;

 private:
  Program& program_;
  RunContext& context_;
};

/// Why a run of `bound` in `context` would have to allocate; null = it would not.
const char* missing(const Bound& bound, const RunContext& context) {
  const Plan& plan = *bound.plan;
  if (plan.segments.size() > 1) return "some of its sizes are known only while it runs";
  for (const BoundStep& step : bound.steps)
    if (!step.kernel || step.kernel->allocates)
      return "the model has steps that make memory of their own";
  if (context.segments.size() <= bound.segment ||
      context.segments[bound.segment].arena.bytes() < bound.arena_bytes ||
      context.scratch.bytes() < bound.all_scratch_bytes())
    return "its working memory is too small";
  const ResolvedBound& resolved = context.segments[bound.segment].resolved[0];
  if (resolved.pointers.capacity() < bound.pointers.size() ||
      context.bases.capacity() < plan.buffers.size())
    return "its plan is new";
  return nullptr;
}

}  // namespace

size_t Program::key_size(std::span<const TensorView> inputs) const {
  size_t size = inputs.size();
  for (const TensorView& t : inputs) size += t.dims.size();
  for (const PlanSymbol& symbol : base_plan_->symbols)
    size += symbol.source == PlanSymbol::Source::kInputElement;
  return size;
}

std::shared_ptr<Program> Program::known_ranks(std::span<const TensorView> inputs) {
  check_inputs(inputs);
  auto known = known_child(*graph_, inputs);
  if (!known) refuse("these shapes are new");
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
  refuse(none ? "no run has made a context yet" : "every context of the session is in use");
}

void Program::run_in_place(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                           OutputPool& pool, const RunOptions& options) {
  check_inputs(inputs);
  void* data[kMaxPorts];
  if (std::max(inputs.size(), outputs.size()) > kMaxPorts)
    refuse("the model has more than 64 inputs or outputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph_->value(graph_->inputs[i]).type.kind != Type::Kind::kTensor)
      refuse("inputs that are no tensors are copied");
    if (!inputs[i].contiguous()) refuse("inputs that are not row-major are copied");
    data[i] = inputs[i].data;
  }
  RunContext& context = take_idle();
  const IdleContext held(*this, context);
  context.epoch.store(epochs_.current(), std::memory_order_seq_cst);
  if (context.key.capacity() < key_size(inputs)) refuse("these shapes are new");
  key_of(inputs, context.key);
  SignatureEntry* entry = nullptr;
  {
    std::shared_lock lock(table_mutex_);
    if (const auto it = table_.find(context.key); it != table_.end()) entry = it->second.get();
  }
  if (!entry) refuse("these shapes are new");
  check_apart(inputs, outputs);
  Version& version = *entry->current.load(std::memory_order_seq_cst)->active;
  const Bound& bound = *version.bound;
  if (const char* why = missing(bound, context)) refuse(why);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const PlanValue& value = bound.plan->values[bound.plan->outputs[i]];
    const Storage storage = bound.plan->buffers[value.buffer].storage;
    if (value.dtype == DType::kUndefined || storage == Storage::kDynamic)
      refuse("an output is made by the run");
    if (!outputs[i] && storage == Storage::kOutput &&
        !pool.ready(i, value.dtype, bound.dims(bound.plan->outputs[i])))
      refuse("no returned output is free");
  }
  const uint64_t run = context.runs.load(std::memory_order_relaxed);
  context.runs.store(run + 1, std::memory_order_relaxed);
  // What only such runs use is in use all the same.
  if (is_sampled(run, kSampleBits)) entry->last_use.store(steady_ns(), std::memory_order_relaxed);
  Executor(*this, context, options)
      .run({.version = &version}, 0, data, {outputs.data(), outputs.size(), &pool});
}

}  // namespace xc
