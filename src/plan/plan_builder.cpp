// The walk: sources first, then each node in the order of units, then outputs. The questions of
// visit() are asked in an order that matters (README.md lists them).
#include "plan/plan_builder.h"

#include <algorithm>

#include "base/error.h"
#include "ir/place.h"
#include "ops/op.h"
#include "plan/finish.h"
#include "plan/kernel_choice.h"
#include "plan/segments.h"
#include "plan/size_checks.h"
#include "plan/views.h"

namespace xc {
namespace {

/// Whether a kernel made for the one takes the other.
bool same_operands(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.dims == y.dims && x.strides == y.strides;
  });
}

}  // namespace

PlanBuilder::PlanBuilder(Planner& planner, std::span<const PlannedRegion> regions)
    : planner_(planner),
      graph_(*planner.graph_),
      regions_(regions),
      plan_(begin_plan(planner)),
      symbols_(*plan_),
      values_(*plan_, planner.layout_, planner.concats_),
      kernel_steps_(*plan_, values_, planner.backend_, planner.options_, planner.layout_,
                    planner.steps_),
      users_(graph_.users()) {}

std::shared_ptr<Plan> PlanBuilder::begin_plan(Planner& planner) {
  auto plan = std::make_shared<Plan>();
  plan->graph = planner.graph_;
  plan->in_place = planner.concats_.nodes();
  plan->serial = planner.next_serial_++;
  return plan;
}

std::shared_ptr<const Plan> PlanBuilder::build() {
  plan_->size_checks = size_checks(graph_);
  declare_sources();
  order_ = order_units(graph_, regions_);
  plan_->segments.push_back({0, 0, 0});
  for (NodeId id : order_.nodes) {
    visit(id);
    if (misfit_) return nullptr;
  }
  bind_outputs();
  finish_plan(*plan_, symbols_.numbers());
  return plan_;
}

void PlanBuilder::survey() {
  declare_sources();
  plan_->segments.push_back({0, 0, 0});
  for (NodeId id : graph_.order()) survey_node(id);
}

StepSpec PlanBuilder::spec_of(const Region& region) {
  StepSpec spec = spec_without_operands(graph_.node(region.nodes.front()), planner_.options_);
  for (ValueId v : region.inputs) spec.inputs.push_back(values_.operand_of(values_.value_for(v)));
  for (ValueId v : region.outputs) spec.outputs.push_back(values_.result_of(v));
  return spec;
}

void PlanBuilder::declare_sources() {
  symbols_.declare_inputs();
  for (uint32_t i = 0; i < graph_.inputs.size(); ++i) {
    plan_->inputs.push_back(values_.add_source(graph_.inputs[i], Storage::kInput, i, {}));
    symbols_.check_input(i);
  }
}

// ---- nodes --------------------------------------------------------------------------------------

void PlanBuilder::visit(NodeId id) {
  const Node& node = graph_.node(id);
  located([&] { return node_place(graph_, node); },
          [&] {
            if (order_.region_of[id] != kNoRegion) {
              // A region runs where its last node stands, when everything it reads is there.
              if (order_.runs_at[id] != kNoRegion) add_region(order_.runs_at[id]);
              return;
            }
            if (absorbed_.count(id)) {
              if (const auto it = deferred_.find(id); it != deferred_.end())
                kernel_steps_.add(it->second);
              return;
            }
            if (planner_.concats_.whole(id)) return;  // its parts are where they belong
            if (placed_without_kernel(id, node)) return;
            Unit unit = unit_at(id);
            if (unit.nodes.size() > 1) return defer(std::move(unit));
            kernel_steps_.add(unit);
          });
}

bool PlanBuilder::placed_without_kernel(NodeId id, const Node& node) {
  if (!node.op->control_flow && needs_no_step(node)) return true;
  if (!node.op->control_flow && !needs_values(*plan_, node, symbols_, values_)) return false;
  const auto kind = node.op->control_flow ? Step::Kind::kControl : Step::Kind::kDynamic;
  add_whole_tensor_step(*plan_, id, kind, symbols_, values_);
  return true;
}

void PlanBuilder::survey_node(NodeId id) {
  const Node& node = graph_.node(id);
  const auto missing = [&](ValueId v) { return v != kNone && values_.find(v) == kNoValue; };
  if (std::none_of(node.outputs.begin(), node.outputs.end(), missing)) return;
  const bool inputs_made = std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    return missing(v) && !graph_.value(v).is_constant();
  });
  if (inputs_made && placed_without_kernel(id, node)) return;
  for (ValueId v : node.outputs)
    if (missing(v)) values_.add_result(v);
}

bool PlanBuilder::needs_no_step(const Node& node) {
  return place_sizes(*plan_, node, symbols_, values_) ||
         (planner_.options_.views && place_view(*plan_, node, symbols_, values_));
}

