// In this order: a kernel that takes the operands as they lie, one that takes copies, the
// reference; then the results' layout, with one more look at the list if it is not row-major.
#include "plan/kernel_steps.h"

#include "base/error.h"
#include "ir/place.h"
#include "ops/registry.h"
#include "plan/kernel_choice.h"
#include "plan/segments.h"
#include "plan/size_checks.h"

namespace xc {
namespace {

std::string key_of(const Implementation& row, const std::vector<NodeId>& nodes,
                   const StepSpec& spec) {
  std::string key(row.name);
  for (NodeId n : nodes) key += "," + std::to_string(n);
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands)
      key += ";" + to_text(operand.dims) + to_text(operand.strides);
  return key;
}

/// The operator of a copying step, which no node of the graph stands for.
const Node& copy_node() {
  static const Node copy = [] {
    Node node;
    node.op = &get_op("Identity");
    node.name = "copy";
    return node;
  }();
  return copy;
}

}  // namespace

StepSpec KernelSteps::spec_of(const Unit& unit) {
  StepSpec spec = spec_without_operands(graph_.node(unit.nodes.front()), options_);
  spec.post_ops = unit.post_ops;
  for (ValueId v : unit.inputs) spec.inputs.push_back(values_.operand_of(values_.operand_value(v)));
  for (ValueId v : unit.outputs) spec.outputs.push_back(values_.result_of(v));
  return spec;
}

void KernelSteps::add(const Unit& unit) {
  std::vector<uint32_t> inputs;
  for (ValueId v : unit.inputs) inputs.push_back(values_.value_for(v));
  StepSpec spec = spec_of(unit);
  Choice choice;
  choice.row = choose(spec, false, &choice.refused);
  // A fast kernel on row-major copies beats the reference on strided operands.
  if (!choice.row && !options_.reference_only) choice.row = choose_on_copies(spec, inputs);
  if (!choice.row) {
    choice.refused.clear();  // all are asked again
    choice.row = choose(spec, true, &choice.refused);
  }
  if (!choice.row)
    fail(Status::kUnsupported, "no kernel can execute operator {}: {}", spec.op->name,
         choice.refused.empty() ? std::string("none is registered")
                                : choice.refused.back().name + ": " + choice.refused.back().reason);
  if (options_.layouts) decide_layouts(unit, spec, choice);
  add_step(unit, std::move(spec), std::move(choice), std::move(inputs));
}

const Implementation* KernelSteps::choose(const StepSpec& spec, bool allow_reference,
                                          std::vector<Refusal>* refused) const {
  return choose_kernel(backend_, options_, spec, allow_reference, refused);
}

const Implementation* KernelSteps::choose_on_copies(StepSpec& spec, std::vector<uint32_t>& inputs) {
  StepSpec packed = spec;
  bool changed = false;
  for (Operand& operand : packed.inputs)
    if (operand.present() && !operand.contiguous()) {
      if (holds_objects(operand.dtype)) return nullptr;  // the arena is for numbers
      operand.strides = contiguous_strides(operand.dims);
      if (operand.constant) operand.constant = operand.constant.to_contiguous();
      changed = true;
    }
  const Implementation* row = changed ? choose(packed, false, nullptr) : nullptr;
  if (!row) return nullptr;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (spec.inputs[k].present() && !spec.inputs[k].contiguous()) inputs[k] = add_copy(inputs[k]);
  spec = std::move(packed);
  return row;
}

void KernelSteps::decide_layouts(const Unit& unit, StepSpec& spec, Choice& choice) {
  layout_.decide(spec, *choice.row, unit.outputs);
  for (size_t k = 0; k + 1 < unit.nodes.size(); ++k)
    layout_.follow(graph_.node(unit.nodes[k]).outputs[0], unit.outputs[0]);
  bool moved = false;
  for (size_t k = 0; k < unit.outputs.size(); ++k) {
    spec.outputs[k] = values_.result_of(unit.outputs[k]);
    moved |= spec.outputs[k].present() && !spec.outputs[k].contiguous();
  }
  if (!moved) return;
  // Results in another order may be what a faster row was refused for.
  Choice now;
  now.row = choose(spec, false, &now.refused);
  if (now.row) choice = std::move(now);
}

void KernelSteps::add_step(const Unit& unit, StepSpec spec, Choice choice,
                           std::vector<uint32_t> inputs) {
  std::string key = key_of(*choice.row, unit.nodes, spec);
  auto step = std::make_shared<Step>();
  if (const auto it = known_.find(key); it != known_.end()) {
    *step = *it->second;
  } else {
    step->name = shown_name(graph_, graph_.node(unit.nodes.front()));
    step->nodes = unit.nodes;
    step->unproven = unproven_nodes(graph_, unit.nodes);
    step->spec = std::move(spec);
    step->kernel_name = std::string(choice.row->name);
    step->kernel = choice.row->create(step->spec);
    step->refused = std::move(choice.refused);
    known_.emplace(std::move(key), step);
    step = std::make_shared<Step>(*step);
  }
  step->inputs = std::move(inputs);
  step->outputs.clear();
  for (ValueId v : unit.outputs)
    step->outputs.push_back(v == kNone ? kNoValue : values_.add_result(v));
  append_step(plan_, std::move(step));
}

uint32_t KernelSteps::add_copy(uint32_t from, uint32_t to) {
  if (const auto it = copies_.find(from); it != copies_.end() && to == kNoValue) return it->second;
  StepSpec spec = spec_without_operands(copy_node(), options_);
  spec.inputs = {values_.operand_of(from)};
  Operand result = spec.inputs[0];
  result.constant = {};
  result.strides = contiguous_strides(result.dims);
  spec.outputs = {result};
  const Implementation* row = choose(spec, true, nullptr);
  if (!row) fail(Status::kInternal, "no kernel can copy {}", name(result.dtype));
  if (to == kNoValue) {
    PlanBuffer buffer;
    buffer.dtype = result.dtype;
    to = values_.add_value(kNone, std::move(buffer), result.dims);
    copies_.emplace(from, to);
  }
  const ValueId id = plan_.values[from].id;
  auto step = std::make_shared<Step>();
  step->name = "copy of " + (id == kNone ? std::string("a view") : graph_.value(id).name);
  step->spec = std::move(spec);
  step->kernel_name = std::string(row->name);
  step->kernel = row->create(step->spec);
  step->inputs = {from};
  step->outputs = {to};
  append_step(plan_, std::move(step));
  return to;
}

}  // namespace xc
