// A step on whole tensors makes its results during the run (Storage::kDynamic). Dims of theirs that
// are lone symbols without a number so far are where those symbols come from.
#include "plan/segments.h"

#include "ir/place.h"
#include "ops/custom.h"
#include "ops/op.h"

namespace xc {
namespace {

/// A result made during the run; true when its dims define symbols.
bool add_dynamic_result(Plan& plan, ValueId id, Step& step, PlanSymbols& symbols,
                        PlanValues& values) {
  const Type& type = plan.graph->value(id).type;
  PlanBuffer buffer;
  buffer.storage = Storage::kDynamic;
  buffer.dtype = type.dtype;
  const uint32_t index = values.add_value(id, std::move(buffer), type.dims ? *type.dims : SymDims{},
                                          type.dims.has_value());
  step.outputs.push_back(index);
  if (!type.dims) return false;
  bool defines = false;
  for (uint32_t axis = 0; axis < type.dims->size(); ++axis) {
    const auto symbol = (*type.dims)[axis].as_symbol();
    if (!symbol || symbols.known(*symbol)) continue;
    symbols.add({*symbol, PlanSymbol::Source::kRuntimeDim, index, axis});
    defines = true;
  }
  if (!symbols.all_known(*type.dims)) plan.values[index].rank_known = false;
  return defines;
}

}  // namespace

void append_step(Plan& plan, std::shared_ptr<const Step> step) {
  plan.steps.push_back(std::move(step));
  plan.segments.back().end_step = static_cast<uint32_t>(plan.steps.size());
}

bool is_container(const Value& value) {
  return value.type.kind != Type::Kind::kTensor;
}

bool needs_values(const Plan& plan, const Node& node, const PlanSymbols& symbols,
                  const PlanValues& values) {
  if (!node.op->reference) return true;
  for (ValueId v : node.outputs) {
    if (v == kNone) continue;
    const Value& value = plan.graph->value(v);
    if (value.type.dtype == DType::kString || is_container(value)) return true;
    if (!value.type.dims || !symbols.all_known(*value.type.dims)) return true;
  }
  for (ValueId v : node.inputs)
    if (v != kNone && values.find(v) != kNoValue && !plan.values[values.find(v)].rank_known)
      return true;
  return false;
}

void add_whole_tensor_step(Plan& plan, NodeId id, Step::Kind kind, PlanSymbols& symbols,
                           PlanValues& values) {
  const Node& node = plan.graph->node(id);
  auto step = std::make_shared<Step>();
  step->kind = kind;
  step->name = shown_name(*plan.graph, node);
  step->nodes = {id};
  step->spec.node = &node;
  step->spec.op = node.op;
  step->kernel_name = kind == Step::Kind::kControl ? "control"
                      : as_custom(*node.op)        ? "host"
                                                   : "dynamic";
  for (ValueId v : node.inputs) step->inputs.push_back(values.value_for(v));
  bool ends_segment = false;
  for (ValueId v : node.outputs) {
    if (v == kNone)
      step->outputs.push_back(kNoValue);
    else
      ends_segment |= add_dynamic_result(plan, v, *step, symbols, values);
  }
  append_step(plan, std::move(step));
  if (ends_segment) {
    const auto end = static_cast<uint32_t>(plan.steps.size());
    plan.segments.push_back({end, end, static_cast<uint32_t>(plan.symbols.size())});
  }
}

}  // namespace xc
