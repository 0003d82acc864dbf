#include "plan/finish.h"

#include <algorithm>

#include "base/error.h"

namespace xc {
namespace {

void compute_liveness(Plan& plan) {
  for (PlanBuffer& buffer : plan.buffers) {
    buffer.first_step = UINT32_MAX;
    buffer.last_step = 0;
  }
  const auto touch = [&](uint32_t value, uint32_t step, uint32_t segment) {
    if (value == kNoValue) return;
    PlanBuffer& buffer = plan.buffers[plan.values[value].buffer];
    buffer.first_step = std::min(buffer.first_step, step);
    if (segment != buffer.segment)
      buffer.last_step = UINT32_MAX;
    else if (buffer.last_step != UINT32_MAX)
      buffer.last_step = std::max(buffer.last_step, step);
  };
  for (uint32_t s = 0; s < plan.segments.size(); ++s)
    for (uint32_t k = plan.segments[s].first_step; k < plan.segments[s].end_step; ++k) {
      for (uint32_t v : plan.steps[k]->inputs) touch(v, k, s);
      for (uint32_t v : plan.steps[k]->outputs) touch(v, k, s);
    }
}

}  // namespace

void finish_plan(Plan& plan, const std::unordered_map<std::string, uint32_t>& symbols) {
  plan.segments[0].symbol_end = 0;
  for (const PlanSymbol& symbol : plan.symbols)
    if (symbol.source != PlanSymbol::Source::kRuntimeDim) ++plan.segments[0].symbol_end;
  compute_liveness(plan);
  plan.superseded = plan.graph->superseded();
  for (uint32_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    Plan::SegmentProgram program;
    std::vector<Dim> dims;
    std::vector<uint8_t> seen(plan.values.size(), 0);
    const auto add_value = [&](uint32_t v) {
      if (v == kNoValue || seen[v] || !plan.values[v].rank_known) return;
      seen[v] = 1;
      const PlanValue& value = plan.values[v];
      program.values.push_back(v);
      program.value_positions.push_back(static_cast<uint32_t>(dims.size()));
      dims.insert(dims.end(), value.dims.begin(), value.dims.end());
      dims.insert(dims.end(), value.strides.begin(), value.strides.end());
      dims.push_back(value.offset);
    };
    // What a step of a later segment writes is not known yet; its operands belong there.
    for (uint32_t k = segment.first_step; k < segment.end_step; ++k) {
      const Step& step = *plan.steps[k];
      for (uint32_t v : step.inputs) add_value(v);
      if (step.kind == Step::Kind::kKernel)
        for (uint32_t v : step.outputs) add_value(v);
    }
    // A view that is a result gives the memory its maker writes; others are asked for at the end.
    for (uint32_t v : plan.outputs) {
      const PlanBuffer& buffer = plan.buffers[plan.values[v].buffer];
      if (s + 1 == plan.segments.size() ||
          (buffer.storage == Storage::kOutput && buffer.segment == s))
        add_value(v);
    }
    for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
      const PlanBuffer& buffer = plan.buffers[b];
      if (buffer.segment != s || buffer.first_step == UINT32_MAX) continue;
      if (buffer.storage == Storage::kArena) {
        program.buffers.push_back(b);
        program.buffer_positions.push_back(static_cast<uint32_t>(dims.size()));
        dims.push_back(buffer.elements);
      } else if (buffer.storage == Storage::kSizes) {
        program.buffers.push_back(b);
        program.buffer_positions.push_back(static_cast<uint32_t>(dims.size()));
        dims.insert(dims.end(), buffer.sizes.begin(), buffer.sizes.end());
      }
    }
    program.dims = DimProgram(dims, [&](const std::string& name) {
      const auto it = symbols.find(name);
      if (it == symbols.end() || it->second >= segment.symbol_end)
        fail(Status::kInternal, "size symbol '{}' is not known in segment {}", name, s);
      return it->second;
    });
    plan.programs.push_back(std::move(program));
  }
}

}  // namespace xc
