#include "tier/publishing.h"

#include <algorithm>
#include <unordered_set>

#include "tier/failures.h"
#include "tier/guarded_kernel.h"
#include "tier/plan_choice.h"
#include "tier/work.h"

namespace xc::tier {
namespace {

/// The kernel of a region with those of `groups` that are for some of its sizes, and its name.
PlannedRegion with_specials(const Region& place, const Group& general,
                            const std::vector<const Group*>& groups) {
  std::vector<const Group*> mine;
  for (const Group* group : groups)
    if (group->special_of == &general) mine.push_back(group);
  if (general.zeros) return {place, general.code.kernel, general.name};
  if (mine.empty()) return {place, general.code.kernel, "fused " + general.name};
  // The more is known, the sooner it is asked.
  const auto exact = [](const Group* g) {
    return std::count_if(g->facts.begin(), g->facts.end(),
                         [](const SizeFact& fact) { return fact.value >= 0; });
  };
  std::stable_sort(mine.begin(), mine.end(),
                   [&](const Group* a, const Group* b) { return exact(a) > exact(b); });
  std::vector<GuardedKernel::Special> specials;
  std::string sizes;
  for (const Group* group : mine) {
    specials.push_back({group->special->guard, group->code.kernel});
    sizes += (sizes.empty() ? "" : " or ") + to_text(group->facts);
  }
  return {place, std::make_shared<GuardedKernel>(general.code.kernel, std::move(specials)),
          fmt::format("fused {} for {}", general.name, sizes)};
}

}  // namespace

std::shared_ptr<const Plan> Publishing::plan_with(Program& program, ProgramState& state,
                                                  const std::vector<const Group*>& groups) {
  if (groups.empty()) return program.base_plan();
  {
    std::lock_guard data(state.data);
    if (auto known = find_plan(state, groups)) return known;
  }
  // Who holds `work` alone changes groups and plans: it is built while runs may have the lock.
  std::vector<PlannedRegion> planned;
  std::unordered_set<NodeId> covered;
  std::vector<const Group*> general;
  for (const Group* group : groups) {
    const Group* g = group->special_of ? group->special_of : group;
    if (std::find(general.begin(), general.end(), g) == general.end()) general.push_back(g);
  }
  for (const Group* group : general) {
    for (const Region& place : group->places) {
      const auto inside = [&](NodeId n) { return covered.count(n) > 0; };
      if (std::any_of(place.nodes.begin(), place.nodes.end(), inside)) continue;
      covered.insert(place.nodes.begin(), place.nodes.end());
      planned.push_back(with_specials(place, *group, groups));
    }
  }
  std::vector<uint32_t> refused;
  const std::shared_ptr<const Plan> plan = program.planner().build(planned, &refused);
  std::vector<Event> events;
  {
    std::lock_guard data(state.data);
    for (const uint32_t r : refused)
      for (const auto& group : state.groups) {
        if (group->special_of || group->identity != planned[r].region.identity || group->wrong)
          continue;
        group->wrong = true;
        group->state = RegionState::kBanned;
        group->reason = "its operands lie otherwise in the plan than it was made for";
        events.push_back(event_of(EventKind::kRefused, *group));
        events.back().detail = group->reason;
        events.back().back_off_s = -1;
      }
    keep_plan(state, groups, plan);
  }
  for (Event& event : events) core_.emit(state, program, std::move(event));
  return plan;
}

void Publishing::bind_anew(Program& program, ProgramState& state, SignatureEntry& entry) {
  const auto now = program.published(entry);
  std::vector<const Group*> groups;
  bool alternates = false;
  {
    std::unique_lock data(state.data);
    const bool wrong = is_wrong(state, *now);
    if (state.frozen && !wrong && !skips_zeros(state, *now)) {
      data.unlock();
      return program.settle(entry);
    }
    groups = chosen(state, entry, known_facts(state, entry));
    alternates = now->challenger && is_tried(state, *now) && !wrong;
  }
  const auto wanted = plan_with(program, state, groups);
  program.set_preferred_plan(groups.empty() ? nullptr : wanted);
  if (alternates || (!now->challenger && now->active->bound->plan == wanted))
    return program.settle(entry);
  program.publish(entry, published_alone(program.bind(entry, wanted, {.background = true})));
}

void Publishing::bind_anew_or_settle(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    bind_anew(program, state, entry);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    {
      const std::lock_guard data(state.data);
      GroupFacts& facts = known_facts(state, entry);
      const auto groups = chosen(state, entry, facts);
      facts.over_limit = groups.empty() ? program.base_plan() : find_plan(state, groups);
    }
    program.settle(entry);
  }
}

void Publishing::bind_anew_or_keep(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    return bind_anew(program, state, entry);
  } catch (const std::exception& error) {
    deliver_failure(state, program, error.what());
  }
  const auto now = program.published(entry);
  {
    std::lock_guard data(state.data);
    if (!is_wrong(state, *now)) return;
  }
  try {
    program.publish(entry, published_alone(program.bind(entry, program.base_plan(), {})));
  } catch (const std::exception& error) {
    deliver_failure(state, program, error.what());
    if (!is_out_of_memory(error)) program.forget(entry);  // its runs fail as a new one's would
  }
}

void Publishing::everywhere(Program& program, ProgramState& state, size_t most) {
  for (uint32_t s = 0; s < program.base_plan()->segments.size(); ++s) {
    program.drop_stale_segments();  // what followed the plans that were replaced
    auto entries = program.entries();
    std::erase_if(entries, [&](const auto& entry) { return entry->segment != s; });
    entries = by_last_use(entries);  // the plan of the one used last is what new sizes are shown
    if (entries.size() > most)
      entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(most));
    for (const auto& entry : entries) bind_anew_or_keep(program, state, *entry);
  }
  program.drop_stale_segments();
  program.call_attention();  // the others follow when they next run
}

}  // namespace xc::tier
