#include "runtime/executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/clock.h"
#include "base/memory_budget.h"
#include "ir/place.h"
#include "ops/containers.h"
#include "ops/infer.h"
#include "plan/segments.h"
#include "runtime/capture.h"
#include "runtime/dynamic_step.h"
#include "runtime/overlap.h"

namespace xc {

void Executor::check_stop() const {
  if (options_.cancel && options_.cancel->load(std::memory_order_relaxed))
    throw Error(Status::kCancelled, "the run was cancelled by the host");
  if (options_.deadline_ns > 0 && steady_ns() > options_.deadline_ns)
    throw Error(Status::kDeadline, "the run's deadline has passed");
}

void** Executor::resolve(const Bound& bound, int side, bool reuse) {
  while (context_.segments.size() <= bound.segment)
    context_.segments.emplace_back(program_.engine());
  RunContext::SegmentState& state = context_.segments[bound.segment];
  if (state.arena.reserve(bound.arena_bytes))
    state.resolved[0].serial = state.resolved[1].serial = 0;
  if (program_.config().poison_arena && state.arena.data())
    std::memset(state.arena.data(), 0xff, static_cast<size_t>(state.arena.bytes()));
  context_.scratch.reserve(bound.all_scratch_bytes());
  ResolvedBound& resolved = state.resolved[side];
  if (reuse && resolved.serial == bound.serial) return resolved.pointers.data();

  // What earlier segments made stays where it is, in whichever plan they ran.
  const Plan& plan = *bound.plan;
  std::vector<void*>& bases = context_.bases;
  bases.resize(plan.buffers.size());
  // Buffers are numbered segment by segment; those of later ones have their turn.
  const auto first = std::partition_point(
      plan.buffers.begin(), plan.buffers.end(),
      [&](const PlanBuffer& buffer) { return buffer.segment < bound.segment; });
  for (auto b = first; b != plan.buffers.end() && b->segment == bound.segment; ++b)
    bases[static_cast<size_t>(b - plan.buffers.begin())] = nullptr;
  for (const auto& [buffer, elements] : bound.constants) bases[buffer] = elements.get();
  for (const ArenaSlot& slot : bound.arena) bases[slot.buffer] = state.arena.data() + slot.offset;
  for (const auto& [buffer, tensor] : bound.size_tensors) bases[buffer] = tensor.data();
  resolved.pointers.resize(bound.pointers.size());
  for (size_t k = 0; k < bound.pointers.size(); ++k) {
    const PointerTemplate& t = bound.pointers[k];
    void* base = t.buffer == kNoBuffer ? nullptr : bases[t.buffer];
    resolved.pointers[k] = base ? static_cast<std::byte*>(base) + t.offset : nullptr;
  }
  resolved.serial = bound.serial;
  return resolved.pointers.data();
}

namespace {

std::string place_of_output(const Graph& graph, size_t index) {
  return "output '" + graph.value(graph.outputs[index]).name + "'";
}

[[noreturn]] void refuse_bound(const Graph& graph, size_t index, const Tensor& bound, DType dtype,
                               const Dims& dims) {
  throw Error(Status::kInvalidArgument,
              fmt::format("the tensor given for it is {}{}, the result is {}{}",
                          name(bound.dtype()), to_text(bound.dims()), name(dtype), to_text(dims)),
              place_of_output(graph, index));
}

}  // namespace

void Executor::prepare_outputs(const Bound& bound, const OutputPorts& outputs) {
  const Plan& plan = *bound.plan;
  for (uint32_t i = 0; i < outputs.count; ++i) {
    // Whichever step makes it, and before any runs.
    if (bound.segment == 0 && outputs.slots[i] && !outputs.slots[i]->tensor.contiguous())
      throw Error(Status::kInvalidArgument, "the tensor given for it must be row-major",
                  place_of_output(program_.graph(), i));
    const PlanValue& value = plan.values[plan.outputs[i]];
    const PlanBuffer& buffer = plan.buffers[value.buffer];
    if (buffer.storage != Storage::kOutput || buffer.segment != bound.segment) continue;
    const std::span<const int64_t> dims = bound.dims(plan.outputs[i]);
    if (!outputs.slots[i]) {
      outputs.slots[i] = outputs.pool->acquire(i, value.dtype, dims);
      continue;
    }
    const Tensor& tensor = outputs.slots[i]->tensor;
    if (tensor.dtype() != value.dtype ||
        !std::equal(dims.begin(), dims.end(), tensor.dims().begin(), tensor.dims().end()))
      refuse_bound(program_.graph(), i, tensor, value.dtype, Dims(dims.begin(), dims.end()));
  }
}

void Executor::patch(const Bound& bound, void** pointers, void* const* inputs,
                     const OutputPorts& outputs) {
  for (const PointerPatch& p : bound.input_patches)
    pointers[p.pointer] = static_cast<std::byte*>(inputs[p.port]) + p.offset;
  for (const PointerPatch& p : bound.output_patches)
    pointers[p.pointer] = static_cast<std::byte*>(outputs.slots[p.port]->tensor.data()) + p.offset +
                          (outputs.offsets ? outputs.offsets[p.port] : 0);
}

/// Tensors made by earlier segments.
void Executor::point_to_made(const Bound& bound, void** pointers) const {
  for (size_t k = 0; k < bound.pointers.size(); ++k) {
    const uint32_t b = bound.pointers[k].buffer;
    if (b != kNoBuffer && b < context_.dynamic.size() && context_.dynamic[b])
      pointers[k] = static_cast<std::byte*>(context_.dynamic[b].data()) + bound.pointers[k].offset;
  }
}

namespace {

/// Working memory of a segment's steps: a part that the workers share, then one for each.
struct Scratch {
  std::byte *shared, *first;
  int64_t stride;

