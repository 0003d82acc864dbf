#include "tier/summary.h"

#include <algorithm>

#include "tier/plan_choice.h"
#include "tier/region_kernel.h"

namespace xc::tier {
namespace {

std::string shape_text(const Plan& plan, const Ledger::Shape& shape) {
  std::string out;
  for (size_t k = 0; k < shape.size() && k < plan.symbols.size(); ++k)
    out += fmt::format("{}{}={}", k ? " " : "", plan.symbols[k].name, shape[k]);
  return out.empty() ? "fixed" : out;
}

ShapeSummary to_summary(std::string shape, const Ledger::Account& account) {
  ShapeSummary out;
  out.shape = std::move(shape);
  out.calls = static_cast<int64_t>(account.calls);
  out.live_calls = static_cast<int64_t>(account.live_calls);
  out.before_us = account.before_s * 1e6;
  out.fused_us = account.fused_s * 1e6;
  out.now_us = account.now_s * 1e6;
  out.predicted_us = account.predicted_s * 1e6;
  out.saved_ms = account.saved_s * 1e3;
  out.before_estimated = account.estimated;
  return out;
}

std::vector<ValueSummary> inputs_of(const Program& program, const Region& region) {
  std::vector<ValueSummary> out;
  for (ValueId v : region.inputs) {
    const ValueFacts::Fact fact = program.value_facts().of(v);
    if (fact.looks == 0) continue;
    out.push_back({program.graph().value(v).name, fact.looks, fact.elements,
                   static_cast<double>(fact.zeros) / static_cast<double>(fact.elements),
                   fact.scalar, fact.constant, fact.value});
  }
  return out;
}

RegionSummary to_summary(const Program& program, const Group& group) {
  RegionSummary region;
  region.identity = group.identity;
  region.name = group.name;
  region.program = program.name();
  region.state = name(group.state);
  region.reason = group.reason;
  region.uses = static_cast<int64_t>(group.places.size());
  put_measures(group, region);
  region.calls = static_cast<int64_t>(group.ledger.calls());
  region.net_saved_ms = (group.ledger.saved_s() - group.code.compile_s) * 1e3;
  for (const auto& [shape, account] : group.ledger.accounts())
    region.shapes.push_back(to_summary(shape_text(*program.base_plan(), shape), account));
  std::stable_sort(region.shapes.begin(), region.shapes.end(),
                   [](const auto& a, const auto& b) { return a.calls > b.calls; });
  if (group.ledger.others().calls > 0)
    region.shapes.push_back(to_summary("others", group.ledger.others()));
  region.inputs = inputs_of(program, group.places.front());
  if (const auto* kernel = dynamic_cast<const RegionKernel*>(group.code.kernel.get()))
    region.listing = kernel->listing();
  return region;
}

}  // namespace

void summarise(const Core& core, const Program& program, ProgramState& state,
               ProfileSummary& summary, bool details) {
  summary.queued = core.queue.size();
  std::lock_guard data(state.data);
  if (details && state.analysed) summary.searches.push_back({program.name(), state.considered});
  for (size_t k = 0; details && k < state.sizes.size(); ++k)
    if (state.sizes[k].total() > 0)
      summary.sizes.push_back({program.name(), program.base_plan()->symbols[k].name,
                               state.sizes[k].total(), state.sizes[k].share_of_multiples(),
                               state.sizes[k].frequent()});
  double saved_s = 0;
  for (const auto& group : state.groups) {
    saved_s += group->ledger.saved_s();
    if (!details) continue;
    summary.regions.push_back(to_summary(program, *group));
  }
  summary.compiled_regions += state.compiled;
  summary.swapped += state.swapped;
  summary.rolled_back += state.rolled_back;
  summary.rejected += state.rejected;
  summary.compile_ms += state.spent_s * 1e3;
  summary.net_saved_ms += (saved_s - state.spent_s) * 1e3;
  summary.code_bytes = core.compiler->code_bytes();
  summary.events_dropped += state.events.dropped();
  if (details)
    summary.events.insert(summary.events.end(), state.events.events().begin(),
                          state.events.events().end());
}

}  // namespace xc::tier