Unit PlanBuilder::unit_at(NodeId anchor) {
  if (!planner_.options_.post_ops || planner_.options_.reference_only)
    return single_unit(graph_, anchor);
  const auto taken = [&](NodeId n) {
    return absorbed_.count(n) != 0 || order_.region_of[n] != kNoRegion;
  };
  const auto has_kernel = [&](const Unit& unit) {
    const StepSpec spec = kernel_steps_.spec_of(unit);
    if (!spec.narrows()) return has_fast_kernel(planner_.backend_, spec);
    // One that stores f32 alone and stands in front in the list stays, with a Cast behind it.
    const Implementation* const row = first_to_support(planner_.backend_, spec);
    return row && row == first_to_support(planner_.backend_, spec.without_cast());
  };
  return with_post_ops(graph_, users_, anchor, taken, has_kernel);
}

void PlanBuilder::defer(Unit unit) {
  for (NodeId n : unit.nodes) absorbed_.insert(n);
  const NodeId last = unit.nodes.back();
  deferred_.emplace(last, std::move(unit));
}

void PlanBuilder::add_region(uint32_t index) {
  const PlannedRegion& planned = regions_[index];
  const Region& region = planned.region;
  // Its operands and its result would be the same memory.
  if (std::any_of(region.nodes.begin(), region.nodes.end(),
                  [&](NodeId n) { return planner_.concats_.has(n); })) {
    misfit_ = index;
    return;
  }
  auto step = std::make_shared<Step>();
  step->name = shown_name(graph_, graph_.node(region.nodes.front()));
  step->nodes = region.nodes;
  step->kernel = planned.kernel;
  step->kernel_name = planned.kernel_name;
  step->region = region.identity;
  step->unproven = unproven_nodes(graph_, region.nodes);
  step->spec.node = &graph_.node(region.nodes.front());
  step->spec.op = step->spec.node->op;
  for (ValueId v : region.inputs) {
    step->inputs.push_back(values_.value_for(v));
    step->spec.inputs.push_back(values_.operand_of(step->inputs.back()));
  }
  for (ValueId v : region.outputs) {
    step->outputs.push_back(values_.add_result(v));
    step->spec.outputs.push_back(values_.result_of(v));
  }
  const StepSpec made_for = planner_.region_spec(region);
  if (!same_operands(made_for.inputs, step->spec.inputs) ||
      !same_operands(made_for.outputs, step->spec.outputs)) {
    misfit_ = index;
    return;
  }
  ++plan_->region_steps;
  append_step(*plan_, std::move(step));
}

// ---- outputs ------------------------------------------------------------------------------------

bool PlanBuilder::fills_arena_buffer(const PlanValue& value) const {
  const PlanBuffer& buffer = plan_->buffers[value.buffer];
  Operand operand;
  operand.dims = value.dims;
  operand.strides = value.strides;
  return buffer.storage == Storage::kArena && value.offset == Dim(0) && operand.contiguous() &&
         buffer.elements == element_count(value.dims) && known_in(buffer.segment, value.dims);
}

/// Are the dims known when the segment is bound?
bool PlanBuilder::known_in(uint32_t segment, const SymDims& dims) const {
  std::vector<std::string> names;
  for (const Dim& d : dims) d.collect_symbols(names);
  const auto later = plan_->symbols.begin() + plan_->segments[segment].symbol_end;
  return std::none_of(later, plan_->symbols.end(), [&](const PlanSymbol& symbol) {
    return symbol.source == PlanSymbol::Source::kRuntimeDim &&
           std::find(names.begin(), names.end(), symbol.name) != names.end();
  });
}

void PlanBuilder::bind_outputs() {
  for (uint32_t i = 0; i < graph_.outputs.size(); ++i) {
    const uint32_t v = values_.value_for(graph_.outputs[i]);
    const PlanValue& value = plan_->values[v];
    PlanBuffer& buffer = plan_->buffers[value.buffer];
    if (is_container(graph_.value(graph_.outputs[i])) ||
        (buffer.storage == Storage::kDynamic && value.offset == Dim(0) &&
         buffer.elements == element_count(value.dims))) {
      plan_->outputs.push_back(v);
      continue;
    }
    if (fills_arena_buffer(value)) {
      buffer.storage = Storage::kOutput;
      buffer.index = i;
      plan_->outputs.push_back(v);
      continue;
    }
    PlanBuffer out;
    out.storage = Storage::kOutput;
    out.index = i;
    out.dtype = value.dtype;
    const uint32_t to = values_.add_value(kNone, std::move(out), value.dims);
    kernel_steps_.add_copy(v, to);
    plan_->outputs.push_back(to);
  }
}

}  // namespace xc