  Scratch(std::byte* memory, const Bound& bound)
      : shared(memory),
        first(memory + align_up(bound.shared_bytes, 64)),
        stride(align_up(bound.scratch_bytes, 64)) {}
};

void run_kernel(const BoundKernel& kernel, void** buffers, const Scratch& scratch,
                TaskRunner& runner, int workers) {
  const StepArgs args{buffers, scratch.first, scratch.shared};
  if (workers == 1 || kernel.tasks <= 1) return kernel.run_all(args);
  if (kernel.shared_bytes > 0) kernel.start(args);
  runner.run(kernel.tasks, [&](int64_t task, int worker) {
    const StepArgs mine{args.buffers, scratch.first + worker * scratch.stride, scratch.shared};
    kernel.run(mine, task, task + 1);
  });
  if (kernel.shared_bytes > 0) kernel.finish(args);
}

}  // namespace

uint64_t Executor::run_segment(const Turn& turn, void* const* inputs, const OutputPorts& outputs) {
  const Bound& bound = *turn.version->bound;
  const std::vector<uint8_t>& focus = turn.version->focus;
  BoundTimes* const times = turn.times;
  uint64_t focus_ticks = 0;
  const bool single = bound.plan->segments.size() == 1;
  // Scratch was counted at the bind, for this segment: a plan that wants more of it is no reason to
  // fail where what other segments keep leaves less.
  if (options_.budget) [[unlikely]]
    options_.budget->charge(bound.value_bytes());
  prepare_outputs(bound, outputs);
  void** pointers = resolve(bound, turn.side, single);
  if (!single) point_to_made(bound, pointers);
  patch(bound, pointers, inputs, outputs);
  CaptureScope capture(program_, bound, inputs, pointers, !options_.no_alloc);

  TaskRunner& runner = program_.engine().tasks();
  const int workers = runner.workers();
  const Scratch scratch(context_.scratch.data(), bound);
  std::optional<TaskSeries> series;
  if (bound.divided) series.emplace(runner);
  const bool stoppable = options_.cancel || options_.deadline_ns > 0;
  size_t position = 0;
  try {
    for (; position < bound.steps.size(); ++position) {
      const BoundStep& step = bound.steps[position];
      if (stoppable) [[unlikely]]
        check_stop();
      if (turn.look) [[unlikely]]
        look_at(bound, step, pointers, turn.look);
      const uint64_t start = times ? ticks() : 0;
      if (step.kernel) [[likely]]
        run_kernel(*step.kernel, pointers + step.first_pointer, scratch, runner, workers);
      else
        run_opaque(bound, step, pointers);
      if (times) {
        const uint64_t spent = ticks() - start;
        times->add_step(step.step, spent);
        context_.counted.push_back({times, step.step, spent});
        if (traced_) [[unlikely]]
          traced_->push_back({step.step, start, start + spent});
        if (focus.empty() || focus[step.step]) focus_ticks += spent;
      }
      if (capture) [[unlikely]]
        capture.after_step(position, pointers);
    }
  } catch (const Error& error) {
    const Step& step = *bound.plan->steps[bound.steps[position].step];
    throw error.at(node_place(step.name, step.spec.op->name));
  }
  capture.finish();
  return focus_ticks;
}

void Executor::look_at(const Bound& bound, const BoundStep& bound_step, void* const* pointers,
                       uint64_t number) {
  const uint64_t start = ticks();
  const Plan& plan = *bound.plan;
  const Step& step = *plan.steps[bound_step.step];
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    if (step.inputs[k] == kNoValue || !bound.dims(step.inputs[k]).data()) continue;
    const PlanValue& value = plan.values[step.inputs[k]];
    if (!value.rank_known || value.id == kNone) continue;
    program_.value_facts().look(number, value.id,
                                {pointers[bound_step.first_pointer + k], value.dtype,
                                 bound.dims(step.inputs[k]), bound.strides(step.inputs[k])});
  }
  looked_ += ticks() - start;
}

