// Labels: asan tsan
// What replaces what runs execute, while an entry takes part in a trial.
#include <doctest/doctest.h>

#include "runtime/program.h"
#include "support/sessions.h"

using namespace xc;

TEST_CASE("runtime/publish: a base plan bound anew leaves one side of a trial as it is compared") {
  const auto session =
      testing::session_of("graph g(%x: f32[n]) -> (%y) { %a = Exp(%x) %y = Mul(%a, %x) }",
                          testing::config_in(JitMode::kAuto));
  testing::run(*session, {testing::ramp({4}, 1, 0)});
  Program& program = session->program();
  SignatureEntry& entry = *program.entries().at(0);
  const std::shared_ptr<const Bound> bound = program.base_of(entry)->bound;
  const auto bind = [&] {
    return std::make_shared<Version>(program.bind(entry, bound->plan, {.background = true}));
  };
  const auto seat = std::make_shared<Version>(bound);
  seat->compare(std::vector<uint8_t>(bound->plan->steps.size(), 1));
  program.set_base(entry, seat);
  auto seated = std::make_shared<Published>();
  seated->active = seat;
  seated->timed = true;
  seated->trial = 7;
  seated->with_active = published_alone(bound);
  program.publish(entry, seated);
  testing::run(*session, {testing::ramp({4}, 1, 0)});
  REQUIRE(seat->times->recent().size() == 1);

  const std::shared_ptr<Version> again = bind();
  program.set_base(entry, again);
  const auto now = program.published(entry);
  CHECK(now->timed);
  CHECK(now->trial == 7);
  CHECK(now->active == seat);
  testing::run(*session, {testing::ramp({4}, 1, 0)});
  CHECK(seat->times->recent().size() == 2);
  // What follows the trial is the new one.
  CHECK(program.base_of(entry) == again);
  CHECK(now->with_active->active->bound == again->bound);
}
