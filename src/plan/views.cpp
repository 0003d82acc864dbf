// What a view does to dims and strides is the operator's to say (OpDef::view); here its results
// become values of the plan, and offsets add up where views follow each other.
#include "plan/views.h"

#include "ops/op.h"

namespace xc {

bool place_sizes(const Plan& plan, const Node& node, const PlanSymbols& symbols,
                 PlanValues& values) {
  const Graph& graph = *plan.graph;
  for (ValueId v : node.outputs) {
    if (v == kNone) continue;
    const Value& value = graph.value(v);
    if (!value.elements || !value.type.dims || !symbols.all_known(*value.elements)) return false;
    if (!to_concrete(*value.type.dims)) return false;
  }
  for (ValueId v : node.outputs) {
    if (v == kNone) continue;
    PlanBuffer buffer;
    buffer.storage = Storage::kSizes;
    buffer.dtype = graph.value(v).type.memory_dtype();
    buffer.sizes = *graph.value(v).elements;
    values.add_value(v, std::move(buffer), *graph.value(v).type.dims);
  }
  return true;
}

bool place_view(const Plan& plan, const Node& node, const PlanSymbols& symbols,
                PlanValues& values) {
  if (!node.op->view || node.inputs.empty()) return false;
  const uint32_t operand = values.value_for(node.inputs[0]);
  const PlanValue source = plan.values[operand];
  if (!source.rank_known) return false;
  ViewContext context;
  context.graph = plan.graph.get();
  context.node = &node;
  context.dims = source.dims;
  context.strides = source.strides;
  for (ValueId v : node.outputs) {
    if (v == kNone) {
      context.outputs.emplace_back();
      continue;
    }
    const Type& type = plan.graph->value(v).type;
    if (!type.dims || !symbols.all_known(*type.dims)) return false;
    context.outputs.push_back({*type.dims, {}, Dim(0)});
  }
  if (!node.op->view(context)) return false;
  // Where it begins may be a number that nothing else wants to know, of a result without elements.
  for (const ViewContext::Out& out : context.outputs)
    if (!symbols.all_known(out.strides) || !symbols.all_known({out.offset})) return false;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k] == kNone) continue;
    PlanValue value = source;
    value.id = node.outputs[k];
    value.dims = context.outputs[k].dims;
    value.strides = context.outputs[k].strides;
    value.offset = source.offset + context.outputs[k].offset;
    values.add_view(std::move(value));
  }
  return true;
}

}  // namespace xc
