#include "plan/bound.h"

#include <algorithm>
#include <atomic>

#include "base/checked.h"
#include "ops/op.h"
#include "plan/in_place_steps.h"
#include "plan/memory_plan.h"

namespace xc {
namespace {

std::atomic<uint64_t> next_serial{1};  // only an identity, never an order

/// Symbolic inference assumes that sizes fit where it cannot know (two symbols that must be equal,
/// a cut size). With the sizes at hand the operator's own inference decides: it refuses what does
/// not fit, and must give the dims that were planned. One for all steps: they share its memory.
class SizeCheck {
 public:
  explicit SizeCheck(const Bound& bound) : bound_(bound) {
    context_.fresh = [](const std::string& hint) { return Dim::symbol(hint); };
  }

  void step(const Step& step, std::span<const BoundOperand> outputs) {
    const auto symbolic = [](const Operand& operand) {
      return !std::all_of(operand.dims.begin(), operand.dims.end(),
                          [](const Dim& d) { return d.is_constant(); });
    };
    const Node& node = *step.spec.node;
    const size_t count = node.inputs.size();
    if (std::none_of(step.spec.inputs.begin(),
                     step.spec.inputs.begin() + static_cast<ptrdiff_t>(count), symbolic))
      return;
    types_.resize(std::max(types_.size(), count));
    context_.node = &node;
    context_.inputs.assign(count, {});
    for (size_t k = 0; k < count; ++k)
      if (step.spec.inputs[k].present()) set_input(k, step.spec.inputs[k], step.inputs[k]);
    context_.outputs.assign(node.outputs.size(), {});
    context_.output_elements.assign(node.outputs.size(), std::nullopt);
    node.op->infer(context_);
    for (size_t k = 0; k < std::min(outputs.size(), context_.outputs.size()); ++k) {
      const auto& dims = context_.outputs[k].dims;
      if (step.outputs[k] != kNoValue && dims) check_result(*dims, outputs[k].dims);
    }
  }

 private:
  void set_input(size_t k, const Operand& operand, uint32_t value) {
    const std::span<const int64_t> dims = bound_.dims(value);
    types_[k] = Type::tensor(operand.dtype, SymDims(dims.begin(), dims.end()));
    context_.inputs[k].type = &types_[k];
    if (operand.constant) context_.inputs[k].value = &operand.constant;
    const uint32_t buffer = bound_.plan->values[value].buffer;
    for (const auto& [index, tensor] : bound_.size_tensors)
      if (index == buffer &&
          std::equal(dims.begin(), dims.end(), tensor.dims().begin(), tensor.dims().end()))
        context_.inputs[k].value = &tensor;
  }

  static void check_result(const SymDims& dims, std::span<const int64_t> planned) {
    const auto differs = [](const Dim& d, int64_t size) {
      return d.is_constant() && d.value() != size;
    };
    bool same = dims.size() == planned.size();
    for (size_t i = 0; same && i < planned.size(); ++i) same = !differs(dims[i], planned[i]);
    if (!same)
      fail(Status::kInvalidArgument,
           "with these input sizes the result has dims {}, the model was planned for {}",
           to_text(dims), to_text(Dims(planned.begin(), planned.end())));
  }

