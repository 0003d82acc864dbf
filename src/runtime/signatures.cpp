// The table of entries: the key of a run's inputs, looking it up and binding what is new. Entries
// of later segments lie in the same table; later_segments.cpp looks for them.

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "base/clock.h"
#include "base/hash.h"
#include "base/no_cancellation.h"
#include "ops/containers.h"
#include "runtime/branch_choice.h"
#include "runtime/input_sizes.h"
#include "runtime/program.h"

namespace xc {

size_t Program::KeyHash::operator()(const std::vector<int64_t>& key) const {
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

/// Whether a tensor of a type may have these dims, as far as the type tells.
bool may_have(const Type& type, std::span<const int64_t> dims) {
  if (std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; })) return false;
  if (!type.dims) return true;
  return std::equal(
      dims.begin(), dims.end(), type.dims->begin(), type.dims->end(),
      [](int64_t given, const Dim& known) { return known.constant().value_or(given) == given; });
}

std::string place(const Value& input) {
  return fmt::format("input '{}'", input.name);
}

[[noreturn]] void refuse(const Value& input, DType dtype, std::span<const int64_t> dims) {
  const std::string wanted = input.type.text();
  throw Error(Status::kInvalidArgument,
              dtype == DType::kUndefined
                  ? fmt::format("was not given; it wants {}", wanted)
                  : fmt::format("expected {}, got {}{}", wanted, xc::name(dtype),
                                to_text(Dims(dims.begin(), dims.end()))),
              place(input));
}

}  // namespace

void Program::check_count(size_t inputs) const {
  if (inputs != graph_->inputs.size())
    fail(Status::kInvalidArgument, "the model takes {} inputs, {} were given",
         graph_->inputs.size(), inputs);
}

void Program::check_inputs(std::span<const TensorView> inputs) const {
  check_count(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph_->value(graph_->inputs[i]);
    const bool fits =
        value.type.kind == Type::Kind::kTensor
            ? inputs[i].dtype == value.type.dtype && may_have(value.type, inputs[i].dims)
            : holds(value.type, inputs[i]);
    if (!fits) refuse(value, inputs[i].dtype, inputs[i].dims);
  }
}

