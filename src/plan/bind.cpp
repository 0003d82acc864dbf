#include "ir/place.h"
#include "plan/bound.h"

#include <algorithm>
#include <atomic>

#include "base/checked.h"
#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/memory_budget.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "ops/support.h"
#include "plan/bands.h"
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

  /// The anchor of a kernel step.
  void step(const Step& step, std::span<const BoundOperand> outputs) {
    const Node& node = *step.spec.node;
    begin(node);
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (step.spec.inputs[k].present()) set_input(k, step.spec.inputs[k], step.inputs[k]);
    node.op->infer(context_);
    for (size_t k = 0; k < std::min(outputs.size(), context_.outputs.size()); ++k) {
      const auto& dims = context_.outputs[k].dims;
      if (step.outputs[k] != kNoValue && dims) check_result(*dims, outputs[k].dims);
    }
  }

  /// Another node of a step or one that was superseded, whose values need not be any of the plan.
  void node(const Node& node) {
    const auto types = infer_for_sizes(*bound_.plan->graph, node, [&](const std::string& symbol) {
      return symbol_value(*bound_.plan, bound_.symbols, symbol);
    });
    if (!types) return;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNone) continue;
      const auto& inferred = (*types)[k].dims;
      const auto& planned = bound_.plan->graph->value(node.outputs[k]).type.dims;
      if (!inferred || !planned) continue;
      if (const auto sizes = to_concrete(with_sizes(*planned))) check_result(*inferred, *sizes);
    }
  }

 private:
  /// Inputs and results are there then, and nothing is known of them.
  void begin(const Node& node) {
    types_.resize(std::max(types_.size(), node.inputs.size()));
    context_.node = &node;
    context_.inputs.assign(node.inputs.size(), {});
    context_.outputs.assign(node.outputs.size(), {});
    context_.output_elements.assign(node.outputs.size(), std::nullopt);
  }

  /// The dims with the symbols' values, where those are known.
  std::vector<Dim> with_sizes(std::span<const Dim> dims) const {
    std::vector<Dim> out(dims.begin(), dims.end());
    for (Dim& d : out)
      if (const auto size = d.evaluate([&](const std::string& symbol) {
            return symbol_value(*bound_.plan, bound_.symbols, symbol);
          }))
        d = *size;
    return out;
  }

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

void check_sizes(const Plan& plan, const Plan::SegmentProgram& program,
                 const std::vector<int64_t>& symbols) {
  const Dim::Lookup lookup = [&](const std::string& symbol) {
    return symbol_value(plan, symbols, symbol);
  };
  for (const uint32_t index : program.size_checks) {
    const Plan::SizeCheck& check = plan.size_checks[index];
    const auto [given, wanted] = located(check.place, [&] {
      return std::pair(check.given.evaluate(lookup), check.wanted.evaluate(lookup));
    });
    const bool one = check.broadcast && (given == 1 || wanted == 1);
    if (!given || !wanted || *given == *wanted || one) continue;
    throw Error(Status::kInvalidArgument, fmt::format(fmt::runtime(check.problem), *given, *wanted),
                check.place);
  }
}

/// Gives every arena buffer its place, and those that lie in an output to the run to fill in.
void place_arena(Bound& bound, const InPlaceSteps& in_place, int64_t max_bytes) {
  bound.arena_bytes = plan_memory(in_place.requests(), bound.arena);
  if (max_bytes > 0)
    MemoryBudget(max_bytes).charge(checked_add(bound.value_bytes(), bound.all_scratch_bytes()));
  in_place.place(bound.arena);
  for (uint32_t at = 0; at < bound.pointers.size(); ++at) {
    const PointerTemplate& pointer = bound.pointers[at];
    if (pointer.buffer == kNoBuffer) continue;
    if (const uint32_t output = in_place.output_of(pointer.buffer); output != kNone)
      bound.output_patches.push_back({at, bound.plan->buffers[output].index, pointer.offset});
  }
}

/// Finds kernels in another Bound of the same segment, step by step in rising order.
class KernelsAlike {
 public:
  KernelsAlike(const Bound& bound, const Bound* like) : bound_(bound) {
    if (!like || like->plan != bound.plan || like->segment != bound.segment) return;
    like_ = like;
    same_symbols_ = like->symbols == bound.symbols;
  }

  /// Whether all sizes are those of the other Bound, which were checked when it was bound.
  bool same_symbols() const { return same_symbols_; }