  const Bound& bound_;
  InferContext context_;
  std::vector<Type> types_;
};

void check_sizes(const Plan& plan, const std::vector<int64_t>& symbols) {
  const Dim::Lookup lookup = [&](const std::string& symbol) {
    return symbol_value(plan, symbols, symbol);
  };
  for (const Plan::SizeCheck& check : plan.size_checks) {
    const auto given = check.given.evaluate(lookup), wanted = check.wanted.evaluate(lookup);
    if (!given || !wanted || *given == *wanted || (check.broadcast && *given == 1)) continue;
    throw Error(Status::kInvalidArgument, fmt::format(fmt::runtime(check.problem), *given, *wanted),
                check.place);
  }
}

/// What a run of the segment takes: its arena, scratch of one worker, and results.
int64_t needed_bytes(const Bound& bound) {
  int64_t bytes = checked_add(bound.arena_bytes, bound.scratch_bytes);
  bytes = checked_add(bytes, bound.shared_bytes);
  for (uint32_t v : bound.plan->outputs) {
    const PlanValue& value = bound.plan->values[v];
    const PlanBuffer& buffer = bound.plan->buffers[value.buffer];
    if (buffer.storage == Storage::kOutput && buffer.segment == bound.segment)
      bytes =
          checked_add(bytes, checked_mul(element_count(bound.dims(v)), element_size(value.dtype)));
  }
  return bytes;
}

/// Gives every arena buffer its place, and those that lie in an output to the run to fill in.
void place_arena(Bound& bound, const InPlaceSteps& in_place, int64_t max_bytes) {
  bound.arena_bytes = plan_memory(in_place.requests(), bound.arena);
  if (max_bytes > 0)
    if (const int64_t needed = needed_bytes(bound); needed > max_bytes)
      fail(Status::kLimit,
           "this run needs {} bytes for values and results, max_memory_bytes allows {}", needed,
           max_bytes);
  in_place.place(bound.arena);
  for (uint32_t at = 0; at < bound.pointers.size(); ++at) {
    const PointerTemplate& pointer = bound.pointers[at];
    if (pointer.buffer == UINT32_MAX) continue;
    if (const uint32_t output = in_place.output_of(pointer.buffer); output != kNone)
      bound.output_patches.push_back({at, bound.plan->buffers[output].index, pointer.offset});
  }
}

/// The constants that a segment's steps read, and which of them have to be aligned.
class ReadConstants {
 public:
  explicit ReadConstants(Bound& bound) : bound_(bound), reads_(bound.plan->buffers.size()) {}

  /// `kernel`: null for a step that another program, or the run, executes.
  void add(const Step& step, const BoundKernel* kernel) {
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      if (step.inputs[k] == kNoValue) continue;
      const uint32_t buffer = bound_.plan->values[step.inputs[k]].buffer;
      if (bound_.plan->buffers[buffer].storage != Storage::kConstant) continue;
      const auto says = [k](uint32_t mask) { return k < 32 && (mask >> k & 1) != 0; };
      if (kernel && says(kernel->unread)) continue;
      const Read read = kernel && says(kernel->any_address) ? Read::kBytes : Read::kAligned;
      reads_[buffer] = std::max(reads_[buffer], read);
    }
  }

  void hold() {
    for (uint32_t b = 0; b < reads_.size(); ++b)
      if (reads_[b] != Read::kNot)
        bound_.constants.emplace_back(
            b, bound_.plan->buffers[b].constant.held(reads_[b] == Read::kBytes));
  }

 private:
  enum class Read : uint8_t { kNot, kBytes, kAligned };
  Bound& bound_;
  std::vector<Read> reads_;  ///< per PlanBuffer
};

}  // namespace

