#include "runtime/body_loop.h"

#include <algorithm>

#include "base/hash.h"
#include "ops/containers.h"
#include "runtime/executor.h"

namespace xc {
namespace {

/// Memory that a stack takes at once for parts that may never be made.
constexpr int64_t kAtOnce = 1 << 20;
/// And for parts that are known to come: more only as they do.
constexpr int64_t kExpected = 256 << 20;

void release(xc_tensor*& handle) {
  if (handle) std::exchange(handle, nullptr)->release();
}

}  // namespace

// ---- stacks -------------------------------------------------------------------------------------

Stack::~Stack() {
  release(whole_);
}

xc_tensor* Stack::place() {
  return in_place_ && count_ < capacity_ ? &part_ : nullptr;
}

int64_t Stack::place_offset() const {
  return (backwards_ ? *expected_ - 1 - count_ : count_) * part_bytes_;
}

int64_t Stack::next_capacity() const {
  const int64_t part_bytes = std::max<int64_t>(1, part_bytes_);
  int64_t wanted = checked_mul(2, capacity_);
  if (capacity_ == 0) {
    wanted = std::max<int64_t>(1, kAtOnce / part_bytes);
    if (expected_)
      wanted = backwards_ ? *expected_
                          : std::min(*expected_, std::max<int64_t>(1, kExpected / part_bytes));
  }
  if (!budget_) return wanted;
  const int64_t left = budget_->left() / part_bytes;
  if (expected_) return wanted <= left ? wanted : std::max(*expected_, count_ + 1);
  // For what may never be made half of what is left, while that is enough.
  const int64_t room = left / 2 > count_ ? left / 2 : left;
  return std::min(wanted, std::max(count_ + 1, room));
}

void Stack::reserve(OutputPool& pool) {
  const int64_t wanted = next_capacity();
  if (budget_) budget_->charge(checked_mul(wanted, part_bytes_));
  Dims dims{wanted};
  dims.insert(dims.end(), part_.tensor.dims().begin(), part_.tensor.dims().end());
  const auto let_go = [](xc_tensor* handle) { handle->release(); };
  std::unique_ptr<xc_tensor, decltype(let_go)> larger(pool.acquire(output_, type_.dtype, dims));
  if (whole_) {
    dims[0] = count_;
    larger->tensor.set_dims(dims);
    whole_->tensor.set_dims(dims);
    copy_elements(whole_->tensor.view(), larger->tensor.view());
    release(whole_);
    if (budget_) budget_->release(capacity_ * part_bytes_);
  }
  whole_ = larger.release();
  capacity_ = wanted;
  part_.tensor = Tensor(whole_->tensor.buffer(), 0, type_.dtype, part_.tensor.dims());
}

void Stack::add(const xc_tensor& part, OutputPool& pool) {
  if (!is_place(&part)) {
    if (part.tensor.dtype() != type_.dtype)
      fail(Status::kInvalidModel, "scan outputs are {}, the model declares {}",
           name(part.tensor.dtype()), name(type_.dtype));
    if (count_ == 0) {
      part_.tensor = part.tensor;
      part_bytes_ = part.tensor.byte_size();
      in_place_ = part.pool && !holds_objects(type_.dtype);
    } else if (part.tensor.dims() != part_.tensor.dims()) {
      fail(Status::kInvalidModel, "scan outputs differ in dims between iterations: {} and {}",
           to_text(part_.tensor.dims()), to_text(part.tensor.dims()));
    }
    if (count_ == capacity_) reserve(pool);
    const Tensor place(whole_->tensor.buffer(), place_offset(), type_.dtype, part.tensor.dims());
    copy_elements(part.tensor.view(), place.view());
  }
  ++count_;
}

Tensor Stack::finish(const Engine& engine) {
  Dims dims{count_};
  if (count_ > 0)
    dims.insert(dims.end(), part_.tensor.dims().begin(), part_.tensor.dims().end());
  else if (type_.dims)
    for (const Dim& d : *type_.dims) dims.push_back(d.constant().value_or(0));
  auto axis = static_cast<ptrdiff_t>(axis_ < 0 ? axis_ + std::ssize(dims) : axis_);
  if (count_ == 0 && !type_.dims) axis = 0;  // nothing tells the rank
  if (axis < 0 || axis >= std::ssize(dims))
    fail(Status::kInvalidModel, "a scan output of rank {} has no axis {}", dims.size(), axis_);
  part_.tensor = {};
  if (whole_) whole_->tensor.set_dims(dims);
  const Tensor rows =
      whole_ ? take_tensor(std::exchange(whole_, nullptr)) : Tensor(type_.dtype, dims);
  if (axis == 0) return rows;
  // The parts' axis goes from the front to where it belongs.
  Dims strides = rows.strides();
  std::rotate(dims.begin(), dims.begin() + 1, dims.begin() + axis + 1);
  std::rotate(strides.begin(), strides.begin() + 1, strides.begin() + axis + 1);
  return engine.row_major({rows.buffer(), rows.byte_offset(), type_.dtype, dims, strides}, budget_);
}

// ---- the loop -----------------------------------------------------------------------------------

BodyLoop::BodyLoop(Program& owner, const Node& node, const RunOptions& options,
                   std::vector<Tensor> inputs, States states)
    : owner_(owner),
      node_(node),
      options_(options),
      body_(*node.subgraphs[0]),
      inputs_(std::move(inputs)),
      views_(inputs_.size()),
      data_(inputs_.size()),
      slots_(body_.outputs.size(), nullptr),
      offsets_(body_.outputs.size(), 0),
      first_result_(states.output),
      state_count_(states.count) {
  for (size_t k = 0; k < inputs_.size(); ++k) {
    inputs_[k] = owner.engine().row_major(inputs_[k], options.budget);
    set_input(k, inputs_[k]);
  }
  for (size_t k = 0; k < states.count; ++k)
    results_.push_back(
        {.output = static_cast<uint32_t>(states.output + k), .input = states.input + k});
  for (size_t k = 0; k < states.output; ++k)
    results_.push_back({.output = static_cast<uint32_t>(k), .input = std::nullopt});
}

BodyLoop::~BodyLoop() {
  for (const Stack& stack : stacks_)
    if (stack.is_place(slots_[stack.output()])) slots_[stack.output()] = nullptr;
  for (xc_tensor*& slot : slots_) release(slot);
  for (Result& result : results_) {
    release(result.current);
    release(result.spare);
  }
}

/// A container is taken as the object, a tensor as its memory.
void BodyLoop::set_input(size_t index, const Tensor& tensor) {
  views_[index] = tensor.view();
  const bool object = body_.value(body_.inputs[index]).type.kind != Type::Kind::kTensor;
  data_[index] = object ? const_cast<Tensor*>(&tensor) : tensor.data();
}

void BodyLoop::stack(size_t output, int64_t axis, bool backwards, std::optional<int64_t> expected) {
  Type type = body_.value(body_.outputs[output]).type;
  const ValueId whole = node_.outputs[output - first_result_];
  if (!type.dims && whole != kNone) {
    // Of no part at all the dims that the model declares for the whole still hold.
    type.dims = owner_.graph().value(whole).type.dims;
    const auto rank = type.dims ? std::ssize(*type.dims) : 0;
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) type.dims->erase(type.dims->begin() + at);
  }
  stacks_.emplace_back(static_cast<uint32_t>(output), axis, backwards, expected, std::move(type),
                       options_.budget);
}

