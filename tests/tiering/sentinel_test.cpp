// Labels: asan tsan
// A kernel that becomes wrong after it was accepted: the sentinel sees it, and it is gone for good,
// in this session, in others of the engine and in later processes.
#include "cache/directory.h"
#include "support.h"
#include "support/scratch.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Runs, without looking at results, until `done`; at most a minute.
template <class Done>
void drive(Session& session, Done done) {
  const int64_t end = steady_ns() + 60'000'000'000;
  for (int k = 0; !done() && steady_ns() < end; ++k) {
    testing::run(session, gelu_inputs());
    if (k % 16 == 0) session.wait_idle(std::chrono::milliseconds(1000));
  }
}

std::string state_of(Session& session) {
  const auto regions = session.profile().regions;
  return regions.empty() ? "" : regions[0].state;
}

}  // namespace

TEST_CASE("tiering/sentinel: a kernel that becomes wrong in use is taken out everywhere") {
  const ScratchDirectory scratch;
  Config config;
  config.cache_dir = scratch.path;
  std::atomic<bool> wrong{false};
  TierFaults faults;
  faults.eager = true;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<TurnsWrong>(std::move(kernel), region.inputs.size(), wrong);
  };
  {
    Fixture fixture(kGelu, config, faults, create_interpreting_compiler());
    Session other(Model::create(fixture.session->model().engine(), parse_graph(kGelu)), Config{});
    drive(*fixture.session, [&] { return state_of(*fixture.session) == "live"; });
    drive(other, [&] { return state_of(other) == "live"; });
    REQUIRE(state_of(*fixture.session) == "live");
    REQUIRE(state_of(other) == "live");
    CHECK(runs_gelu_right(*fixture.session));
    CHECK(scratch.files("object-").size() == 1);

    // One that is frozen runs the same code.
    Session frozen(Model::create(fixture.session->model().engine(), parse_graph(kGelu)), Config{});
    drive(frozen, [&] { return state_of(frozen) == "live"; });
    frozen.wait_idle(std::chrono::seconds(60));
    frozen.freeze();
    CHECK(runs_gelu_right(frozen));

    // The state is set before the plan is published.
    fixture.session->wait_idle(std::chrono::seconds(60));
    other.wait_idle(std::chrono::seconds(60));
    wrong = true;
    CHECK(!runs_gelu_right(*fixture.session));  // it is in use
    drive(*fixture.session, [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
    CHECK(fixture.log.last(EventKind::kMismatch).find("while it was in use") != std::string::npos);
    other.wait_idle(std::chrono::seconds(60));
    frozen.wait_idle(std::chrono::seconds(60));
    CHECK(fixture.log.count(EventKind::kMismatch) == 3);  // one per session
    for (int k = 0; k < 40; ++k) {
      CHECK(runs_gelu_right(*fixture.session));
      CHECK(runs_gelu_right(frozen));
      CHECK(runs_gelu_right(other));
    }
    CHECK(state_of(*fixture.session) == "banned");
    CHECK(state_of(other) == "banned");
    CHECK(fixture.session->profile().rolled_back == 1);
    CHECK(scratch.files("object-").empty());
    CHECK(scratch.files("poison-").size() == 1);
  }
  // The next process knows the verdict, and without its profile still the code.
  for (const bool profile : {true, false}) {
    if (!profile)
      for (const std::string& name : scratch.files("profile-"))
        std::filesystem::remove(scratch.path + "/" + name);
    faults.wrap = nullptr;
    Fixture next(kGelu, config, faults, create_interpreting_compiler());
    drive(*next.session, [&] { return state_of(*next.session) == "banned"; });
    CHECK(state_of(*next.session) == "banned");
    CHECK(runs_gelu_right(*next.session));
    CHECK(next.log.count(EventKind::kCompiled) == 0);
    if (!profile)
      CHECK(next.log.last(EventKind::kRefused).find("found wrong while it was in use") !=
            std::string::npos);
  }
}

TEST_CASE("tiering/sentinel: a right kernel stays, at every size and with odd values") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  drive(*fixture.session, [&] { return state_of(*fixture.session) == "live"; });
  std::vector<Tensor> in = gelu_inputs();
  in[0] = in[0].clone();
  in[0].as<float>()[3] = std::nanf("");
  in[0].as<float>()[4] = INFINITY;
  in[0].as<float>()[5] = -88;
  for (int k = 0; k < 600; ++k) {
    testing::run(*fixture.session, k % 2 ? in : gelu_inputs());
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(state_of(*fixture.session) == "live");
  CHECK(fixture.log.count(EventKind::kMismatch) == 0);
}