  /// The kernel of a step if all its operands have the sizes and strides they have there. Not one
  /// that asked for memory which may lie otherwise here, one that reads weights which were packed
  /// since, nor, without `stand_ins`, one that another bind may better.
  std::shared_ptr<const BoundKernel> find(const Step& step, const BoundStep& wanted,
                                          bool stand_ins) {
    if (!like_) return nullptr;
    while (next_ < like_->steps.size() && like_->steps[next_].step < wanted.step) ++next_;
    if (next_ == like_->steps.size()) return nullptr;
    const BoundStep& known = like_->steps[next_];
    if (known.step != wanted.step || known.count != 1 || known.replaceable != wanted.replaceable ||
        known.unprepared != wanted.unprepared || (known.kernel->provisional && !stand_ins))
      return nullptr;
    const bool same = same_symbols_ || (same_sizes(step.inputs) && same_sizes(step.outputs));
    return same ? known.kernel : nullptr;
  }

 private:
  bool same_sizes(const std::vector<uint32_t>& values) const {
    const auto same = [](std::span<const int64_t> a, std::span<const int64_t> b) {
      return (a.data() == nullptr) == (b.data() == nullptr) && std::ranges::equal(a, b);
    };
    return std::all_of(values.begin(), values.end(), [&](uint32_t v) {
      return v == kNoValue ||
             (same(bound_.dims(v), like_->dims(v)) && same(bound_.strides(v), like_->strides(v)));
    });
  }

  const Bound& bound_;
  const Bound* like_ = nullptr;
  bool same_symbols_ = false;
  size_t next_ = 0;  ///< in like_->steps
};

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
      if (reads_[buffer] == Read::kNot) read_.push_back(buffer);
      reads_[buffer] = std::max(reads_[buffer], read);
    }
  }

  void hold() {
    bound_.constants.reserve(read_.size());
    for (const uint32_t b : read_)
      bound_.constants.emplace_back(
          b, bound_.plan->buffers[b].constant.held_data(reads_[b] == Read::kBytes));
  }

 private:
  enum class Read : uint8_t { kNot, kBytes, kAligned };
  Bound& bound_;
  std::vector<Read> reads_;     ///< per PlanBuffer
  std::vector<uint32_t> read_;  ///< those that are
};

/// Whether there is time left for kernels that take long to make: BindOptions::seconds.
class TimeLeft {
 public:
  explicit TimeLeft(const BindOptions& options)
      : background_(options.background), nanoseconds_(options.seconds * 1e9) {}

  /// The time begins when this is asked first: then there is some.
  bool any() {
    if (!background_ || nanoseconds_ <= 0) return background_;
    const int64_t now = steady_ns();
    if (begin_ == 0) begin_ = now;
    return static_cast<double>(now - begin_) <= nanoseconds_;
  }

 private:
  bool background_;
  double nanoseconds_;
  int64_t begin_ = 0;
};

template <class Body>
decltype(auto) at_step(const Step& step, Body&& body) {
  return located([&] { return node_place(step.name, step.spec.op->name); },
                 std::forward<Body>(body));
}
template <class Body>
decltype(auto) at_node(const Graph& graph, const Node& node, Body&& body) {
  return located([&] { return node_place(graph, node); }, std::forward<Body>(body));
}

/// Makes the Bound of one segment.
class Binder {
 public:
  Binder(const std::shared_ptr<const Plan>& plan, uint32_t segment, std::vector<int64_t> symbols,
         const BindOptions& options)
      : plan_(*plan),
        segment_(plan->segments[segment]),
        program_(plan->programs[segment]),
        options_(options),
        bound_(std::make_shared<Bound>()),
        size_check_(*bound_),
        time_left_(options) {
    XC_CHECK(symbols.size() >= segment_.symbol_end);
    bound_->plan = plan;
    bound_->segment = segment;
    bound_->serial = next_serial.fetch_add(1, std::memory_order_relaxed);
    bound_->symbols = std::move(symbols);
    has_zero_ = std::ranges::any_of(bound_->symbols, [](int64_t size) { return size < 1; });
  }

  std::shared_ptr<const Bound> run() {
    check_sizes(plan_, program_, bound_->symbols);
    check_superseded();
    evaluate_operands();
    add_buffers();
    if (options_.bands != Bands::kOff) choose_bands();
    check_least_bytes();
    add_steps();
    add_held_bytes();
    return std::move(bound_);
  }