void BodyLoop::slice(size_t input, int64_t axis, bool backwards) {
  Slice& slice = slices_.emplace_back();
  slice.input = input;
  slice.whole = inputs_[input];
  slice.dims = slice.whole.dims();
  slice.strides = slice.whole.strides();
  const int64_t count = slice.dims[static_cast<size_t>(axis)];
  slice.step = slice.strides[static_cast<size_t>(axis)] * element_size(slice.whole.dtype());
  if (backwards) {
    slice.offset = std::max<int64_t>(0, count - 1) * slice.step;
    slice.step = -slice.step;
  }
  slice.dims.erase(slice.dims.begin() + axis);
  slice.strides.erase(slice.strides.begin() + axis);
  if (is_contiguous(slice.dims, slice.strides)) {
    views_[input] = {slice.whole.data(), slice.whole.dtype(), slice.dims, slice.strides};
  } else {
    if (options_.budget)
      options_.budget->charge(
          checked_mul(element_count(slice.dims), element_size(slice.whole.dtype())));
    slice.staged = owner_.engine().tensor(slice.whole.dtype(), slice.dims);
    set_input(input, slice.staged);
  }
}

void BodyLoop::move_slices() {
  for (Slice& slice : slices_) {
    void* const at = static_cast<std::byte*>(slice.whole.data()) + slice.offset;
    slice.offset += slice.step;
    if (slice.staged)
      copy_elements({at, slice.whole.dtype(), slice.dims, slice.strides}, slice.staged.view());
    else
      data_[slice.input] = views_[slice.input].data = at;
  }
}

void BodyLoop::look_up() {
  Program& program = owner_.child(node_, 0, views_);
  if (&program != program_) {
    entry_.reset();
    lease_.reset();
    program_ = &program;
    lease_.emplace(program);
  }
  const int64_t cap = program.bound_cache()->cap();
  const bool many = met_bytes_ > cap - cap / 4;
  entry_ = program.shared_entry_for(views_, lease_->context(),
                                    stays_ || met_bytes_ == 0 ? Joins::kAlways
                                    : many                    ? Joins::kNever
                                                              : Joins::kWhereThereIsRoom);
  if (many && entry_->passes && passed_before())
    entry_ = program.shared_entry_for(views_, lease_->context());
  met_bytes_ += entry_->held.bytes();
}

