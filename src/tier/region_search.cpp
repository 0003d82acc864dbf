#include "tier/region_search.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "plan/continues.h"
#include "tier/failures.h"
#include "tier/plan_choice.h"

namespace xc::tier {
namespace {

/// The plan's symbols that are dims of operands by themselves.
std::vector<uint32_t> symbols_of(const Plan& plan, const StepSpec& spec) {
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < plan.symbols.size(); ++k) {
    const auto is_it = [&](const Dim& dim) { return dim.as_symbol() == plan.symbols[k].name; };
    const auto has = [&](const Operand& o) {
      return std::any_of(o.dims.begin(), o.dims.end(), is_it);
    };
    if (std::any_of(spec.inputs.begin(), spec.inputs.end(), has) ||
        std::any_of(spec.outputs.begin(), spec.outputs.end(), has))
      out.push_back(k);
  }
  return out;
}

/// Elements of the innermost loop of a region, about: its row, or all of a cell.
Dim innermost(const Region& region) {
  const size_t axes = region.space.size();
  Dim out(1);
  for (size_t a = 0; a < axes; ++a) {
    const bool inside = region.blocks            ? a + 1 == axes
                        : region.row_axes.none() ? true
                                                 : region.row_axes.has(a);
    if (inside) out = out * region.space[a];
  }
  return out;
}

/// Costs at the sizes of the signature used last.
FusionOptions fusion_options(Program& program) {
  FusionOptions options;
  options.numerics = program.planner().options().numerics;
  if (const HostSpeed* host = calibrated_host_speed()) options.host = *host;
  options.taken = absorbed_nodes(*program.base_plan());
  options.in_place = program.base_plan()->in_place;
  options.barriers = segment_ends(*program.base_plan());
  std::shared_ptr<SignatureEntry> entry;  // of the last segment reached: it knows the most sizes
  for (const auto& latest : program.latest_entries())
    if (latest) entry = latest;
  if (entry)
    options.sizes = [plan = program.base_plan(), entry](const std::string& symbol) {
      return symbol_value(*plan, entry->symbols, symbol);
    };
  return options;
}

Event search_refused(const std::exception& error) {
  Event event;
  event.kind = EventKind::kRefused;
  event.detail = std::string("search: ") + error.what();
  return event;
}

/// Of a region and others of its identity, without a place yet.
std::unique_ptr<Group> make_group(Program& program, const Region& region) {
  auto group = std::make_unique<Group>();
  group->identity = region.identity;
  group->segment = region.segment;
  group->name = fmt::format("{} {} ({} nodes)", region.pattern,
                            op_names(program.graph(), region.nodes), region.nodes.size());
  group->cost = estimate(program.graph(), region);
  group->cost_at = {group->cost, *program.base_plan()};
  group->symbols = symbols_of(*program.base_plan(), program.planner().region_spec(region));
  group->row = innermost(region);
  return group;
}

}  // namespace

void RegionSearch::analyse(Program& program, ProgramState& state) {
  if (state.analysed || state.frozen) return;  // restored or frozen meanwhile
  (void)host_speed();  // measured at its first call, which a restart that knows it is spared
  const double start = thread_cpu_seconds();
  const int64_t begin = steady_ns();
  FusionReport considered;
  zeros_.watch(program, state);
  find_groups(program, state, fusion_options(program), &considered, nullptr);
  if (is_unwanted(state)) return;  // and may have found nothing for that
  Event event;
  event.kind = EventKind::kSearched;
  event.wall_ms = ms_since(begin);
  {
    std::lock_guard data(state.data);  // with the groups, or it is done once more
    state.analysed = true;
    state.considered = std::move(considered);
    state.restore_s += thread_cpu_seconds() - start;
    event.places = static_cast<int64_t>(state.groups.size());
  }
  core_.emit(state, program, std::move(event));
}

void RegionSearch::offer_parts(Program& program, ProgramState& state, Group& group) {
  if (group.places.front().blocks) offer_inside(program, state, group, FusionOptions{}.max_nodes);
}

void RegionSearch::offer_smaller(Program& program, ProgramState& state, Group& group) {
  const Region& place = group.places.front();
  if (place.blocks) return offer_parts(program, state, group);
  if (place.nodes.size() > 1)
    offer_inside(program, state, group, static_cast<int>(place.nodes.size() / 2));
}

void RegionSearch::offer_inside(Program& program, ProgramState& state, Group& group,
                                int max_nodes) {
  // The parts of a kernel for some sizes are those of the general one.
  if (group.special_of || std::exchange(group.split, true)) return;
  FusionOptions options = fusion_options(program);
  options.blocks = false;
  options.max_nodes = max_nodes;
  find_groups(program, state, options, nullptr, &group);
}

bool RegionSearch::is_unwanted(const ProgramState& state) const {
  return state.freezing > 0 || core_.queue.is_going(state);
}

void RegionSearch::find_groups(Program& program, ProgramState& state, FusionOptions options,
                               FusionReport* considered, const Group* inside) {
  options.stop = [&] { return is_unwanted(state); };
  try {
    std::vector<Region> regions = find_regions(program.graph(), options, considered);
    if (inside)
      std::erase_if(regions, [&](const Region& region) {
        return !std::all_of(region.nodes.begin(), region.nodes.end(),
                            [&](NodeId n) { return inside->nodes.count(n) > 0; });
      });
    // Of a part that was refused: the same larger region may be in use at some sizes.
    const Group* larger = inside && inside->part_of ? inside->part_of : inside;
    add_groups(program, state, std::move(regions), larger);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    core_.emit(state, program, search_refused(error));
  }
}

void RegionSearch::add_groups(Program& program, ProgramState& state, std::vector<Region> regions,
                              const Group* part_of) {
  std::vector<Event> events;
  std::map<std::pair<uint32_t, Hash128>, std::unique_ptr<Group>> groups;
  std::vector<Group*> in_order;
  for (Region& region : regions) {
    try {
      region.identity =
          region_identity(program.graph(), region, program.planner().region_spec(region));
      auto& group = groups[{region.segment, region.identity}];
      if (!group) {
        group = make_group(program, region);
        group->part_of = part_of;
        in_order.push_back(group.get());
      }
      group->nodes.insert(region.nodes.begin(), region.nodes.end());
      group->places.push_back(std::move(region));
    } catch (const Error& error) {  // its sizes are too long to write down: the others go on
      if (error.status() != Status::kLimit) throw;
      if (events.empty()) events.push_back(search_refused(error));
    }
  }
  for (const Group* group : in_order)
    for (ValueId v : group->places.front().inputs)
      if (const Value& value = program.graph().value(v); !value.is_constant())
        program.value_facts().watch(v, value.type.dtype);
  const auto latest = program.latest_entries();
  {
    std::lock_guard data(state.data);
    for (Group* group : in_order) {
      const auto& entry = latest[group->segment];  // in use now
      if (entry) group->predicted_s = predicted_s(*group, *program.base_plan(), entry->symbols);
      Event event = event_of(EventKind::kCandidate, *group);
      if (entry) event.base_us = group->seconds_in(*program.published(*entry)->active) * 1e6;
      event.detail = fmt::format("{} places, {} nodes each", group->places.size(),
                                 group->nodes.size() / group->places.size());
      events.push_back(std::move(event));
    }
  }
  // Before runs can look at a group.
  for (Event& event : events) core_.emit(state, program, std::move(event));
  {
    std::lock_guard data(state.data);
    state.groups.reserve(state.groups.size() + in_order.size());
    for (const Group* group : in_order)
      state.groups.push_back(std::move(groups[{group->segment, group->identity}]));
  }
}

}  // namespace xc::tier
