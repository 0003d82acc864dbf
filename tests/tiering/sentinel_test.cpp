// Labels: tsan
// A kernel that becomes wrong after it was accepted: the sentinel sees it, and it is gone for good,
// in this session, in others of the engine and in later processes.
#include "cache/directory.h"
#include "refused_memory.h"
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

/// Kernels that become wrong when the test says so; what is compiled is used at once.
TierFaults turning(const std::atomic<bool>& wrong) {
  TierFaults faults;
  faults.eager = true;
  faults.wrap = [&wrong](const Region& region,
                         std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<TurnsWrong>(std::move(kernel), region.inputs.size(), wrong);
  };
  return faults;
}

std::unique_ptr<Session> beside(Fixture& fixture, const char* text, const Config& config = {}) {
  return std::make_unique<Session>(
      Model::create(fixture.session->model().engine(), parse_graph(text)), config);
}

void drive_until_live(Session& session) {
  drive(session, [&] { return state_of(session) == "live"; });
  REQUIRE(state_of(session) == "live");
  session.wait_idle(std::chrono::seconds(60));  // the state is set before the plan is published
}

std::vector<Tensor> inputs_of(int64_t rows) {
  return {ramp({rows, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
}
bool runs_right(Session& session, int64_t rows) {
  const std::vector<Tensor> in = inputs_of(rows);
  int64_t where = 0;
  return gelu_right(in, testing::run(session, in)[0], where);
}

/// One session finds its kernel wrong; from then on the thread is refused `count` requests for
/// memory, from number `first` on. Wrong results of another session, when there is memory again.
enum class Other : uint8_t { kLive, kFrozen, kOnTrial };
int wrong_after_refusals(Other kind, long first, long count) {
  std::atomic<bool> wrong{false};
  RefusedMemory memory;
  Fixture fixture(kGelu, {}, turning(wrong), create_interpreting_compiler());
  std::atomic<bool> refused{false};
  fixture.log.then = [&](const Event& event) {
    if (event.kind == EventKind::kMismatch && !refused.exchange(true)) memory.refuse(first, count);
  };
  drive_until_live(*fixture.session);
  const auto other = beside(fixture, kGelu);
  if (kind == Other::kOnTrial) {
    const size_t before = fixture.log.count(EventKind::kTrial);
    drive(*other, [&] { return fixture.log.count(EventKind::kTrial) > before; });
  } else {
    drive_until_live(*other);
  }
  if (kind == Other::kFrozen) other->freeze();
  wrong = true;
  drive(*fixture.session, [&] { return refused.load(); });
  REQUIRE(refused);
  for (const int seconds : {1, 60}) {
    if (seconds == 60) memory.stop();
    fixture.session->wait_idle(std::chrono::seconds(seconds));
    other->wait_idle(std::chrono::seconds(seconds));
  }
  int out = 0;
  for (int k = 0; k < 60; ++k) out += !runs_gelu_right(*other) + !runs_gelu_right(*fixture.session);
  return out;
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
      CHECK(next.log.last(EventKind::kRefused).find("found wrong") != std::string::npos);
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

TEST_CASE("tiering/sentinel: memory refused while a kernel is taken out leaves it nowhere") {
  if (!kCanRefuse) return;
  for (const Other kind : {Other::kLive, Other::kFrozen, Other::kOnTrial}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(wrong_after_refusals(kind, 1, 1'000'000'000) == 0);  // all of it, for a while
    for (const long request : {2, 8, 21, 55}) {
      CAPTURE(request);
      CHECK(wrong_after_refusals(kind, request, 1) == 0);
    }
  }
}

TEST_CASE("tiering/sentinel: a size that is bound while its kernel is taken out does not keep it") {
  /// Keeps the thread of the test's that binds `rows` rows until it may go on.
  struct Gate {
    std::atomic<int64_t> rows{-1};
    std::atomic<bool> inside{false}, open{false};
  };
  struct Held final : Kernel {
    Held(std::shared_ptr<Kernel> kernel, Gate& g) : inner(std::move(kernel)), gate(g) {}
    std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
      auto bound = inner->bind(context);
      if (!context.outputs[0].dims.empty() && context.outputs[0].dims[0] == gate.rows &&
          !gate.inside.exchange(true))
        while (!gate.open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return bound;
    }
    std::shared_ptr<Kernel> inner;
    Gate& gate;
  };
  for (const bool freezes : {false, true}) {
    CAPTURE(freezes);
    std::atomic<bool> wrong{false};
    Gate gate;
    TierFaults faults = turning(wrong);
    faults.wrap = [&gate, inner = faults.wrap](
                      const Region& region,
                      std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
      return std::make_shared<Held>(inner(region, std::move(kernel)), gate);
    };
    Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
    drive_until_live(*fixture.session);
    const auto other = beside(fixture, kGelu);
    drive_until_live(*other);
    if (freezes) other->freeze();
    gate.rows = 9;
    std::thread binder([&] { testing::run(*other, inputs_of(9)); });
    const int64_t end = steady_ns() + 60'000'000'000;
    while (!gate.inside && steady_ns() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    wrong = true;
    drive(*fixture.session, [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
    fixture.session->wait_idle(std::chrono::seconds(60));
    other->wait_idle(std::chrono::seconds(60));
    REQUIRE(gate.inside);
    CHECK(fixture.log.count(EventKind::kMismatch) == 2);
    gate.open = true;
    binder.join();
    for (int k = 0; k < 20; ++k) CHECK(runs_right(*other, 9));
  }
}

TEST_CASE("tiering/sentinel: a kernel is taken out of a session where another one is on trial") {
  constexpr const char* kTwo = R"(graph g(%x: f32[n, 32], %z: f32[m, 48]) -> (%y, %v) {
  %a = Sigmoid(%x)
  %b = Mul(%a, %x)
  %c = Tanh(%b)
  %y = Add(%c, %x)
  %p = Tanh(%z)
  %q = Mul(%p, %z)
  %r = Sigmoid(%q)
  %s = Mul(%r, %z)
  %v = Sub(%s, %z)
})";
  const std::vector<Tensor> in{ramp({8, 32}, 1, 0.1), ramp({5, 48}, 1, 0.2)};
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto right = [&](Session& session) {
    const std::vector<Tensor> out = testing::run(session, in);
    double worst = 0;
    for (int64_t i = 0; i < out[0].count(); ++i) {
      const double x = in[0].as<float>()[i];
      worst = std::max(worst, std::fabs(out[0].as<float>()[i] - std::tanh(sigmoid(x) * x) - x));
    }
    for (int64_t i = 0; i < out[1].count(); ++i) {
      const double z = in[1].as<float>()[i];
      worst =
          std::max(worst, std::fabs(out[1].as<float>()[i] - (sigmoid(std::tanh(z) * z) * z - z)));
    }
    return worst < 1e-5;
  };
  const auto until = [&](Session& session, auto done) {
    const int64_t end = steady_ns() + 60'000'000'000;
    for (int k = 0; !done() && steady_ns() < end; ++k) {
      right(session);
      if (k % 4 == 0) session.wait_idle(std::chrono::milliseconds(1000));
    }
    REQUIRE(done());
  };
  std::atomic<bool> wrong{false};
  TierFaults faults = turning(wrong);
  faults.wrap = [inner = faults.wrap](const Region& region,
                                      std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return region.nodes.size() == 4 ? inner(region, std::move(kernel)) : kernel;
  };
  Fixture fixture(kTwo, {}, faults, create_interpreting_compiler());
  until(*fixture.session, [&] { return live_regions(*fixture.session) == 2; });
  fixture.session->wait_idle(std::chrono::seconds(60));
  const auto other = beside(fixture, kTwo);
  const size_t trials = fixture.log.count(EventKind::kTrial);
  until(*other, [&] { return fixture.log.count(EventKind::kTrial) >= trials + 2; });
  wrong = true;
  // Kernels for sizes that are frequent are regions of their own, which may be found wrong first.
  const auto general = [&] {
    std::lock_guard lock(fixture.log.mutex);
    return std::count_if(fixture.log.events.begin(), fixture.log.events.end(), [](const Event& e) {
      return e.kind == EventKind::kMismatch && e.subject.find(" for ") == std::string::npos;
    });
  };
  until(*fixture.session, [&] { return general() == 2; });  // of both sessions
  fixture.session->wait_idle(std::chrono::seconds(60));
  other->wait_idle(std::chrono::seconds(60));
  for (int k = 0; k < 40; ++k) {
    CHECK(right(*other));
    CHECK(right(*fixture.session));
  }
  until(*other, [&] { return live_regions(*other) >= 1; });  // the other one is right
}

TEST_CASE("tiering/sentinel: prepared calls lose a wrong kernel, however many sizes came after") {
  for (const bool frozen : {false, true}) {
    std::atomic<bool> wrong{false};
    Fixture fixture(kGelu, {}, turning(wrong), create_interpreting_compiler());
    Config small;
    small.bound_cache_bytes = 64 << 10;
    const auto other = beside(fixture, kGelu, small);
    drive_until_live(*fixture.session);
    drive_until_live(*other);
    const std::vector<Tensor> inputs = inputs_of(77);
    const std::vector<TensorView> views{inputs[0].view(), inputs[1].view()};
    const auto call = other->prepare(views, {});
    const auto right = [&] {
      call->run();
      int64_t where = 0;
      return gelu_right(inputs, call->output(0)->tensor, where);
    };
    CHECK(right());
    for (int64_t rows = 100; rows < 300; ++rows) testing::run(*other, inputs_of(rows));
    CHECK(fixture.log.count(EventKind::kEvicted) > 0);
    if (frozen) other->freeze();
    CHECK(right());
    wrong = true;
    drive(*fixture.session, [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
    fixture.session->wait_idle(std::chrono::seconds(60));
    other->wait_idle(std::chrono::seconds(60));
    CHECK(right());
  }
}

TEST_CASE("tiering/sentinel: sizes that do not fit without a wrong kernel fail, and say so") {
  constexpr int64_t kRows = 128;  // whose results alone are more than the few rows take in all
  std::atomic<bool> wrong{false};
  Fixture fixture(kGelu, {}, turning(wrong), create_interpreting_compiler());
  Config small;
  small.max_memory_bytes = 110'000;  // a step's working memory and its values, or these results
  const auto other = beside(fixture, kGelu, small);
  drive_until_live(*fixture.session);
  drive_until_live(*other);
  REQUIRE(runs_right(*other, kRows));
  wrong = true;
  drive(*fixture.session, [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
  fixture.session->wait_idle(std::chrono::seconds(60));
  other->wait_idle(std::chrono::seconds(60));
  CHECK(state_of(*other) == "banned");
  CHECK(runs_gelu_right(*other));
  auto status = Status::kOk;
  try {
    testing::run(*other, inputs_of(kRows));
  } catch (const Error& error) {
    status = error.status();
  }
  CHECK(status == Status::kLimit);
  CHECK(runs_gelu_right(*other));
}

TEST_CASE("tiering/sentinel: a kernel is looked at while no size comes twice") {
  std::atomic<bool> wrong{false};
  Fixture fixture(kGelu, {}, turning(wrong), create_interpreting_compiler());
  drive_until_live(*fixture.session);
  int64_t rows = 10;
  for (; rows < 40; ++rows) CHECK(runs_right(*fixture.session, rows));
  wrong = true;
  const int64_t end = steady_ns() + 20'000'000'000;
  while (fixture.log.count(EventKind::kMismatch) == 0 && rows < 2000 && steady_ns() < end) {
    testing::run(*fixture.session, inputs_of(++rows));
    fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kMismatch) == 1);
  CHECK(runs_right(*fixture.session, rows + 1));
}
