#include "runtime/staged_inputs.h"

#include <algorithm>

#include "ops/registry.h"
#include "runtime/engine.h"

namespace xc {
namespace {

SymDims known(std::span<const int64_t> numbers) {
  return SymDims(numbers.begin(), numbers.end());
}

/// The engine's kernel of a step that copies such an input into row-major memory.
std::shared_ptr<const BoundKernel> copy_kernel(const Engine& engine, const TensorView& input) {
  static const Node identity{.op = &get_op("Identity")};
  const Dims dense = contiguous_strides(Dims(input.dims.begin(), input.dims.end()));
  StepSpec spec;
  spec.op = identity.op;
  spec.node = &identity;
  spec.inputs = {{input.dtype, known(input.dims), known(input.strides), {}}};
  spec.outputs = {{input.dtype, known(input.dims), known(dense), {}}};
  spec.threads = engine.tasks().workers();
  const Implementation* const implementation = first_to_support(engine.rows(), spec);
  XC_CHECK(implementation);
  const BoundOperand from{input.dims, input.strides}, to{input.dims, dense};
  auto kernel = implementation->create(spec)->bind({{&from, 1}, {&to, 1}});
  XC_CHECK(kernel->scratch_bytes == 0 && kernel->shared_bytes == 0);
  return kernel;
}

}  // namespace

bool StagedInputs::Copy::of(const TensorView& input) const {
  return dtype == input.dtype && std::ranges::equal(dims, input.dims) &&
         std::ranges::equal(strides, input.strides);
}

int64_t StagedInputs::bytes_of(const TensorView& input) {
  return align_up(checked_mul(input.count(), element_size(input.dtype)), 64);
}

StagedInputs::Copy StagedInputs::copy_of(const TensorView& input) const {
  return {input.dtype, Dims(input.dims.begin(), input.dims.end()),
          Dims(input.strides.begin(), input.strides.end()), copy_kernel(*engine_, input), 0};
}

void StagedInputs::choose(const Staging& staging, const OutputPorts& outputs,
                          std::span<const SharedPort> updated) {
  chosen_.assign(staging.inputs.size(), 0);
  for (uint32_t i = 0; i < staging.inputs.size(); ++i) {
    const TensorView& input = staging.inputs[i];
    chosen_[i] = takes(input);
    if (chosen_[i] || !input || input.count() == 0) continue;
    for (uint32_t k = 0; k < outputs.count; ++k) {
      if (!outputs.slots[k] || outputs.slots[k]->tensor.data() != input.data) continue;
      staging.data[i] = input.data;
      chosen_[i] |= std::ranges::find(updated, SharedPort{k, i}) == updated.end();
    }
  }
}

bool StagedInputs::ready(std::span<const TensorView> inputs) const {
  size_t copies = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chosen_[i]) continue;
    if (copies == copies_.size() || !copies_[copies++].of(inputs[i])) return false;
    bytes += bytes_of(inputs[i]);
  }
  return bytes <= memory_.bytes();
}

void StagedInputs::place(const Staging& staging, MemoryBudget* budget) {
  const auto& [inputs, data] = staging;
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (chosen_[i]) bytes = checked_add(bytes, bytes_of(inputs[i]));
  if (bytes == 0) return;
  if (budget) budget->charge(bytes);
  memory_.reserve(bytes);
  size_t copies = 0;
  int64_t offset = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chosen_[i]) continue;
    if (copies == copies_.size())
      copies_.push_back(copy_of(inputs[i]));
    else if (!copies_[copies].of(inputs[i]))
      copies_[copies] = copy_of(inputs[i]);
    copies_[copies++].offset = offset;
    data[i] = memory_.data() + offset;
    offset += bytes_of(inputs[i]);
  }
}

void StagedInputs::copy(std::span<const TensorView> inputs) const {
  auto next = copies_.begin();
  TaskRunner& runner = engine_->tasks();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chosen_[i]) continue;
    const BoundKernel& kernel = *next->kernel;
    void* const buffers[2] = {inputs[i].data, memory_.data() + next->offset};
    ++next;
    const StepArgs args{buffers};
    if (kernel.tasks <= 1)
      kernel.run_all(args);
    else
      runner.run(kernel.tasks, [&](int64_t task, int) { kernel.run(args, task, task + 1); });
  }
}

}  // namespace xc
