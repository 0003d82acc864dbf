#include "runtime/capture.h"

#include <algorithm>
#include <optional>

namespace xc {

namespace {

constexpr uint32_t kAtStart = UINT32_MAX;

/// Where a Bound has a step of its plan with a kernel of its own.
std::optional<uint32_t> position_of(const Bound& bound, uint32_t step) {
  for (uint32_t p = 0; p < bound.steps.size(); ++p)
    if (bound.steps[p].step == step && bound.steps[p].count == 1 && bound.steps[p].kernel) return p;
  return std::nullopt;
}

}  // namespace

Captured::Captured(std::vector<Tensor> all) : copies(std::move(all)) {
  const Tensor sizes = std::move(copies.back());
  copies.pop_back();
  symbols.assign(sizes.as<int64_t>(), sizes.as<int64_t>() + sizes.count());
}

bool Program::Capture::fits(const Bound& bound) const {
  const Plan& plan = *bound.plan;
  int64_t bytes = 0;
  const auto add = [&](uint32_t v) {
    if (v == kNoValue || !bound.dims(v).data()) return false;
    if (step != kNoStep && plan.buffers[plan.values[v].buffer].storage == Storage::kConstant)
      return true;
    bytes += element_count(bound.dims(v)) * element_size(plan.values[v].dtype);
    return bytes <= max_bytes;
  };
  if (step == kNoStep) return std::all_of(values.begin(), values.end(), add);
  const Step& planned = *plan.steps[step];
  return std::all_of(planned.inputs.begin(), planned.inputs.end(), add) &&
         std::all_of(planned.outputs.begin(), planned.outputs.end(), add) &&
         position_of(bound, step);
}

bool Program::Capture::is_served_by(const Bound& bound) const noexcept {
  try {
    return (!wanted || wanted(bound.symbols)) && fits(bound);
  } catch (...) {
    return false;
  }
}

CaptureScope::CaptureScope(Program& program, const Bound& bound, void* const* inputs,
                           void* const* pointers, bool allowed)
    : bound_(bound) {
  const Program::Captures* captures = program.captures_.load(std::memory_order_acquire);
  if (!captures || !allowed) return;
  for (const auto& capture : captures->wanted) {
    if (capture->plan_serial != bound.plan->serial || capture->segment != bound.segment ||
        capture->taken.load(std::memory_order_relaxed) || !capture->is_served_by(bound) ||
        capture->taken.exchange(true, std::memory_order_acq_rel))
      continue;
    capture_ = capture.get();
    attempt([&] {
      look_up();
      copy_at_start(inputs, pointers);
    });
    return;
  }
}

template <class F>
void CaptureScope::attempt(F&& work) noexcept {
  try {
    work();
  } catch (...) {
    capture_ = nullptr;  // no verification on this run
    tensors_.clear();
  }
}

void CaptureScope::look_up() {
  if (capture_->step != Program::Capture::kNoStep) {
    position_ = *position_of(bound_, capture_->step);
    return;
  }
  const Plan& plan = *bound_.plan;
  for (const uint32_t v : capture_->values) {
    uint32_t after = kAtStart;
    for (uint32_t p = 0; p < bound_.steps.size(); ++p)
      for (uint32_t s = bound_.steps[p].step; s < bound_.steps[p].step + bound_.steps[p].count; ++s)
        for (uint32_t out : plan.steps[s]->outputs)
          if (out != kNoValue && plan.values[out].buffer == plan.values[v].buffer) after = p;
    after_.push_back(after);
  }
}

void CaptureScope::copy_at_start(void* const* inputs, void* const* pointers) {
  if (capture_->step != Program::Capture::kNoStep) {
    if (position_ == 0) copy_operands(pointers, false);
    return;
  }
  const Bound& bound = bound_;
  tensors_.resize(capture_->values.size());
  for (size_t k = 0; k < capture_->values.size(); ++k) {
    if (after_[k] != kAtStart) continue;
    const PlanValue& value = bound.plan->values[capture_->values[k]];
    const PlanBuffer& buffer = bound.plan->buffers[value.buffer];
    const void* base = nullptr;
    Tensor held;
    if (buffer.storage == Storage::kInput)
      base = inputs[buffer.index];
    else if (buffer.storage == Storage::kConstant)
      base = (held = buffer.constant.held()).data();
    for (const auto& [b, tensor] : bound.size_tensors)
      if (b == value.buffer) base = tensor.data();
    // What an earlier segment made lies where a step of this one reads it.
    for (size_t p = 0; p < bound.pointers.size() && !base; ++p)
      if (bound.pointers[p].buffer == value.buffer && buffer.segment < bound.segment && pointers[p])
        base = static_cast<const std::byte*>(pointers[p]) - bound.pointers[p].offset;
    if (base) copy(k, base);
  }
}

void CaptureScope::copy(size_t index, const void* base) {
  const uint32_t v = capture_->values[index];
  const PlanValue& value = bound_.plan->values[v];
  // The value's offset is the last of its evaluated sizes.
  const std::span<const int64_t> strides = bound_.strides(v);
  const int64_t offset = strides.data()[strides.size()];
  const TensorView view{
      static_cast<std::byte*>(const_cast<void*>(base)) + offset * element_size(value.dtype),
      value.dtype, bound_.dims(v), strides};
  Tensor tensor(value.dtype, Dims(view.dims.begin(), view.dims.end()));
  copy_elements(view, tensor.view());
  tensors_[index] = std::move(tensor);
}

void CaptureScope::copy_operands(void* const* pointers, bool outputs) {
  const BoundStep& step = bound_.steps[position_];
  const Step& planned = *bound_.plan->steps[step.step];
  const size_t first = outputs ? planned.inputs.size() : 0;
  const std::vector<uint32_t>& operands = outputs ? planned.outputs : planned.inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    const PlanValue& value = bound_.plan->values[operands[k]];
    if (bound_.plan->buffers[value.buffer].storage == Storage::kConstant) continue;
    const TensorView view{pointers[step.first_pointer + first + k], value.dtype,
                          bound_.dims(operands[k]), bound_.strides(operands[k])};
    Tensor tensor(value.dtype, Dims(view.dims.begin(), view.dims.end()));
    copy_elements(view, tensor.view());
    tensors_.push_back(std::move(tensor));
  }
}