namespace {

/// Which output slots the caller has filled.
class GivenSlots {
 public:
  explicit GivenSlots(const OutputPorts& outputs) {
    for (size_t i = 0; i < outputs.count; ++i) {
      if (i < 64)
        first_ |= static_cast<uint64_t>(outputs.slots[i] != nullptr) << i;
      else
        others_.push_back(outputs.slots[i] != nullptr);
    }
  }
  /// What a run that fails has put into the others.
  void release_others(const OutputPorts& outputs) const {
    for (size_t i = 0; i < outputs.count; ++i) {
      const bool given = i < 64 ? ((first_ >> i) & 1) != 0 : others_[i - 64];
      if (given || !outputs.slots[i]) continue;
      outputs.slots[i]->release();
      outputs.slots[i] = nullptr;
    }
  }

 private:
  uint64_t first_ = 0;        ///< bit i: slot i
  std::vector<bool> others_;  ///< from slot 64 on: few models have as many, which may allocate
};

}  // namespace

/// Results of dynamic and control steps.
void Executor::hand_out_made(const Bound& last, void* const* inputs, const OutputPorts& outputs) {
  const Plan& plan = *last.plan;
  // Nobody writes into results of a body: they may share.
  const bool to_caller = outputs.pool != program_.body_pool().get();
  HandedOut handed_out;
  for (uint32_t i = 0; i < outputs.count; ++i) {
    const PlanValue& value = plan.values[plan.outputs[i]];
    const PlanBuffer& buffer = plan.buffers[value.buffer];
    const bool container = value.dtype == DType::kUndefined;
    if (buffer.storage != Storage::kDynamic && !container) continue;
    Tensor tensor =
        buffer.storage == Storage::kDynamic
            ? program_.engine().row_major(dynamic_tensor(last, plan.outputs[i]), nullptr)
            : *static_cast<const Tensor*>(inputs[buffer.index]);
    // It may be an element of a sequence that the caller has lent.
    const Graph& graph = program_.graph();
    if (!container && std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                  [&](ValueId input) { return is_container(graph.value(input)); }))
      tensor = tensor.clone();
    if (!outputs.slots[i]) {
      const int64_t copied =
          to_caller ? handed_out.separate(tensor, graph.value(graph.outputs[i]).type) : 0;
      if (options_.budget) options_.budget->charge(copied);
      outputs.slots[i] = new xc_tensor;
      outputs.slots[i]->tensor = tensor;
      continue;
    }
    const Tensor& to = outputs.slots[i]->tensor;
    if (container)
      throw Error(Status::kUnsupported, "a sequence goes into no tensor that is given for it",
                  place_of_output(graph, i));
    if (to.dtype() != tensor.dtype() || to.dims() != tensor.dims())
      refuse_bound(graph, i, to, tensor.dtype(), tensor.dims());
    copy_elements(tensor.view(), to.view());
  }
}

void Executor::run(const Turn& turn, uint64_t run, void* const* inputs,
                   const OutputPorts& outputs) {
  const uint64_t start = turn.times ? ticks() : 0;
  const BudgetScope budget(options_.budget);
  uint64_t focus = 0;
  const Bound* last = turn.version->bound.get();
  TracedRun traced;
  RunTrace* const trace = turn.times ? program_.trace() : nullptr;
  if (trace) traced_ = &traced.steps;
  const GivenSlots given(outputs);
  try {
    context_.later.clear();
    context_.counted.clear();
    focus = run_segment(turn, inputs, outputs);
    if (last->plan->segments.size() > 1) last = &run_later(turn, run, inputs, outputs);
    hand_out_made(*last, inputs, outputs);
  } catch (...) {
    given.release_others(outputs);
    context_.dynamic.clear();
    for (const auto& [times, step, spent] : context_.counted) times->take_back(step, spent);
    throw;
  }
  if (!context_.dynamic.empty()) context_.dynamic.clear();
  if (turn.times) turn.times->add_run(ticks() - start - looked_, focus);
  if (turn.look) program_.value_facts().rest(looked_);
  if (trace) {
    try {
      traced.plan = last->plan;
      traced.symbols = last->symbols;
      traced.challenger = turn.side == 1;
      traced.begin = start;
      traced.end = ticks();
      trace->add(std::move(traced));
    } catch (...) {
      // The results are the caller's already: the run is missing from the trace, no more.
    }
  }
}