std::shared_ptr<const Bound> bind_segment(const std::shared_ptr<const Plan>& plan,
                                          uint32_t segment_index, std::vector<int64_t> symbols,
                                          const BindOptions& options) {
  const Segment& segment = plan->segments[segment_index];
  const Plan::SegmentProgram& program = plan->programs[segment_index];
  XC_CHECK(symbols.size() >= segment.symbol_end);
  auto bound = std::make_shared<Bound>();
  bound->plan = plan;
  bound->segment = segment_index;
  bound->serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  bound->symbols = std::move(symbols);
  check_sizes(*plan, bound->symbols);
  bound->sizes.resize(program.dims.size());
  program.dims.run(bound->symbols.data(), bound->sizes.data());

  std::vector<int64_t> offsets(plan->values.size(), 0);
  bound->operands.resize(plan->values.size());
  for (size_t k = 0; k < program.values.size(); ++k) {
    const PlanValue& value = plan->values[program.values[k]];
    const int64_t* at = bound->sizes.data() + program.value_positions[k];
    const size_t rank = value.dims.size();
    bound->operands[program.values[k]] = {{at, rank}, {at + rank, rank}};
    (void)element_count({at, rank});  // refuses negative dims and overflow
    offsets[program.values[k]] = at[2 * rank];
  }

  std::vector<ArenaRequest> requests;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const PlanBuffer& buffer = plan->buffers[program.buffers[k]];
    const int64_t* at = bound->sizes.data() + program.buffer_positions[k];
    if (buffer.storage == Storage::kArena) {
      requests.push_back({program.buffers[k], checked_mul(*at, element_size(buffer.dtype)),
                          buffer.first_step, buffer.last_step});
      continue;
    }
    Dims dims;
    for (const PlanValue& value : plan->values)
      if (value.buffer == program.buffers[k]) {
        dims = *to_concrete(value.dims);
        break;
      }
    Tensor tensor(buffer.dtype, dims);
    for (size_t i = 0; i < buffer.sizes.size(); ++i)
      store_int64(tensor.data(), buffer.dtype, static_cast<int64_t>(i), at[i]);
    bound->size_tensors.emplace_back(program.buffers[k], std::move(tensor));
  }
  const auto add_pointer = [&](uint32_t v) {
    if (v == kNoValue) {
      bound->pointers.push_back({});
      return;
    }
    const PlanValue& value = plan->values[v];
    const int64_t offset = checked_mul(offsets[v], element_size(value.dtype));
    const PlanBuffer& buffer = plan->buffers[value.buffer];
    const auto at = static_cast<uint32_t>(bound->pointers.size());
    if (buffer.storage == Storage::kInput)
      bound->input_patches.push_back({at, buffer.index, offset});
    if (buffer.storage == Storage::kOutput)
      bound->output_patches.push_back({at, buffer.index, offset});
    bound->pointers.push_back({value.buffer, offset});
  };
  size_t operand_count = 0;
  for (uint32_t k = segment.first_step; k < segment.end_step; ++k)
    operand_count += plan->steps[k]->inputs.size() + plan->steps[k]->outputs.size();
  bound->pointers.reserve(operand_count);
  bound->steps.reserve(segment.end_step - segment.first_step);
  SizeCheck size_check(*bound);
  InPlaceSteps in_place(*bound, requests);
  ReadConstants constants(*bound);
  std::vector<BoundOperand> inputs, outputs;
  for (uint32_t k = segment.first_step; k < segment.end_step; ++k) {
    const Step& step = *plan->steps[k];
    BoundStep bound_step;
    bound_step.step = k;
    bound_step.first_pointer = static_cast<uint32_t>(bound->pointers.size());
    for (uint32_t v : step.inputs) add_pointer(v);
    for (uint32_t v : step.outputs) add_pointer(v);
    if (step.kind == Step::Kind::kKernel) {
      inputs.clear();
      outputs.clear();
      for (uint32_t v : step.inputs)
        inputs.push_back(v == kNoValue ? BoundOperand{} : bound->operands[v]);
      for (uint32_t v : step.outputs)
        outputs.push_back(v == kNoValue ? BoundOperand{} : bound->operands[v]);
      // Only a kernel with an Add behind it makes use of it.
      const BindContext context{inputs, outputs, options.background,
                                step.spec.post_ops.empty() ? 0 : in_place.replaceable(k)};
      bound_step.kernel =
          located("node '" + step.name + "' (" + std::string(step.spec.op->name) + ")", [&] {
            // A region stands for steps that the base plan, bound before, has checked.
            if (step.region == Hash128{} && !step.nodes.empty()) size_check.step(step, outputs);
            return step.kernel->bind(context);
          });
      bound->scratch_bytes = std::max(bound->scratch_bytes, bound_step.kernel->scratch_bytes);
      bound->shared_bytes = std::max(bound->shared_bytes, bound_step.kernel->shared_bytes);
      bound->held_bytes += bound_step.kernel->held_bytes;
      bound->provisional = bound->provisional || bound_step.kernel->provisional;
      in_place.add(k, *bound_step.kernel);
    }
    constants.add(step, bound_step.kernel.get());
    bound->steps.push_back(std::move(bound_step));
  }
  constants.hold();
  place_arena(*bound, in_place, options.max_bytes);
  constexpr size_t kBlock = 16, kVectors = 10;  // what the C library adds to a block, about
  constexpr size_t kSharedKernel = 64;          // control block of a kernel, its vectors' blocks
  const auto bytes_of = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  bound->held_bytes += static_cast<int64_t>(
      sizeof(Bound) + kVectors * kBlock + bytes_of(bound->symbols) + bytes_of(bound->sizes) +
      bytes_of(bound->operands) + bytes_of(bound->arena) + bytes_of(bound->size_tensors) +
      bytes_of(bound->constants) + bytes_of(bound->steps) + bytes_of(bound->pointers) +
      bytes_of(bound->input_patches) + bytes_of(bound->output_patches) +
      bound->steps.size() * kSharedKernel);
  return bound;
}

}  // namespace xc