void Program::check_shapes(const std::vector<Dims>& shapes) const {
  check_count(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Value& value = graph_->value(graph_->inputs[i]);
    if (value.type.kind == Type::Kind::kTensor && !may_have(value.type, shapes[i]))
      refuse(value, value.type.dtype, shapes[i]);
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
      key.push_back(input_element(inputs[symbol.operand], symbol.index));
}

bool Program::has_elements(const SignatureEntry& entry, std::span<const TensorView> inputs) const {
  // They are the last numbers of the key.
  size_t at = entry.key.size();
  for (size_t k = base_plan_->symbols.size(); k-- > 0;) {
    const PlanSymbol& symbol = base_plan_->symbols[k];
    if (symbol.source == PlanSymbol::Source::kInputElement &&
        entry.key[--at] != input_element(inputs[symbol.operand], symbol.index))
      return false;
  }
  return true;
}

SignatureEntry& Program::entry_for(std::span<const TensorView> inputs, RunContext& context,
                                   Joins joins) {
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
          same = key[at++] == input_element(inputs[symbol.operand], symbol.index);
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
  if (!entry) {
    const auto like =
        context.passed ? context.passed : ran_last(context.last_entry, context.last_generation);
    entry = &add_entry(inputs, key, like.get(), context, joins);
    if (entry->passes) {
      context.passed = published(*entry)->active->bound;
      context.last_entry = nullptr;  // gone when the run ends
      return *entry;
    }
  }
  context.passed.reset();
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

std::shared_ptr<const Bound> Program::ran_last(const SignatureEntry* last,
                                               uint64_t generation) const {
  if (!last || generation != generation_.load(std::memory_order_acquire)) return nullptr;
  return published(*last)->active->bound;
}

bool Program::joins_table(Joins joins) {
  return joins == Joins::kAlways || (joins == Joins::kWhereThereIsRoom && !is_held_up());
}

SignatureEntry& Program::add_entry(std::span<const TensorView> inputs, std::vector<int64_t> key,
                                   const Bound* like, RunContext& context, Joins joins) {
  const NoCancellation whole;  // what was kept is read here, in mode sync everything is compiled
  auto entry = std::make_shared<SignatureEntry>();
  for (const PlanSymbol& symbol : base_plan_->symbols) {
    if (symbol.source == PlanSymbol::Source::kInputDim)
      entry->symbols.push_back(inputs[symbol.operand].dims[symbol.index]);
    else if (symbol.source == PlanSymbol::Source::kInputElement)
      entry->symbols.push_back(input_element(inputs[symbol.operand], symbol.index));
  }
  const Dim::Lookup lookup = [&](const std::string& symbol) {
    return symbol_value(*base_plan_, entry->symbols, symbol);
  };
  for (const Plan::InputCheck& check : base_plan_->input_checks) {
    const auto expected = check.expected.evaluate(lookup);
    if (expected && *expected != inputs[check.input].dims[check.axis])
      throw Error(
          Status::kInvalidArgument,
          fmt::format("dim {} must be {} = {} here, got {}", check.axis, check.expected.text(),
                      *expected, inputs[check.input].dims[check.axis]),
          place(graph_->value(graph_->inputs[check.input])));
  }
  entry->key = std::move(key);
  entry->passes = !joins_table(joins);
  // Where nothing is left to the run, what is wrong is the model.
  const auto seat = entry->symbols.empty()
                        ? bind_first(*entry, like)
                        : at_input_sizes([&] { return bind_first(*entry, like); });
  return insert(std::move(entry), seat, context);
}

std::shared_ptr<const Bound> Program::bind_within_limits(SignatureEntry& entry,
                                                         const std::shared_ptr<const Plan>& plan,
                                                         const Bound* like) {
  const bool packed = all_packed_.load(std::memory_order_acquire);
  try {
    return bind(entry, plan, {.like = like});
  } catch (const Error& error) {
    if (error.status() != Status::kLimit || packed) throw;
  }
  pack_weights();
  return bind(entry, plan, {.like = like});
}

TierHooks::Seat Program::bind_first(SignatureEntry& entry, const Bound* like) {
  auto published = std::make_shared<Published>();
  TierHooks* tier = tier_knows_.load(std::memory_order_acquire) ? engine_->tier() : nullptr;
  TierHooks::Seat seat;
  if (tier) seat = tier->seat_for(*this, entry);
  if (entry.passes && seat.timed) seat = {};  // it will not be there when that is judged
  const std::shared_ptr<const Plan>& first = entry.begun ? entry.begun : base_plan_;
  if (!seat.plan) seat.plan = first;
  std::shared_ptr<const Bound> bound;
  try {
    bound = bind(entry, seat.plan, {.like = like});
  } catch (const Error& error) {
    // Fused kernels may want more scratch than max_memory_bytes leaves, and so do weights that the
    // background is yet to pack.
    if (seat.plan == first && error.status() != Status::kLimit) throw;
    seat = {};
    seat.plan = first;
    bound = bind_within_limits(entry, first, like);
  }
  published->active = std::make_shared<Version>(std::move(bound));
  if (published->active->bound->plan != seat.plan) seat.timed = false;
  if (seat.timed) {
    published->active->compare(seat.focus);
    published->timed = true;
    published->trial = seat.trial;
    published->with_active = published_alone(published->active->bound);
  }
  if (published->active->bound->plan == base_plan_) entry.base = published->active;
  entry.held.count(bound_, held_bytes(entry, *published->active, tier != nullptr));
  entry.current.store(published.get(), std::memory_order_release);
  entry.owner = std::move(published);
  entry.last_use.store(steady_ns(), std::memory_order_relaxed);
  entry.attention.store(attention_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return seat;
}

SignatureEntry& Program::insert(std::shared_ptr<SignatureEntry> entry, const TierHooks::Seat& seat,
                                RunContext& context) {
  if (entry->passes) {
    if (entry->segment == 0) signatures_.fetch_add(1, std::memory_order_relaxed);
    return *context.passing.emplace_back(std::move(entry));
  }
  SignatureEntry* result = nullptr;
  bool added = false;
  std::list<SignatureEntry*> place{entry.get()};
  {
    std::unique_lock lock(table_mutex_);
    const auto [it, inserted] = table_.try_emplace(entry->key, entry);
    result = it->second.get();
    added = inserted;
    if (inserted) {
      entry->place = place.begin();
      entry->placed = entry->last_use.load(std::memory_order_relaxed);
      order_.splice(order_.end(), place);
      entry->held.into_table();
      if (entry->segment == 0) signatures_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  entry.reset();  // what somebody holds is not evicted
  if (!added) return *result;
  if (seat.timed) engine_->tier()->seated(*this, *result, seat.trial);
  make_room();
  if (TierHooks* tier = engine_->tier(); tier && config_.jit_mode() != JitMode::kOff) {
    std::call_once(tier_once_, [&] {
      tier->added(shared_from_this());
      tier_knows_.store(true, std::memory_order_release);
    });
    tier->first_bound(*this, *result);
  }
  return *result;
}

std::vector<std::shared_ptr<SignatureEntry>> Program::entries() {
  std::shared_lock lock(table_mutex_);
  std::vector<std::shared_ptr<SignatureEntry>> out;
  for (const auto& [key, entry] : table_) out.push_back(entry);
  return out;
}

}  // namespace xc