 private:
  using Banded = std::pair<BandChain, std::shared_ptr<const BandedKernel>>;

  /// What operators asked of sizes that simpler ones stand for now.
  void check_superseded() {
    for (const NodeId id : program_.superseded) check_node_sizes(id);
  }

  void check_node_sizes(NodeId id) {
    const Node& node = plan_.graph->node(id);
    at_node(*plan_.graph, node, [&] { size_check_.node(node); });
  }

  void evaluate_operands() {
    Bound& bound = *bound_;
    bound.sizes.resize(program_.dims.size());
    try {
      program_.dims.run(bound.symbols.data(), bound.sizes.data());
    } catch (const Error&) {
      find_impossible_size();
      throw;
    }
    bound.operands.resize(program_.value_slots());
    for (size_t k = 0; k < program_.values.size(); ++k) {
      const PlanValue& value = plan_.values[program_.values[k]];
      const int64_t* at = bound.sizes.data() + program_.value_positions[k];
      const size_t rank = value.dims.size();
      bound.operands[program_.slot_of(program_.values[k])] = {{at, rank}, {at + rank, rank}};
      // Refuses negative dims and overflow.
      const auto count = [&] {
        (void)checked_mul(element_count({at, rank}), element_size(value.dtype));
      };
      if (const NodeId maker = maker_of(value); maker != kNone)
        at_node(*plan_.graph, plan_.graph->node(maker), count);
      else
        count();
    }
  }

  /// Computes the dims of values one by one, in the order of steps, so that what is wrong with one
  /// is told of the node that makes it.
  void find_impossible_size() const {
    const Dim::Lookup lookup = [&](const std::string& symbol) {
      return symbol_value(plan_, bound_->symbols, symbol);
    };
    const auto evaluate = [&](NodeId id, const SymDims& dims) {
      const Node& node = plan_.graph->node(id);
      at_node(*plan_.graph, node, [&] {
        for (const Dim& d : dims) (void)d.evaluate(lookup);
      });
    };
    for (uint32_t k = segment_.first_step; k < segment_.end_step; ++k) {
      const Step& step = *plan_.steps[k];
      for (const NodeId id : step.nodes)  // post-ops among them, whose values are none of the plan
        for (const ValueId v : plan_.graph->node(id).outputs)
          if (v != kNone && plan_.graph->value(v).type.dims)
            evaluate(id, *plan_.graph->value(v).type.dims);
      for (const uint32_t v : step.outputs)
        if (const NodeId maker = v == kNoValue ? kNone : maker_of(plan_.values[v]); maker != kNone)
          evaluate(maker, plan_.values[v].dims);
    }
  }

  NodeId maker_of(const PlanValue& value) const {
    return value.id == kNone ? kNone : plan_.graph->value(value.id).producer;
  }

  /// What the arena is asked for, and the tensors of sizes.
  void add_buffers() {
    for (size_t k = 0; k < program_.buffers.size(); ++k) {
      const PlanBuffer& buffer = plan_.buffers[program_.buffers[k]];
      const int64_t* at = bound_->sizes.data() + program_.buffer_positions[k];
      if (buffer.storage == Storage::kArena) {
        requests_.push_back({program_.buffers[k], checked_mul(*at, element_size(buffer.dtype)),
                             buffer.first_step, buffer.last_step});
        continue;
      }
      Dims dims;
      if (const uint32_t value = program_.buffer_values[k]; value != kNoValue)
        dims = *to_concrete(plan_.values[value].dims);
      Tensor tensor(buffer.dtype, dims);
      for (size_t i = 0; i < buffer.sizes.size(); ++i)
        store_int64(tensor.data(), buffer.dtype, static_cast<int64_t>(i),
                    wrapped(buffer.dtype, at[i]));
      bound_->size_tensors.emplace_back(program_.buffers[k], std::move(tensor));
    }
  }

  /// Kernels for bands are made once it is known that the sizes come again.
  void choose_bands() {
    const bool always = options_.bands == Bands::kAlways;
    for (const BandChain& chain : band_chains(*bound_, always)) {
      if ((!options_.background || options_.seconds > 0) && !always) {
        bound_->provisional = true;
        return;
      }
      for (uint32_t k = chain.first; k < chain.end; ++k) check_sizes_of(*plan_.steps[k]);
      std::shared_ptr<const BandedKernel> kernel;
      try {
        kernel = bind_bands(*bound_, chain);
      } catch (const Error&) {
        // The steps are bound one by one, and say so if they cannot be either.
      }
      if (!kernel) continue;
      adapt_to_bands(chain, requests_);
      banded_.emplace_back(chain, std::move(kernel));
    }
  }