const Bound& Executor::run_later(const Turn& first, uint64_t run, void* const* inputs,
                                 const OutputPorts& outputs) {
  const Bound* last = first.version->bound.get();
  std::vector<int64_t>& symbols = context_.symbols;
  symbols = last->symbols;
  const auto count = static_cast<uint32_t>(last->plan->segments.size());
  for (uint32_t s = 1; s < count; ++s) {
    const Plan& plan = *last->plan;
    for (size_t k = symbols.size(); k < plan.segments[s].symbol_end; ++k) {
      const PlanSymbol& symbol = plan.symbols[k];
      const Tensor& tensor = context_.dynamic[plan.values[symbol.operand].buffer];
      symbols.push_back(tensor.dims().at(symbol.index));
    }
    SignatureEntry& entry = program_.later_entry(last->plan, s, symbols, context_);
    const Turn turn = program_.take_turn(entry, run, &first);
    context_.on_trial |= turn.trial;
    const uint64_t start = turn.times ? ticks() : 0, looked = looked_;
    const size_t counted = context_.counted.size();
    last = turn.version->bound.get();
    const uint64_t focus = run_segment(turn, inputs, outputs);
    if (turn.times) turn.times->add_run(ticks() - start - (looked_ - looked), focus);
    context_.counted.resize(counted);
    context_.later.push_back({&entry, turn});
  }
  return *last;
}

// ---- dynamic and control steps ------------------------------------------------------------------

Tensor Executor::dynamic_tensor(const Bound& bound, uint32_t v) const {
  const PlanValue& value = bound.plan->values[v];
  const Tensor& made = context_.dynamic[value.buffer];
  // The tensor itself, when the plan knows no more than that it comes; else a view of it.
  if (!value.rank_known || bound.dims(v).data() == nullptr) return made;
  const std::span<const int64_t> dims = bound.dims(v), strides = bound.strides(v);
  return Tensor(made.buffer(), made.byte_offset() + bound.offset(v) * element_size(value.dtype),
                value.dtype, Dims(dims.begin(), dims.end()), Dims(strides.begin(), strides.end()));
}

TensorView Executor::view_of(const Bound& bound, uint32_t v, void* data) const {
  if (v == kNoValue) return {};
  const PlanValue& value = bound.plan->values[v];
  const std::span<const int64_t> dims = bound.dims(v);
  if (value.rank_known && dims.data()) return {data, value.dtype, dims, bound.strides(v)};
  return context_.dynamic[value.buffer].view();
}

Tensor Executor::tensor_of(const Bound& bound, uint32_t v, void* data) const {
  if (v == kNoValue) return {};
  const Plan& plan = *bound.plan;
  const PlanValue& value = plan.values[v];
  if (plan.buffers[value.buffer].storage == Storage::kDynamic) return dynamic_tensor(bound, v);
  if (value.dtype == DType::kUndefined) return *static_cast<const Tensor*>(data);
  const std::span<const int64_t> dims = bound.dims(v), strides = bound.strides(v);
  int64_t reach = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    if (strides[i] > 0) reach += (dims[i] - 1) * strides[i];
  const int64_t bytes = (reach + 1) * element_size(value.dtype);
  return Tensor(Buffer::wrap(data, bytes, {}), 0, value.dtype, Dims(dims.begin(), dims.end()),
                Dims(strides.begin(), strides.end()));
}

