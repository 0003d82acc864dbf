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
  const Implementation* const implementation = first_to_support(engine.backend(), spec);
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

bool StagedInputs::ready(std::span<const TensorView> inputs) const {
  size_t copies = 0;
  int64_t bytes = 0;
  for (const TensorView& input : inputs) {
    if (!takes(input)) continue;
    if (copies == copies_.size() || !copies_[copies++].of(input)) return false;
    bytes += bytes_of(input);
  }
  return bytes <= memory_.bytes();
}

void StagedInputs::place(std::span<const TensorView> inputs, void** data, MemoryBudget* budget) {
  int64_t bytes = 0;
  for (const TensorView& input : inputs)
    if (takes(input)) bytes = checked_add(bytes, bytes_of(input));
  if (bytes == 0) return;
  if (budget) budget->charge(bytes);
  memory_.reserve(bytes);
  size_t copies = 0;
  int64_t offset = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!takes(inputs[i])) continue;
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
  for (const TensorView& input : inputs) {
    if (!takes(input)) continue;
    const BoundKernel& kernel = *next->kernel;
    void* const buffers[2] = {input.data, memory_.data() + next->offset};
    ++next;
    const StepArgs args{buffers};
    if (kernel.tasks <= 1)
      kernel.run_all(args);
    else
      runner.run(kernel.tasks, [&](int64_t task, int) { kernel.run(args, task, task + 1); });
  }
}

}  // namespace xc
