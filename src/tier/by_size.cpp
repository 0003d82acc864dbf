// Moving runs to the plan that their sizes choose (plan_choice.h): plans are made once and shared.

#include <algorithm>
#include <unordered_set>

#include "tier/tier.h"

namespace xc {

using namespace tier;

std::shared_ptr<const Plan> Tier::plan_with(Program& program, ProgramState& state,
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

void Tier::bind_anew(Program& program, ProgramState& state, SignatureEntry& entry) {
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

void Tier::bind_anew_or_settle(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    bind_anew(program, state, entry);
  } catch (const Error& error) {
    if (error.status() != Status::kLimit) throw;
    program.settle(entry);
  }
}

void Tier::bind_anew_or_keep(Program& program, ProgramState& state, SignatureEntry& entry) {
  try {
    return bind_anew(program, state, entry);
  } catch (const std::exception& error) {
    log_failure(program, error.what());
  }
  const auto now = program.published(entry);
  {
    std::lock_guard data(state.data);
    if (!is_wrong(state, *now)) return;
  }
  try {
    program.publish(entry, published_alone(program.bind(entry, program.base_plan(), {})));
  } catch (const std::exception& error) {
    log_failure(program, error.what());
    if (!is_out_of_memory(error)) program.forget(entry);  // its runs fail as a new one's would
  }
}

double Tier::predicted_s(ProgramState& state, SignatureEntry& entry, const Group& group) {
  std::lock_guard data(state.data);
  const double predicted = fact_at(state, known_facts(state, entry), group).predicted_s;
  return predicted > 0 ? predicted : 1;
}

}  // namespace xc
