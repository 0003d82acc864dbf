#include "tier/plan_choice.h"

#include <doctest/doctest.h>

using namespace xc;
using namespace xc::tier;

namespace {

std::shared_ptr<const Plan> plan(uint64_t serial) {
  auto out = std::make_shared<Plan>();
  out->serial = serial;
  return out;
}

}  // namespace

TEST_CASE("tier/plan_choice: a plan is found again by its groups, in their order") {
  ProgramState state;
  const Group a, b;
  const auto both = plan(1), one = plan(2);
  CHECK(find_plan(state, {&a, &b}) == nullptr);
  keep_plan(state, {&a, &b}, both);
  keep_plan(state, {&a}, one);
  CHECK(find_plan(state, {&a, &b}) == both);
  CHECK(find_plan(state, {&a}) == one);
  CHECK(find_plan(state, {&b, &a}) == nullptr);
  CHECK(uses(state, *both, b));
  CHECK(!uses(state, *one, b));
  CHECK(groups_in(state, *plan(3)).empty());
}

TEST_CASE("tier/plan_choice: of too many plans the one asked for longest ago is let go of") {
  ProgramState state;
  const std::vector<Group> groups(kMaxVariants + 1);
  std::vector<std::weak_ptr<const Plan>> plans;
  for (size_t k = 0; k < kMaxVariants; ++k) {
    const auto made = plan(k + 1);
    plans.push_back(made);
    keep_plan(state, {&groups[k]}, made);
  }
  CHECK(find_plan(state, {&groups[0]}) != nullptr);  // now the second is the oldest
  keep_plan(state, {&groups[kMaxVariants]}, plan(1000));
  CHECK(!plans[0].expired());
  CHECK(plans[1].expired());
  CHECK(find_plan(state, {&groups[1]}) == nullptr);

  // What something still runs stays known, though the table lets go of it.
  const auto running = plans[2].lock();
  keep_plan(state, {&groups[1]}, plan(1001));
  CHECK(find_plan(state, {&groups[2]}) == running);
}

TEST_CASE("tier/plan_choice: plans with code that was let go of are given to no run") {
  ProgramState state;
  const Group a, b;
  const auto with = plan(1), other = plan(2);
  keep_plan(state, {&a, &b}, with);
  keep_plan(state, {&b}, other);
  drop_variants(state, a, false);
  CHECK(find_plan(state, {&a, &b}) == nullptr);
  CHECK(find_plan(state, {&b}) == other);
  CHECK(uses(state, *with, a));  // runs inside of it are still known to
  CHECK(!state.any_wrong);
  drop_variants(state, b, true);
  CHECK(find_plan(state, {&b}) == nullptr);
  CHECK(state.any_wrong);
}

TEST_CASE("tier/plan_choice: the state shown is what was decided at any size") {
  Group group;
  settle_state(group);
  CHECK(group.state == RegionState::kReady);
  CHECK(evictable(group));
  group.policy.decide(3, false, 1e-3, 2e-3, 0, 0);
  settle_state(group);
  CHECK(group.state == RegionState::kBanned);
  group.policy.decide(5, true, 2e-3, 1e-3, 0, 0);
  settle_state(group);
  CHECK(group.state == RegionState::kLive);
  CHECK(evictable(group));
  group.state = RegionState::kTrial;
  CHECK(!evictable(group));
  group.policy.always();  // mode sync: nobody would compile it again
  settle_state(group);
  CHECK(!evictable(group));
  group.wrong = true;
  CHECK(evictable(group));
}

TEST_CASE("tier/plan_choice: a kernel for some sizes covers its region's parts like the general") {
  Group general, other;
  Group special;
  special.special_of = &general;
  CHECK(covered_by({&special}, general));
  CHECK(covered_by({&general}, general));
  CHECK(!covered_by({&other}, general));
  CHECK(!covered_by({}, general));
}
