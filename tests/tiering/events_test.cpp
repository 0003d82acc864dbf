// Every decision is an event with its numbers, and the profile adds up to what the events say.
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "support.h"
#include "tier/engine_factory.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Runs on `rows` rows until `done` or 20,000 runs; background work needs no budget.
template <class Done>
void drive(Fixture& fixture, int64_t rows, Done done) {
  const std::vector<Tensor> inputs{ramp({rows, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  for (int k = 0; k < 20000 && !done(); ++k) {
    fixture.run(inputs);
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
}

std::vector<Event> of(xc::testing::EventLog& log, EventKind kind) {
  std::lock_guard lock(log.mutex);
  std::vector<Event> out;
  for (const Event& e : log.events)
    if (e.kind == kind) out.push_back(e);
  return out;
}

/// Adds a constant delay to a kernel's run: more than what it replaces takes under any sanitizer.
constexpr int64_t kDelayNs = 5'000'000;
class Delayed final : public Kernel {
 public:
  explicit Delayed(std::shared_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    struct Bound final : BoundKernel {
      std::shared_ptr<const BoundKernel> inner;
      void run(const StepArgs& args, int64_t begin, int64_t end) const override {
        inner->run(args, begin, end);
        const int64_t until = steady_ns() + kDelayNs;
        while (steady_ns() < until) {
        }
      }
    };
    auto bound = std::make_shared<Bound>();
    bound->inner = inner_->bind(context);
    bound->tasks = bound->inner->tasks;
    bound->scratch_bytes = bound->inner->scratch_bytes;
    return bound;
  }

 private:
  std::shared_ptr<Kernel> inner_;
};

}  // namespace

#if XC_HAVE_JIT
TEST_CASE("tiering/events: a listener may freeze the session it is told of") {
  for (const JitMode mode : {JitMode::kSync, JitMode::kAuto}) {
    CAPTURE(static_cast<int>(mode));
    Config config;
    config.jit = static_cast<int64_t>(mode);
    config.threads = 1;
    std::weak_ptr<Session> session;
    std::atomic<int> told{0};
    HostHooks hooks;
    hooks.event = [&](const Event& event) {
      if (event.kind != EventKind::kCompiled) return;
      ++told;
      if (const auto held = session.lock()) held->freeze();
    };
    const auto made = std::make_shared<Session>(
        Model::create(create_engine(config, hooks), parse_graph(kGelu)), Config{});
    session = made;
    const std::vector<Tensor> inputs{ramp({256, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
    // As long as a busy machine may take: the compile is somebody else's work in mode auto.
    const int64_t until = steady_ns() + 60'000'000'000;
    while (told == 0 && steady_ns() < until) run(*made, inputs);
    CHECK(told >= 1);
    CHECK(made->wait_idle(std::chrono::milliseconds(10000)));
    run(*made, inputs);
  }
}
#endif

TEST_CASE("tiering/events: what is frozen as its compile is queued is not compiled") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  fixture.log.then = [&](const Event& event) {
    if (event.kind == EventKind::kQueued) fixture.session->freeze();
  };
  drive(fixture, 8, [&] { return fixture.log.count(EventKind::kFrozen) > 0; });
  drive(fixture, 8, [n = 0]() mutable { return ++n > 40; });
  REQUIRE(fixture.log.count(EventKind::kFrozen) == 1);
  CHECK(fixture.log.count(EventKind::kCompiled) == 0);
  CHECK(fixture.session->profile().regions.at(0).state == "candidate");
}

TEST_CASE("tiering/events: the life of a region, in order and with its numbers") {
  Fixture fixture(kGelu, {});
  drive(fixture, 256, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  REQUIRE(fixture.log.count(EventKind::kAccepted) == 1);
  drive(fixture, 256, [n = 0]() mutable { return ++n > 200; });

  const ProfileSummary profile = fixture.session->profile();
  REQUIRE(profile.regions.size() == 1);
  const RegionSummary& region = profile.regions[0];
  std::vector<EventKind> order;
  int64_t time = 0;
  for (const Event& e : profile.events) {
    CHECK(e.time_ns >= time);
    time = e.time_ns;
    if (e.region != region.identity || e.kind == EventKind::kTrialSample) continue;
    CHECK(e.subject == region.name);
    order.push_back(e.kind);
  }
  CHECK(order == std::vector<EventKind>{EventKind::kCandidate, EventKind::kQueued,
                                        EventKind::kCompiled, EventKind::kVerified,
                                        EventKind::kTrial, EventKind::kAccepted});
  CHECK(time < 600'000'000'000);  // since the engine was made, not since the machine was

  const Event queued = of(fixture.log, EventKind::kQueued).at(0);
  CHECK(queued.regret_ms >= queued.price_ms);
  CHECK(queued.price_ms > 0);
  CHECK(queued.predicted_us > 0);
  CHECK(queued.base_us > queued.predicted_us);
  const Event compiled = of(fixture.log, EventKind::kCompiled).at(0);
  CHECK(compiled.compile_ms > 0);
  CHECK(compiled.wall_ms > 0);
  CHECK(compiled.code_bytes > 0);
  CHECK(compiled.detail.starts_with("kernels 1; ms: lower "));
  const Event verified = of(fixture.log, EventKind::kVerified).at(0);
  CHECK(verified.worst_error > 0);  // a fused tanh does not round like the reference's
  CHECK(verified.worst_error <= 1);
  const Event accepted = of(fixture.log, EventKind::kAccepted).at(0);
  CHECK(accepted.fused_us < accepted.base_us);
  CHECK(accepted.samples >= 3);
  CHECK(accepted.shapes == 1);
  CHECK(of(fixture.log, EventKind::kSearched).at(0).places == 1);

  CHECK(region.base_us == doctest::Approx(accepted.base_us));
  REQUIRE(region.shapes.size() == 1);
  const ShapeSummary& shape = region.shapes[0];
  CHECK(shape.shape == "n=256");
  CHECK(shape.live_calls > 0);
  // Of all shapes pooled, and of this one: medians of a few runs each, in the same unit.
  const auto alike = [](double a, double b) { return a < 4 * b && b < 4 * a; };
  CHECK(alike(shape.before_us, accepted.base_us));
  CHECK(alike(shape.fused_us, accepted.fused_us));
  CHECK(shape.saved_ms == doctest::Approx(static_cast<double>(shape.live_calls) *
                                          (shape.before_us - shape.fused_us) * 1e-3));
  // Besides calls: what the trial itself gained, which is less than all its runs could.
  CHECK(region.net_saved_ms >= shape.saved_ms - region.compile_ms);
  CHECK(profile.net_saved_ms ==
        doctest::Approx(region.net_saved_ms + region.compile_ms - profile.compile_ms));
  const ProfileSummary counters = fixture.session->counters();
  CHECK(counters.runs == profile.runs);
  CHECK(counters.regions.empty());
  CHECK(counters.working_bytes > 256 * 96 * 4);
}

TEST_CASE(
    "tiering/events: a wrong kernel is banned for good, a slower one for a while, at a loss") {
  TierFaults slower;
  slower.wrap = [](const Region&, std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Delayed>(std::move(kernel));
  };
  Fixture slow(kGelu, {}, slower);
  drive(slow, 256, [&] { return slow.log.count(EventKind::kRejected) > 0; });
  const Event rejected = of(slow.log, EventKind::kRejected).at(0);
  // A second, or a hundred times what it cost.
  CHECK(rejected.back_off_s > 0.9);
  CHECK(rejected.back_off_s >= 80 * 1e-9 * kDelayNs * static_cast<double>(rejected.samples));
  CHECK(rejected.fused_us > rejected.base_us);
  CHECK(rejected.samples >= 3);
  const ProfileSummary profile = slow.session->profile();
  // So much slower were those of the trial's runs that it took, less what it saves by itself.
  CHECK(profile.net_saved_ms < -0.8e-6 * kDelayNs * static_cast<double>(rejected.samples));

  TierFaults wrong;
  wrong.wrap = [](const Region&, std::shared_ptr<Kernel>) -> std::shared_ptr<Kernel> {
    struct Empty final : Kernel {  // writes nothing
      std::shared_ptr<const BoundKernel> bind(const BindContext&) const override {
        struct Bound final : BoundKernel {
          void run(const StepArgs&, int64_t, int64_t) const override {}
        };
        return std::make_shared<Bound>();
      }
    };
    return std::make_shared<Empty>();
  };
  Fixture bad(kGelu, {}, wrong);
  drive(bad, 256, [&] { return bad.log.count(EventKind::kMismatch) > 0; });
  const Event mismatch = of(bad.log, EventKind::kMismatch).at(0);
  CHECK(mismatch.worst_error > 1);
  CHECK(mismatch.back_off_s == -1);
}

TEST_CASE("tiering/events: waiting for the budget is told once, and freezing once") {
  TierFaults faults;
  faults.starved = true;
  Fixture fixture(kGelu, {}, faults);
  const std::vector<Tensor> inputs{ramp({256, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  for (int k = 0; k < 2000; ++k) fixture.run(inputs);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (fixture.log.count(EventKind::kPostponed) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // several looks at the budget
  CHECK(fixture.log.count(EventKind::kPostponed) == 1);
  CHECK(fixture.session->counters().queued > 0);
  fixture.session->freeze();
  fixture.session->freeze();
  CHECK(fixture.log.count(EventKind::kFrozen) == 1);
}

TEST_CASE(
    "tiering/events: plans dropped below the cap are told, with and without a tier's thread") {
  for (const JitMode mode : {JitMode::kAuto, JitMode::kOff}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    config.bound_cache_bytes = 64 << 10;
    Fixture fixture(kGelu, config);
    for (int64_t rows = 1; rows <= 200; ++rows)
      fixture.run({ramp({rows, 96}, 3, 0.1), ramp({96}, 1, 0.7)});
    const std::vector<Event> evicted = of(fixture.log, EventKind::kEvicted);
    REQUIRE_FALSE(evicted.empty());
    for (const Event& e : evicted) {
      CHECK(e.shapes > 0);
      CHECK(e.bytes > 0);
    }
  }
}

TEST_CASE("tiering/events: a trace holds the steps of sampled runs inside their runs") {
  Config config;
  config.trace_steps = 500;
  Fixture fixture(kGelu, config);
  drive(fixture, 64, [n = 0]() mutable { return ++n > 2000; });
  const auto trace = nlohmann::json::parse(fixture.session->trace());
  int64_t runs = 0, steps = 0;
  double run_end = 0;
  for (const auto& e : trace["traceEvents"]) {
    if (e["ph"] != "X" || e["cat"] == "background") continue;
    const double begin = e["ts"], end = begin + e["dur"].get<double>();
    if (e["cat"] == "run") {
      ++runs;
      CHECK(e["args"]["n"] == 64);
      run_end = end;
    } else {
      ++steps;
      CHECK(end <= run_end + 0.01);
      CHECK_FALSE(e["args"]["kernel"].get<std::string>().empty());
    }
  }
  CHECK(runs > 10);
  CHECK(steps > 10);
  CHECK(steps <= 500);
  Fixture without(kGelu, {});
  without.run({ramp({64, 96}, 3, 0.1), ramp({96}, 1, 0.7)});
  CHECK(without.session->trace().find("\"cat\":\"run\"") == std::string::npos);
}

TEST_CASE("tiering/events: a trial ends by runs that start no compilation") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  drive(fixture, 8, [&] { return fixture.log.count(EventKind::kTrial) > 0; });
  REQUIRE(fixture.log.count(EventKind::kAccepted) == 0);
  const std::vector<Tensor>& inputs = gelu_inputs();
  const std::vector<TensorView> views{inputs[0].view(), inputs[1].view()};
  for (int k = 0; k < 2000 && fixture.log.count(EventKind::kAccepted) == 0; ++k) {
    std::vector<xc_tensor*> slots(1, nullptr);
    fixture.session->run(views, slots, {.no_compile = true});
    slots[0]->release();
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kAccepted) == 1);
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
}