void CaptureScope::after_step(size_t position, void* const* pointers) {
  attempt([&] { copy_made(position, pointers); });
}

void CaptureScope::copy_made(size_t position, void* const* pointers) {
  if (capture_->step != Program::Capture::kNoStep) {
    // A later step may lie where the inputs of this one did: they are taken just before it.
    if (position + 1 == position_) copy_operands(pointers, false);
    if (position == position_) copy_operands(pointers, true);
    return;
  }
  for (size_t k = 0; k < capture_->values.size(); ++k) {
    if (after_[k] != position) continue;
    // From the step's own output pointer to the start of the buffer.
    const uint32_t wanted = bound_.plan->values[capture_->values[k]].buffer;
    const BoundStep& step = bound_.steps[position];
    uint32_t at = step.first_pointer;
    for (uint32_t p = step.step; p < step.step + step.count; ++p) {
      const Step& planned = *bound_.plan->steps[p];
      at += static_cast<uint32_t>(planned.inputs.size());
      for (size_t i = 0; i < planned.outputs.size(); ++i, ++at)
        if (const PointerTemplate& to = bound_.pointers[at]; to.buffer == wanted)
          copy(k, static_cast<const std::byte*>(pointers[at]) - to.offset);
    }
  }
}

void CaptureScope::finish() {
  if (!capture_) return;
  for (const Tensor& tensor : tensors_)
    if (!tensor) return;  // something could not be copied: no verification on this run
  attempt([&] {
    const std::vector<int64_t>& symbols = bound_.symbols;
    tensors_.emplace_back(DType::kI64, Dims{static_cast<int64_t>(symbols.size())});
    std::copy(symbols.begin(), symbols.end(), tensors_.back().as<int64_t>());
    capture_->keep(std::move(tensors_));
  });
}

bool Program::request_capture(const void* who, SignatureEntry& entry,
                              const std::vector<ValueId>& values, int64_t max_bytes,
                              std::function<bool(std::span<const int64_t>)> wanted,
                              std::function<void(std::vector<Tensor>)> keep) {
  std::shared_ptr<Version> active;
  {
    std::lock_guard lock(mutex_);
    active = entry.owner->active;
  }
  const Bound& bound = *active->bound;
  const Plan& plan = *bound.plan;
  auto capture = std::make_shared<Capture>();
  capture->who = who;
  capture->plan_serial = plan.serial;
  capture->segment = bound.segment;
  capture->max_bytes = max_bytes;
  for (ValueId id : values) {
    uint32_t found = kNoValue;
    for (uint32_t v = 0; v < plan.values.size(); ++v)
      if (plan.values[v].id == id && bound.dims(v).data()) found = v;
    if (found == kNoValue) return false;  // not visible in the base plan (inside a post-op chain)
    capture->values.push_back(found);
  }
  capture->wanted = std::move(wanted);
  if (!capture->fits(bound)) return false;
  capture->keep = std::move(keep);
  install(std::move(capture));
  return true;
}

bool Program::request_operands(const void* who, SignatureEntry& entry,
                               const std::function<bool(const Step&)>& wanted, int64_t max_bytes,
                               std::function<void(std::vector<Tensor>)> keep) {
  const std::shared_ptr<const Bound> bound = published(entry)->active->bound;
  const Plan& plan = *bound->plan;
  for (uint32_t p = 0; p < bound->steps.size(); ++p) {
    const Step& step = *plan.steps[bound->steps[p].step];
    if (!bound->steps[p].kernel || bound->steps[p].count > 1 || !wanted(step)) continue;
    auto capture = std::make_shared<Capture>();
    capture->who = who;
    capture->plan_serial = plan.serial;
    capture->segment = bound->segment;
    capture->max_bytes = max_bytes;
    capture->step = bound->steps[p].step;
    if (!capture->fits(*bound)) return false;
    capture->keep = std::move(keep);
    install(std::move(capture));
    return true;
  }
  return false;
}

void Program::install(std::shared_ptr<Capture> capture) {
  auto captures = std::make_shared<Captures>();
  std::shared_ptr<const Captures> before;
  {
    std::lock_guard lock(mutex_);
    before = captures_owner_;
    if (before)
      for (const auto& other : before->wanted)
        if (other->who != capture->who && !other->taken.load(std::memory_order_relaxed))
          captures->wanted.push_back(other);
    if (captures->wanted.size() == Captures::kMost)
      captures->wanted.erase(captures->wanted.begin());
    captures->wanted.push_back(std::move(capture));
    captures_.store(captures.get(), std::memory_order_release);
    captures_owner_ = std::move(captures);
  }
  epochs_.retire(std::move(before));
  epochs_.reclaim();
}

}  // namespace xc