  /// Kernels may keep tables as long as an axis: sizes that no run can hold are refused before any
  /// is bound. All results are held at once, and each other value at some time, perhaps in one.
  void check_least_bytes() const {
    constexpr int64_t kAsks = 1 << 30;  // before that every machine has it
    int64_t least = bound_->value_bytes();
    for (const ArenaRequest& request : requests_) least = std::max(least, request.bytes);
    if (options_.max_bytes > 0)
      MemoryBudget(options_.max_bytes).charge(least);
    else if (const int64_t most = least > kAsks ? machine_memory_bytes() : least; least > most)
      fail(Status::kOutOfMemory,
           "this run needs {} bytes for values and results, the machine has {}", least, most);
  }

  void add_pointer(uint32_t v) {
    Bound& bound = *bound_;
    if (v == kNoValue) {
      bound.pointers.push_back({});
      return;
    }
    const PlanValue& value = plan_.values[v];
    const bool evaluated = bound.strides(v).data() != nullptr;
    const int64_t offset = evaluated ? checked_mul(bound.offset(v), element_size(value.dtype)) : 0;
    const PlanBuffer& buffer = plan_.buffers[value.buffer];
    const auto at = static_cast<uint32_t>(bound.pointers.size());
    if (buffer.storage == Storage::kInput)
      bound.input_patches.push_back({at, buffer.index, offset});
    if (buffer.storage == Storage::kOutput)
      bound.output_patches.push_back({at, buffer.index, offset});
    if (buffer.storage == Storage::kDynamic) bound.dynamic_pointers.push_back(at);
    bound.pointers.push_back({value.buffer, offset});
  }

  void add_steps() {
    Bound& bound = *bound_;
    size_t operand_count = 0;
    for (uint32_t k = segment_.first_step; k < segment_.end_step; ++k)
      operand_count += plan_.steps[k]->inputs.size() + plan_.steps[k]->outputs.size();
    bound.pointers.reserve(operand_count);
    bound.steps.reserve(segment_.end_step - segment_.first_step);
    InPlaceSteps in_place(bound, requests_);
    ReadConstants constants(bound);
    KernelsAlike alike(bound, options_.like);
    auto banded = banded_.begin();
    for (uint32_t k = segment_.first_step; k < segment_.end_step; ++k) {
      const Step& step = *plan_.steps[k];
      BoundStep bound_step;
      bound_step.step = k;
      bound_step.first_pointer = static_cast<uint32_t>(bound.pointers.size());
      for (uint32_t v : step.inputs) add_pointer(v);
      for (uint32_t v : step.outputs) add_pointer(v);
      if (banded != banded_.end() && k >= banded->first.first) {
        const auto& [chain, kernel] = *banded;
        constants.add(step, &kernel->step(k - chain.first));
        if (k == chain.first) {
          bound_step.kernel = kernel;
          bound_step.count = chain.end - chain.first;
          bound_step.band_rows = chain.height;
          add(std::move(bound_step));
        }
        if (k + 1 == chain.end) ++banded;
        continue;
      }
      if (step.kind == Step::Kind::kKernel) {
        // Only a kernel with an Add behind it makes use of it.
        bound_step.replaceable = step.spec.post_ops.empty() ? 0 : in_place.replaceable(k);
        bound_step.unprepared = step.kernel->wants_prepare();  // before it is bound: it may end now
        bound_step.kernel = alike.find(step, bound_step, false);
        const bool at_leisure = !bound_step.kernel && time_left_.any();
        if (!bound_step.kernel && options_.background && !at_leisure)
          bound_step.kernel = alike.find(step, bound_step, true);
        if (!alike.same_symbols()) check_sizes_of(step);
        if (!bound_step.kernel)
          bound_step.kernel = bind_kernel(step, bound_step.replaceable, at_leisure);
        in_place.add(k, *bound_step.kernel);
      }
      constants.add(step, bound_step.kernel.get());
      add(std::move(bound_step));
    }
    std::ranges::stable_sort(bound.dynamic_pointers, {},
                             [&](uint32_t at) { return bound.pointers[at].buffer; });
    constants.hold();
    for (const auto& [chain, kernel] : banded_)
      for (uint32_t k = chain.first; k + 1 < chain.end; ++k)
        bound.operands[program_.slot_of(plan_.steps[k]->outputs[0])] = {};
    place_arena(bound, in_place, options_.max_bytes);
    bound.shared_ports = in_place.shared_ports();
  }

