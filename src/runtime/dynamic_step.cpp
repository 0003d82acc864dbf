#include "runtime/dynamic_step.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/infer.h"
#include "runtime/input_sizes.h"

namespace xc {
namespace {

Operand operand_of(const Tensor& tensor) {
  Operand out;
  if (!tensor) return out;
  out.dtype = tensor.dtype();
  out.dims = to_symbolic(tensor.dims());
  out.strides = to_symbolic(tensor.strides());
  out.constant = tensor;  // its value is known now: kernels may read axes, shapes and the like
  return out;
}

/// Into how many runs of memory a view falls.
int64_t runs_of(const ConcreteView& view) {
  size_t outer = view.dims.size();
  for (int64_t run = 1; outer > 0; --outer) {
    const size_t axis = outer - 1;
    if (view.dims[axis] != 1 && view.strides[axis] != run) break;
    run *= view.dims[axis];
  }
  return element_count(std::span(view.dims).first(outer));
}

Tensor copy_of(const Engine& engine, const TensorView& from, const ConcreteView& view) {
  Tensor out = engine.tensor(from.dtype, view.dims);
  if (out.count() == 0) return out;
  auto* const first = static_cast<std::byte*>(from.data) + view.offset * element_size(from.dtype);
  copy_elements({first, from.dtype, view.dims, view.strides}, out.view());
  return out;
}

}  // namespace

std::vector<Tensor> copy_views(const Engine& engine, const Node& node,
                               std::span<const TensorView> inputs, MemoryBudget* budget) {
  constexpr int64_t kFewRuns = 32;  // a kernel is worth finding for more
  const auto views = at_input_sizes([&] { return node.op->concrete_views(node, inputs); });
  if (std::any_of(views.begin(), views.end(),
                  [](const ConcreteView& view) { return runs_of(view) > kFewRuns; }))
    return {};
  if (budget)
    for (const ConcreteView& view : views)
      budget->charge(checked_mul(element_count(view.dims), element_size(inputs[0].dtype)));
  std::vector<Tensor> outputs;
  outputs.reserve(views.size());
  for (size_t k = 0; k < views.size(); ++k)
    outputs.push_back(node.outputs[k] == kNone ? Tensor{} : copy_of(engine, inputs[0], views[k]));
  return outputs;
}

std::vector<Tensor> run_dynamic_step(Program& program, const Node& node,
                                     const std::vector<Tensor>& inputs, MemoryBudget* budget) {
  if (node.op->make) {
    at_input_sizes([&] { return infer_concrete(node, inputs, OpenSizes::kKept); });
    return node.op->make(node, inputs);
  }
  const auto types = at_input_sizes([&] { return infer_concrete(node, inputs); });
  for (const Type& type : types)
    if (const auto dims = type.dims ? to_concrete(*type.dims) : std::nullopt; dims && budget)
      budget->charge(checked_mul(element_count(*dims), element_size(type.dtype)));
  std::vector<Tensor> outputs;
  for (size_t k = 0; k < types.size(); ++k) {
    if (node.outputs[k] == kNone) {
      outputs.emplace_back();
      continue;
    }
    outputs.push_back(program.engine().tensor(types[k].dtype, *to_concrete(*types[k].dims)));
  }
  StepSpec spec;
  spec.op = node.op;
  spec.node = &node;
  spec.numerics = program.planner().options().numerics;
  spec.threads = 1;
  spec.winograd = false;  // weights are not transformed for a single run
  for (const Tensor& t : inputs) spec.inputs.push_back(operand_of(t));
  for (const Tensor& t : outputs) {
    spec.outputs.push_back(operand_of(t));
    spec.outputs.back().constant = {};
  }
  const Implementation* row = first_to_support(program.engine().rows(), spec);
  if (!row)
    fail(Status::kUnsupported, "no kernel can execute operator {} on these operands",
         node.op->name);
  const std::unique_ptr<Kernel> kernel = row->create(spec);
  std::vector<BoundOperand> bound_inputs, bound_outputs;
  std::vector<void*> buffers;
  for (const Tensor& t : inputs) {
    bound_inputs.push_back({t.dims(), t.strides()});
    buffers.push_back(t.data());
  }
  for (const Tensor& t : outputs) {
    bound_outputs.push_back({t.dims(), t.strides()});
    buffers.push_back(t.data());
  }
  const auto bound = kernel->bind({bound_inputs, bound_outputs, false});
  GrowingMemory scratch(program.engine());
  const int64_t own = align_up(bound->scratch_bytes, 64);
  const int64_t all = checked_add(own, bound->shared_bytes);
  if (budget) budget->charge(all);
  scratch.reserve(all);
  bound->run_all({buffers.data(), scratch.data(), scratch.data() + own});
  return outputs;
}

}  // namespace xc