void Executor::set_dynamic(const Bound& bound, uint32_t v, Tensor tensor, void** pointers) {
  const Plan& plan = *bound.plan;
  const PlanValue& value = plan.values[v];
  if (value.dtype != DType::kUndefined && tensor.dtype() != value.dtype)
    fail(Status::kInvalidModel, "a body yields {}, the model declares {}", name(tensor.dtype()),
         name(value.dtype));
  // Dims the plan knows must hold: later steps were bound for them.
  if (value.rank_known) {
    // Exporters confuse a scalar with a vector of one element in what a body declares: there the
    // declared rank is believed.
    if (tensor.rank() != static_cast<int64_t>(value.dims.size()) && tensor.count() == 1)
      tensor =
          Tensor(tensor.buffer(), tensor.byte_offset(), tensor.dtype(), Dims(value.dims.size(), 1));
    if (tensor.rank() != static_cast<int64_t>(value.dims.size()))
      fail(Status::kInvalidModel, "result has dims {}, the model declares {}",
           to_text(tensor.dims()), to_text(value.dims));
    for (size_t axis = 0; axis < value.dims.size(); ++axis)
      if (value.dims[axis].is_constant() && value.dims[axis].value() != tensor.dims()[axis])
        fail(Status::kInvalidModel, "result has dims {}, the model declares {}",
             to_text(tensor.dims()), to_text(value.dims));
  }
  if (context_.dynamic.size() < plan.buffers.size()) context_.dynamic.resize(plan.buffers.size());
  tensor = program_.engine().row_major(tensor, options_.budget);
  const auto readers =
      std::ranges::equal_range(bound.dynamic_pointers, value.buffer, {},
                               [&](uint32_t at) { return bound.pointers[at].buffer; });
  for (const uint32_t at : readers)
    pointers[at] = static_cast<std::byte*>(tensor.data()) + bound.pointers[at].offset;
  context_.dynamic[value.buffer] = std::move(tensor);
}

namespace {

/// Of the containers among some values, or of the others.
int64_t bytes_of(const std::vector<Tensor>& values, bool containers) {
  int64_t bytes = 0;
  for (const Tensor& t : values)
    if ((t.dtype() == DType::kTensor) == containers) bytes = checked_add(bytes, held_bytes(t));
  return bytes;
}

}  // namespace

void Executor::run_opaque(const Bound& bound, const BoundStep& bound_step, void** pointers) {
  const Step& step = *bound.plan->steps[bound_step.step];
  if (context_.dynamic.size() < bound.plan->buffers.size())
    context_.dynamic.resize(bound.plan->buffers.size());
  void* const* const operands = pointers + bound_step.first_pointer;
  std::vector<Tensor> outputs = cut_out(bound, step, operands);
  int64_t given = 0;
  if (outputs.empty()) {
    std::vector<Tensor> inputs;
    inputs.reserve(step.inputs.size());
    for (size_t k = 0; k < step.inputs.size(); ++k)
      inputs.push_back(tensor_of(bound, step.inputs[k], operands[k]));
    if (options_.budget) given = bytes_of(inputs, true);
    outputs = carry_out(bound, step, std::move(inputs));
  }
  if (options_.budget) {
    // Containers share with those they were made of.
    const int64_t more = std::max<int64_t>(0, bytes_of(outputs, true) - given);
    options_.budget->charge(checked_add(bytes_of(outputs, false), more));
  }
  for (size_t k = 0; k < step.outputs.size(); ++k)
    if (step.outputs[k] != kNoValue)
      set_dynamic(bound, step.outputs[k], std::move(outputs.at(k)), pointers);
}

std::vector<Tensor> Executor::cut_out(const Bound& bound, const Step& step,
                                      void* const* operands) const {
  constexpr size_t kMost = 8;
  const Node& node = *step.spec.node;
  if (!node.op->concrete_views || step.inputs.size() > kMost) return {};
  std::array<TensorView, kMost> inputs;
  for (size_t k = 0; k < step.inputs.size(); ++k)
    inputs[k] = view_of(bound, step.inputs[k], operands[k]);
  const BudgetScope until_done(options_.budget);
  return copy_views(program_.engine(), node, std::span(inputs).first(step.inputs.size()),
                    options_.budget);
}

std::vector<Tensor> Executor::carry_out(const Bound& bound, const Step& step,
                                        std::vector<Tensor> inputs) {
  const BudgetScope until_done(options_.budget);
  const Node& node = *step.spec.node;
  if (step.kind == Step::Kind::kControl)
    return run_control(program_, node, inputs, options_, [&] { check_stop(); });
  if (!node.op->evaluate) return run_dynamic_step(program_, node, inputs, options_.budget);
  // Containers outlive the step, and their tensors are row-major: what lies in the arena, belongs
  // to the caller or is a view is copied.
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (step.inputs[k] == kNoValue) continue;
    const PlanValue& value = bound.plan->values[step.inputs[k]];
    if (value.dtype == DType::kUndefined) continue;
    if (options_.budget) options_.budget->charge(inputs[k].byte_size());
    inputs[k] = bound.plan->buffers[value.buffer].storage == Storage::kDynamic
                    ? inputs[k].to_contiguous()
                    : inputs[k].clone();
  }
  return node.op->evaluate(node, inputs);
}

}  // namespace xc
