#include "plan/finish.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"
#include "plan/liveness.h"

namespace xc {
namespace {

void compute_liveness(Plan& plan) {
  for (PlanBuffer& buffer : plan.buffers) {
    buffer.first_step = kNeverUsed;
    buffer.last_step = 0;
  }
  const auto touch = [&](uint32_t value, uint32_t step, uint32_t segment) {
    if (value == kNoValue) return;
    PlanBuffer& buffer = plan.buffers[plan.values[value].buffer];
    buffer.first_step = std::min(buffer.first_step, step);
    if (segment != buffer.segment)
      buffer.last_step = kUsedLater;
    else if (buffer.last_step != kUsedLater)
      buffer.last_step = std::max(buffer.last_step, step);
  };
  for (uint32_t s = 0; s < plan.segments.size(); ++s)
    for (uint32_t k = plan.segments[s].first_step; k < plan.segments[s].end_step; ++k) {
      for (uint32_t v : plan.steps[k]->inputs) touch(v, k, s);
      for (uint32_t v : plan.steps[k]->outputs) touch(v, k, s);
    }
}

using Symbols = std::unordered_map<std::string, uint32_t>;

/// The first segment that knows all sizes of some dims; nullopt where none does.
std::optional<uint32_t> known_from(const Plan& plan, const Symbols& symbols,
                                   std::span<const Dim> dims) {
  std::vector<std::string> names;
  for (const Dim& d : dims) d.collect_symbols(names);
  uint32_t end = 0;  // of the symbols that are needed
  for (const std::string& name : names) {
    const auto it = symbols.find(name);
    if (it == symbols.end()) return std::nullopt;
    end = std::max(end, it->second + 1);
  }
  const auto at =
      std::partition_point(plan.segments.begin(), plan.segments.end(),
                           [&](const Segment& segment) { return segment.symbol_end < end; });
  if (at == plan.segments.end()) return std::nullopt;
  return static_cast<uint32_t>(at - plan.segments.begin());
}

/// All sizes that an operator's inference looks at.
std::vector<Dim> sizes_of(const Graph& graph, const Node& node) {
  std::vector<Dim> out;
  const auto add = [&](ValueId id) {
    if (id == kNone) return;
    const Value& value = graph.value(id);
    if (value.type.dims) out.insert(out.end(), value.type.dims->begin(), value.type.dims->end());
    if (value.elements) out.insert(out.end(), value.elements->begin(), value.elements->end());
  };
  for (const ValueId v : node.inputs) add(v);
  for (const ValueId v : node.outputs) add(v);
  return out;
}

/// Which segment asks what about sizes.
void assign_checks(Plan& plan, const Symbols& symbols) {
  const auto give = [&](std::optional<uint32_t> segment, auto list, auto what) {
    for (uint32_t s = segment.value_or(0); s < plan.segments.size(); ++s) {
      (plan.programs[s].*list).push_back(what);
      if (segment) break;
    }
  };
  for (uint32_t k = 0; k < plan.size_checks.size(); ++k) {
    const Dim both[] = {plan.size_checks[k].given, plan.size_checks[k].wanted};
    give(known_from(plan, symbols, both), &Plan::SegmentProgram::size_checks, k);
  }
  for (const NodeId id : plan.superseded)
    give(known_from(plan, symbols, sizes_of(*plan.graph, plan.graph->node(id))),
         &Plan::SegmentProgram::superseded, id);
}

/// Where the segment's values are found. `first_own`: behind all that segments before it use.
void place_values(Plan::SegmentProgram& program, uint32_t first_own) {
  program.first_own = program.end_own = first_own;
  for (const uint32_t v : program.values) {
    if (v < first_own)
      program.earlier.push_back(v);
    else
      program.end_own = std::max(program.end_own, v + 1);
  }
  std::sort(program.earlier.begin(), program.earlier.end());
}

}  // namespace

void finish_plan(Plan& plan, const Symbols& symbols) {
  plan.segments[0].symbol_end = 0;
  for (const PlanSymbol& symbol : plan.symbols)
    if (symbol.source != PlanSymbol::Source::kRuntimeDim) ++plan.segments[0].symbol_end;
  compute_liveness(plan);
  plan.superseded = plan.graph->superseded();
  constexpr uint32_t kNoSegment = UINT32_MAX;
  std::vector<uint32_t> seen(plan.values.size(), kNoSegment);  // by segment
  std::vector<uint32_t> first_value(plan.buffers.size(), kNoValue);
  for (uint32_t v = static_cast<uint32_t>(plan.values.size()); v-- > 0;)
    first_value[plan.values[v].buffer] = v;
  std::vector<std::vector<uint32_t>> defined(plan.segments.size());  // buffers
  for (uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].first_step != kNeverUsed) defined.at(plan.buffers[b].segment).push_back(b);
  uint32_t first_own = 0;
  for (uint32_t s = 0; s < plan.segments.size(); ++s) {
    const Segment& segment = plan.segments[s];
    Plan::SegmentProgram program;
    std::vector<Dim> dims;
    const auto add_value = [&](uint32_t v) {
      if (v == kNoValue || seen[v] == s || !plan.values[v].rank_known) return;
      seen[v] = s;
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
    for (const uint32_t b : defined[s]) {
      const PlanBuffer& buffer = plan.buffers[b];
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
    for (const uint32_t b : program.buffers) program.buffer_values.push_back(first_value[b]);
    place_values(program, first_own);
    first_own = program.end_own;
    plan.programs.push_back(std::move(program));
  }
  assign_checks(plan, symbols);
}

}  // namespace xc