bool BodyLoop::passed_before() {
  constexpr size_t kRemembered = 64;
  const std::vector<int64_t>& key = entry_->key;
  const uint64_t hash = hash_bytes(key.data(), key.size() * sizeof(int64_t)).low;
  if (std::ranges::find(passed_, hash) != passed_.end()) return true;
  if (passed_.size() < kRemembered)
    passed_.push_back(hash);
  else
    passed_[passed_count_ % kRemembered] = hash;
  ++passed_count_;
  return false;
}

void BodyLoop::find_updated() {
  const std::shared_ptr<const Published> published = program_->published(*entry_);
  seen_ = published.get();
  const std::span<const SharedPort> shared = published->active->bound->shared_ports;
  updates_ = false;
  for (Result& result : results_) {
    if (!result.input) continue;
    const SharedPort port{result.output, static_cast<uint32_t>(*result.input)};
    result.in_place = std::ranges::find(shared, port) != shared.end();
    updates_ |= result.in_place;
  }
}

void BodyLoop::iterate() {
  move_slices();
  if (!known_ || entry_->forgotten.load(std::memory_order_relaxed)) look_up();
  if (!steady_) program_->reclaim_evicted();
  if (steady_ && entry_->current.load(std::memory_order_relaxed) != seen_) find_updated();
  for (Result& result : results_) {
    const bool update = result.in_place && result.current && result.current->pool;
    slots_[result.output] = std::exchange(update ? result.current : result.spare, nullptr);
  }
  for (Stack& stack : stacks_) {
    slots_[stack.output()] = steady_ ? stack.place() : nullptr;
    offsets_[stack.output()] = slots_[stack.output()] ? stack.place_offset() : 0;
  }
  const OutputPorts ports{slots_.data(), slots_.size(), program_->body_pool().get(),
                          offsets_.data()};
  if (updates_)
    program_->run_staged(lease_->context(), *entry_, {views_, data_.data()}, ports, options_);
  else
    program_->run_prepared(lease_->context(), *entry_, data_.data(), ports, options_);
  take_results();
}

void BodyLoop::take_results() {
  bool same = !steady_;  // the sizes of the next iteration
  for (Result& result : results_) {
    xc_tensor* const last = std::exchange(result.current, slots_[result.output]);
    slots_[result.output] = nullptr;
    if (last) result.spare = last;
    if (!result.input) continue;
    const Tensor& made = result.current->tensor;
    const TensorView& before = views_[*result.input];
    same =
        same && before.dtype == made.dtype() &&
        std::equal(before.dims.begin(), before.dims.end(), made.dims().begin(), made.dims().end());
    set_input(*result.input, made);
  }
  steady_ = steady_ || (same && program_->sizes_follow_dims());
  stays_ = steady_ || (same && program_->signature_is_dims());
  known_ = stays_ && !entry_->passes;
  if (options_.budget) [[unlikely]]
    charge_states();
  // A handle that is no pool's was made for one result, and sizes that change need another.
  for (Result& result : results_)
    if (!steady_ || !result.current->pool || (result.spare && !result.spare->pool))
      release(result.spare);
  for (Stack& stack : stacks_) {
    xc_tensor*& made = slots_[stack.output()];
    stack.add(*made, *program_->body_pool());
    if (!stack.is_place(made)) made->release();
    made = nullptr;
  }
}

void BodyLoop::charge_states() {
  int64_t bytes = 0;
  for (const Result& result : results_)
    bytes = checked_add(bytes, held_bytes(result.current->tensor));
  options_.budget->release(std::exchange(state_bytes_, 0));
  options_.budget->charge(bytes);
  state_bytes_ = bytes;
}

const Tensor& BodyLoop::output(size_t index) const {
  for (const Result& result : results_)
    if (result.output == index) return result.current->tensor;
  fail(Status::kInternal, "output {} of a body is stacked", index);
}

std::vector<Tensor> BodyLoop::finish() {
  std::vector<Tensor> out;
  for (size_t k = 0; k < state_count_; ++k) {
    Result& result = results_[k];
    // What no iteration replaced is the caller's memory still, which will be used for others.
    out.push_back(result.current ? take_tensor(std::exchange(result.current, nullptr))
                                 : inputs_[*result.input].clone());
  }
  for (Stack& stack : stacks_) out.push_back(stack.finish(owner_.engine()));
  return out;
}

}  // namespace xc
