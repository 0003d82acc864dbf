#include "runtime/dynamic_step.h"

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

}  // namespace

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
    outputs.emplace_back(types[k].dtype, *to_concrete(*types[k].dims));
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
  const Implementation* row = first_to_support(program.engine().backend(), spec);
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
