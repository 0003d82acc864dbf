// A host that forks: the child has the session but not the thread behind it. Sessions go on with
// the plans they have, ask for no lock that the thread may hold, and can be destroyed.
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

std::vector<Tensor> inputs_of(int64_t n) {
  return {ramp({n, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
}
bool right(Session& session, int64_t n) {
  const std::vector<Tensor> in = inputs_of(n);
  int64_t where = 0;
  return gelu_right(in, testing::run(session, in)[0], where);
}

/// In a child: everything a host may do with a session. Exits with the number of what was wrong.
[[noreturn]] void use_in_child(std::unique_ptr<Fixture> fixture) {
  alarm(120);  // a deadlock ends the child, and is seen
  Session& session = *fixture->session;
  for (int k = 0; k < 200; ++k)
    if (!right(session, 1 + k % 9)) _exit(1);  // sizes it knows, and new ones
  const std::vector<Tensor> in = inputs_of(5);
  const std::vector<TensorView> views{in[0].view(), in[1].view()};
  {
    const auto call = session.prepare(views, {});
    for (int k = 0; k < 50; ++k) call->run();
    int64_t where = 0;
    if (!gelu_right(in, call->output(0)->tensor, where)) _exit(2);
  }
  if (!session.wait_idle(std::chrono::milliseconds(10))) _exit(3);
  session.profile();
  session.explain({}, false);
  session.freeze();
  if (!right(session, 5)) _exit(4);
  fixture.reset();
  // An engine of the child's own has a thread of its own.
  TierFaults faults;
  faults.eager = true;
  Fixture own(kGelu, {}, faults, create_interpreting_compiler());
  if (!own.session->warm_up({{5, 96}, {96}}, std::chrono::seconds(60))) _exit(5);
  if (own.log.count(EventKind::kAccepted) != 1 || !right(*own.session, 5)) _exit(6);
  _exit(0);
}

void check_child(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK_MESSAGE(WEXITSTATUS(status) == 0, "the child's check ", WEXITSTATUS(status));
}

}  // namespace

TEST_CASE("tiering/fork: the child of an idle engine goes on, also with several threads") {
  for (const int64_t threads : {1, 3}) {
    Config config;
    config.threads = threads;
    TierFaults faults;
    faults.eager = true;
    auto fixture = std::make_unique<Fixture>(kGelu, config, faults, create_interpreting_compiler());
    REQUIRE(fixture->session->warm_up({{5, 96}, {96}}, std::chrono::seconds(60)));
    REQUIRE(fixture->session->wait_idle(std::chrono::seconds(60)));
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) use_in_child(std::move(fixture));
    check_child(child);
    for (int k = 0; k < 100; ++k) CHECK(right(*fixture->session, 5));
  }
}

TEST_CASE("tiering/fork: the child of a session on trial goes on, and the parent ends its trial") {
  for (const int64_t threads : {1, 3}) {
    Config config;
    config.threads = threads;
    TierFaults faults;
    faults.eager = true;
    auto fixture = std::make_unique<Fixture>(kGelu, config, faults, create_interpreting_compiler());
    const auto run_until = [&](EventKind kind) {
      const int64_t end = steady_ns() + 60'000'000'000;
      while (fixture->log.count(kind) == 0 && steady_ns() < end) {
        CHECK(right(*fixture->session, 5));
        fixture->session->wait_idle(std::chrono::milliseconds(1000));
      }
      REQUIRE(fixture->log.count(kind) == 1);
    };
    run_until(EventKind::kTrial);
    REQUIRE(fixture->log.count(EventKind::kAccepted) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) use_in_child(std::move(fixture));
    check_child(child);
    run_until(EventKind::kAccepted);
  }
}

TEST_CASE("tiering/fork: the child of an engine that was compiling goes on") {
  std::mutex mutex;
  std::condition_variable changed;
  bool compiling = false, go_on = false;
  TierFaults faults;
  faults.eager = true;
  faults.wrap = [&](const Region&, std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    std::unique_lock lock(mutex);
    compiling = true;
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    return kernel;
  };
  auto fixture = std::make_unique<Fixture>(kGelu, Config{}, faults, create_interpreting_compiler());
  const int64_t end = steady_ns() + 60'000'000'000;
  for (bool seen = false; !seen && steady_ns() < end;) {
    CHECK(right(*fixture->session, 5));
    std::lock_guard lock(mutex);
    seen = compiling;
  }
  REQUIRE(compiling);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) use_in_child(std::move(fixture));
  check_child(child);
  {
    std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  CHECK(fixture->session->warm_up({{5, 96}, {96}}, std::chrono::seconds(60)));
  CHECK(fixture->log.count(EventKind::kAccepted) == 1);
  CHECK(right(*fixture->session, 5));
}
