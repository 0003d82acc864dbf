// Only the order of the list decides between implementations that take a step: nothing is measured
// or estimated here.
#include "plan/kernel_choice.h"

#include <string>

namespace xc {
namespace {

constexpr std::string_view kReference = "reference";

}  // namespace

StepSpec spec_without_operands(const Node& node, const PlannerOptions& options) {
  StepSpec spec;
  spec.node = &node;
  spec.op = node.op;
  spec.numerics = options.numerics;
  spec.winograd = options.winograd;
  spec.threads = options.threads;
  return spec;
}

bool add_row_major_operands(const Graph& graph, StepSpec& spec) {
  const auto add = [&](const std::vector<ValueId>& values, std::vector<Operand>& to) {
    for (ValueId v : values) {
      Operand operand;
      if (v != kNone) {
        const Value& value = graph.value(v);
        if (!value.type.dims) return false;
        operand.dtype = value.type.dtype;
        operand.dims = *value.type.dims;
        operand.strides = contiguous_strides(operand.dims);
        operand.constant = value.constant;
      }
      to.push_back(std::move(operand));
    }
    return true;
  };
  return add(spec.node->inputs, spec.inputs) && add(spec.node->outputs, spec.outputs);
}

const Implementation* choose_kernel(const Backend& backend, const PlannerOptions& options,
                                    const StepSpec& spec, bool allow_reference,
                                    std::vector<Refusal>* refused) {
  for (const Implementation& row : backend.implementations()) {
    if (!asked_for(row.op, *spec.op) || !row.asked_about(spec)) continue;
    const bool reference = row.name == kReference;
    if (options.reference_only && !reference) continue;
    if (reference && !allow_reference) continue;
    const Verdict verdict = row.supports(spec);
    if (verdict.yes()) return &row;
    if (refused) refused->push_back({std::string(row.name), verdict.reason});
  }
  return nullptr;
}

bool reads_bf16(const Backend& backend, const PlannerOptions& options, const Graph& graph,
                const Node& node) {
  if (options.reference_only || options.numerics == Numerics::kStrict) return false;
  StepSpec spec = spec_without_operands(node, options);
  const bool product = node.op->tolerance == Tolerance::kContraction;
  if (product && !rounds_to_bf16(node, options.numerics)) return false;
  if (!add_row_major_operands(graph, spec) || spec.inputs.empty() ||
      spec.inputs[0].dtype != DType::kF32)
    return false;
  spec.inputs[0].dtype = DType::kBF16;
  if (!product) spec.outputs[0].dtype = DType::kBF16;
  const Implementation* const row = choose_kernel(backend, options, spec, false, nullptr);
  return row && (!product || row->multiplies == DType::kBF16);
}

bool has_fast_kernel(const Backend& backend, const StepSpec& spec) {
  for (const Implementation& row : backend.implementations())
    if (row.op == spec.op->name && row.name != kReference && row.asked_about(spec) &&
        row.supports(spec).yes())
      return true;
  return false;
}

}  // namespace xc