  /// Of a step whose kernel is about to be bound to these sizes.
  void check_sizes_of(const Step& step) {
    check_sizes_of(step, step.unproven.always);
    if (has_zero_) check_sizes_of(step, step.unproven.with_zeros);
  }
  void check_sizes_of(const Step& step, const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) {
      if (step.region != Hash128{} || id != step.nodes.front()) {
        check_node_sizes(id);
      } else {
        operands_.set(*bound_, step);
        at_step(step, [&] { size_check_.step(step, operands_.outputs); });
      }
    }
  }

  std::shared_ptr<const BoundKernel> bind_kernel(const Step& step, uint32_t replaceable,
                                                 bool at_leisure) {
    operands_.set(*bound_, step);
    return at_step(step, [&] {
      return step.kernel->bind({operands_.inputs, operands_.outputs, at_leisure, replaceable});
    });
  }

  void add(BoundStep step) {
    if (const BoundKernel* kernel = step.kernel.get()) {
      bound_->scratch_bytes = std::max(bound_->scratch_bytes, kernel->scratch_bytes);
      // Any worker may take any of several tasks.
      if (kernel->scratch_bytes > 0 && kernel->tasks > 1)
        bound_->scratch_workers = options_.workers;
      bound_->divided |= kernel->tasks > 1;
      bound_->shared_bytes = std::max(bound_->shared_bytes, kernel->shared_bytes);
      bound_->held_bytes += kernel->held_bytes;
      bound_->stand_ins += kernel->provisional ? 1 : 0;
      bound_->provisional |= kernel->provisional;
      bound_->unprepared |= step.unprepared;
    }
    bound_->steps.push_back(std::move(step));
  }

  void add_held_bytes() {
    constexpr size_t kBlock = 16, kVectors = 11;  // what the C library adds to a block, about
    constexpr size_t kSharedKernel = 64;          // control block of a kernel, its vectors' blocks
    const auto bytes_of = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
    const Bound& bound = *bound_;
    bound_->held_bytes += static_cast<int64_t>(
        sizeof(Bound) + kVectors * kBlock + bytes_of(bound.symbols) + bytes_of(bound.sizes) +
        bytes_of(bound.operands) + bytes_of(bound.arena) + bytes_of(bound.size_tensors) +
        bytes_of(bound.constants) + bytes_of(bound.steps) + bytes_of(bound.pointers) +
        bytes_of(bound.dynamic_pointers) + bytes_of(bound.input_patches) +
        bytes_of(bound.output_patches) + bytes_of(bound.shared_ports) +
        bound.steps.size() * kSharedKernel);
  }

  const Plan& plan_;
  const Segment& segment_;
  const Plan::SegmentProgram& program_;
  const BindOptions& options_;
  std::shared_ptr<Bound> bound_;
  SizeCheck size_check_;
  OperandsOfStep operands_;
  TimeLeft time_left_;
  bool has_zero_ = false;  ///< a size is, or an element of a shape is that or less
  std::vector<ArenaRequest> requests_;
  std::vector<Banded> banded_;  ///< in the order of steps
};

}  // namespace

bool Bound::outdated() const {
  return unprepared && std::any_of(steps.begin(), steps.end(), [&](const BoundStep& step) {
           return step.unprepared && !plan->steps[step.step]->kernel->wants_prepare();
         });
}

int64_t Bound::value_bytes() const {
  int64_t bytes = arena_bytes;
  for (uint32_t v : plan->outputs) {
    const PlanValue& value = plan->values[v];
    const PlanBuffer& buffer = plan->buffers[value.buffer];
    if (buffer.storage == Storage::kOutput && buffer.segment == segment)
      bytes = checked_add(bytes, checked_mul(element_count(dims(v)), element_size(value.dtype)));
  }
  return bytes;
}

std::shared_ptr<const Bound> bind_segment(const std::shared_ptr<const Plan>& plan, uint32_t segment,
                                          std::vector<int64_t> symbols,
                                          const BindOptions& options) {
  return Binder(plan, segment, std::move(symbols), options).run();
}

}  // namespace xc
