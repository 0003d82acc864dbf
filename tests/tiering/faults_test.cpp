// Wrong, slow and refused kernels: results stay right, and each decision is an event.
#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "refused_memory.h"
#include "support.h"
#include "tier/code_memory.h"

namespace {

using namespace xc;
using namespace xc::testing;

const std::vector<Tensor>& inputs() {
  static const std::vector<Tensor> kInputs{ramp({256, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  return kInputs;
}

/// What a planted slowness costs: several times a run of the base plan, however slow a build this
/// is.
std::atomic<int64_t> slowness_us{0};

/// Median time of runs, taken from outside; printed beside the tier's own numbers.
struct Outside {
  std::vector<int64_t> ns;
  double median_us() const {
    if (ns.empty()) return 0;
    std::vector<int64_t> sorted(ns.end() - static_cast<ptrdiff_t>(std::min<size_t>(ns.size(), 64)),
                                ns.end());
    std::sort(sorted.begin(), sorted.end());
    return static_cast<double>(sorted[sorted.size() / 2]) * 1e-3;
  }
};

/// Runs, checking every answer, until `done` or 20,000 runs.
template <class Done>
Outside drive(Fixture& fixture, Done done) {
  Outside outside;
  for (int k = 0; k < 20000 && !done(); ++k) {
    int64_t where = 0;
    const int64_t start = steady_ns();
    const Tensor y = fixture.run(inputs())[0];
    outside.ns.push_back(steady_ns() - start);
    if (k == 8 && slowness_us == 0) {
      const int64_t best = *std::min_element(outside.ns.begin(), outside.ns.end());
      slowness_us = std::max<int64_t>(100, best * 3 / 1000);
    }
    const bool right = gelu_right(inputs(), y, where);
    REQUIRE_MESSAGE(right, "run ", k, " element ", where);
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  return outside;
}
/// `count` runs more.
Outside more(Fixture& fixture, int count) {
  return drive(fixture, [&] { return count-- <= 0; });
}

}  // namespace

TEST_CASE("tiering/faults: a wrong kernel is caught before a caller sees its result") {
  TierFaults faults;
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(std::move(kernel), nullptr, region.inputs.size(), 0.01f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kMismatch) > 0; });
  CHECK(fixture.log.count(EventKind::kMismatch) == 1);
  CHECK(fixture.log.count(EventKind::kTrial) == 0);
  CHECK(fixture.session->profile().swapped == 0);
}

TEST_CASE("tiering/faults: a trial whose one side fails ends, and the runs go on") {
  TierFaults faults;
  faults.unverified = true;
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel), [](int64_t) { throw Error(Status::kDeadline, "planted"); },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  const std::vector<Tensor> inputs{ramp({256, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  int failed = 0, right = 0;
  for (int k = 0; k < 4000; ++k) {
    try {
      fixture.run(inputs);
      ++right;
    } catch (const Error& error) {
      CHECK(error.status() == Status::kDeadline);
      ++failed;
    }
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(failed >= 3);  // a trial there was
  CHECK(right > 3500);
  CHECK(fixture.session->profile().swapped == 0);
}

TEST_CASE("tiering/faults: a slower kernel is rejected after a trial") {
  TierFaults faults;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel), [](int64_t) { spin_us(std::max<int64_t>(100, slowness_us)); },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kRejected) > 0; });
  CHECK(fixture.log.count(EventKind::kRejected) >= 1);
  CHECK(fixture.log.count(EventKind::kAccepted) == 0);
  MESSAGE(fixture.log.last(EventKind::kRejected),
          "; from outside, after it: ", more(fixture, 64).median_us(), " us a run");
}

TEST_CASE("tiering/faults: a slower kernel gives way to those of its halves") {
  TierFaults faults;
  std::atomic<size_t> most{0};
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    if (most == 0) most = region.nodes.size();
    if (region.nodes.size() < most) return kernel;
    return std::make_shared<Tampered>(
        std::move(kernel), [](int64_t) { spin_us(std::max<int64_t>(100, slowness_us)); },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  CHECK(fixture.log.count(EventKind::kRejected) >= 1);
  CHECK(fixture.log.count(EventKind::kAccepted) >= 1);
}

TEST_CASE("tiering/faults: a kernel that becomes slow after it was accepted is rolled back") {
  TierFaults faults;
  auto slow = std::make_shared<std::atomic<bool>>(false);
  faults.wrap = [slow](const Region& region,
                       std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [slow](int64_t) {
          if (*slow) spin_us(2 * std::max<int64_t>(100, slowness_us));
        },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  REQUIRE(fixture.log.count(EventKind::kAccepted) == 1);
  const double fused = more(fixture, 64).median_us();
  *slow = true;
  const double slowed = more(fixture, 16).median_us();
  drive(fixture, [&] { return fixture.log.count(EventKind::kRolledBack) > 0; });
  CHECK(fixture.log.count(EventKind::kRolledBack) == 1);
  CHECK(fixture.session->profile().rolled_back == 1);
  MESSAGE(fixture.log.last(EventKind::kRolledBack), "; from outside: ", fused, " us a run, slowed ",
          slowed, ", after the roll-back ", more(fixture, 64).median_us());
}

TEST_CASE("tiering/faults: what becomes slow is rolled back without a budget too") {
  TierFaults faults;
  faults.starved = true;
  std::atomic<bool> slow{false};
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&](int64_t) {
          if (slow) spin_us(2 * std::max<int64_t>(100, slowness_us));
        },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  REQUIRE(fixture.log.count(EventKind::kAccepted) == 1);
  slow = true;
  const int64_t end = steady_ns() + 60'000'000'000;
  int runs = 0;  // nobody waits for the tier's work: it has to be done by itself
  for (; fixture.log.count(EventKind::kRolledBack) == 0 && steady_ns() < end; ++runs)
    fixture.run(inputs());
  MESSAGE("rolled back after ", runs, " slow runs");
  CHECK(fixture.log.count(EventKind::kRolledBack) == 1);
}

TEST_CASE("tiering/faults: a kernel with which the host ends every run is rolled back") {
  std::atomic<bool> slow{false};
  TierFaults faults;
  faults.wrap = [&](const Region& region,
                    std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    return std::make_shared<Tampered>(
        std::move(kernel),
        [&](int64_t) {  // as if a step behind it had found that the deadline has passed
          if (slow) throw Error(Status::kDeadline, "planted");
        },
        region.inputs.size(), 0.0f);
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  REQUIRE(fixture.log.count(EventKind::kAccepted) == 1);
  slow = true;
  int ended = 0, right = 0;
  const int64_t end = steady_ns() + 60'000'000'000;
  while (fixture.log.count(EventKind::kRolledBack) == 0 && steady_ns() < end) try {
      fixture.run(inputs());
      ++right;
    } catch (const Error& error) {
      REQUIRE(error.status() == Status::kDeadline);
      ++ended;
    }
  MESSAGE(fixture.log.last(EventKind::kRolledBack), " after ", ended, " runs that ended");
  CHECK(fixture.log.count(EventKind::kRolledBack) == 1);
  CHECK(right >= 3);
  for (int k = 0; k < 100; ++k) fixture.run(inputs());
  CHECK(fixture.log.count(EventKind::kTrial) == 2);
}

TEST_CASE("tiering/faults: a host that ends all runs learns nothing of what is in use") {
  Fixture fixture(kGelu, {});
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  RunOptions ended;
  ended.deadline_ns = 1;
  const std::vector<TensorView> views{inputs()[0].view(), inputs()[1].view()};
  for (int k = 0; k < 2000; ++k) {
    xc_tensor* y = nullptr;
    CHECK_THROWS_AS(fixture.session->run(views, {&y, 1}, ended), Error);
    if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
  }
  CHECK(fixture.log.count(EventKind::kRolledBack) == 0);
  CHECK(fixture.session->profile().rolled_back == 0);
  CHECK(fixture.log.count(EventKind::kTrial) <= 6);  // each later than the one before
  CHECK(live_regions(*fixture.session) == 1);
}

TEST_CASE("tiering/faults: runs that the host ends count for nothing in a trial") {
  TierFaults faults;
  faults.eager = true;  // times decide nothing, and trials are accepted
  for (const bool cancelled : {false, true}) {
    CAPTURE(cancelled);
    Fixture fixture(kGelu, {}, faults);
    const std::atomic<bool> yes{true};
    RunOptions ended;
    if (cancelled)
      ended.cancel = &yes;
    else
      ended.deadline_ns = 1;
    const std::vector<TensorView> views{inputs()[0].view(), inputs()[1].view()};
    const int64_t end = steady_ns() + 60'000'000'000;
    for (int k = 0; fixture.log.count(EventKind::kAccepted) == 0 && steady_ns() < end; ++k) {
      if (k % 3 != 0) {
        fixture.run(inputs());
      } else {
        xc_tensor* y = nullptr;
        CHECK_THROWS_AS(fixture.session->run(views, {&y, 1}, ended), Error);
      }
      if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
    }
    CHECK(fixture.log.count(EventKind::kAccepted) == 1);
    CHECK(fixture.log.count(EventKind::kTrial) == 1);
  }
}

TEST_CASE("tiering/faults: a failing compile leaves the base plan running") {
  TierFaults faults;
  faults.wrap = [](const Region&, std::shared_ptr<Kernel>) -> std::shared_ptr<Kernel> {
    throw Error(Status::kInternal, "planted compile failure");
  };
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kRefused) > 0; });
  CHECK(fixture.log.count(EventKind::kRefused) >= 1);
  CHECK(fixture.log.last(EventKind::kRefused).find("planted") != std::string::npos);
}

TEST_CASE("tiering/faults: refused executable memory turns the JIT off with a reason") {
  tier::CodeMemory::inject_refusal(0);
  {
    Fixture fixture(kGelu, {});
    drive(fixture, [&] { return fixture.log.count(EventKind::kJitDisabled) > 0; });
    CHECK(fixture.log.count(EventKind::kJitDisabled) >= 1);
    CHECK(fixture.log.last(EventKind::kJitDisabled).find("refused") != std::string::npos);
  }
  {
    Config config;
    config.set_jit(JitMode::kSync);
    Fixture fixture(kGelu, config);
    drive(fixture, [n = 0]() mutable { return ++n > 5; });
    CHECK(fixture.session->profile().compiled_regions == 0);
  }
  tier::CodeMemory::inject_refusal(-1);
  tier::CodeMemory::forget_refusal();
}

TEST_CASE("tiering/faults: executable memory refused for want of mappings is asked for again") {
  {  // The first compile of a process asks for some to warm the code generator up.
    Fixture first(kGelu, {});
    drive(first, [&] { return first.log.count(EventKind::kCompiled) > 0; });
  }
  tier::CodeMemory::inject_refusal(1, ENOMEM);
  Fixture fixture(kGelu, {});
  drive(fixture, [&] { return fixture.log.count(EventKind::kCompiled) > 0; });
  CHECK(fixture.log.count(EventKind::kRefused) == 1);
  CHECK(fixture.log.last(EventKind::kRefused).find("not compiled: ") == 0);
  CHECK(fixture.log.count(EventKind::kJitDisabled) == 0);
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
  CHECK(tier::CodeMemory::refusal().empty());
  tier::CodeMemory::inject_refusal(-1);
}

TEST_CASE("tiering/faults: freeze stops changes") {
  Fixture fixture(kGelu, {});
  fixture.session->freeze();
  drive(fixture, [n = 0]() mutable { return ++n > 500; });
  CHECK(fixture.session->profile().compiled_regions == 0);
}

TEST_CASE(
    "tiering/faults: without a budget nothing is compiled, and the session still goes at once") {
  TierFaults faults;
  faults.starved = true;
  {
    Fixture fixture(kGelu, {}, faults);
    for (int k = 0; k < 2000; ++k) fixture.run(inputs());
    CHECK(fixture.log.count(EventKind::kCompiled) == 0);
  }  // jobs are queued: destroying must not wait for a budget that idle processes do not earn
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  CHECK(fixture.log.count(EventKind::kAccepted) > 0);  // wait_idle() is leave to work
}

TEST_CASE("tiering/faults: a trial that has begun is judged, budget or not") {
  TierFaults faults;
  faults.starved = true;
  Fixture fixture(kGelu, {}, faults);
  const auto count = [&](EventKind kind) { return fixture.log.count(kind); };
  // Work is done while the host waits for it, until a trial begins; then never again.
  drive(fixture, [&] { return count(EventKind::kTrial) > 0; });
  REQUIRE(count(EventKind::kTrial) > 0);
  const auto judged = [&] { return count(EventKind::kAccepted) + count(EventKind::kRejected); };
  const int64_t end = steady_ns() + 60'000'000'000;
  while (judged() == 0 && steady_ns() < end) fixture.run(inputs());
  CHECK(judged() > 0);
}

TEST_CASE("tiering/faults: a faster kernel is accepted, and seen from outside") {
  Config off;
  off.set_jit(JitMode::kOff);
  Fixture plain(kGelu, off), fixture(kGelu, {});
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  CHECK(fixture.log.count(EventKind::kAccepted) == 1);
  MESSAGE(fixture.log.last(EventKind::kAccepted), "; from outside: ", more(fixture, 64).median_us(),
          " us a run, without the tier ", more(plain, 64).median_us());
}

TEST_CASE("tiering/faults: a refused background thread is told once, and tier 0 serves") {
  TierFaults faults;
  faults.no_thread = true;
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [n = 0]() mutable { return ++n > 300; });
  CHECK(fixture.log.count(EventKind::kJitDisabled) == 1);
  CHECK(fixture.log.last(EventKind::kJitDisabled).find("background thread") != std::string::npos);
  CHECK(fixture.session->profile().compiled_regions == 0);
  CHECK(fixture.session->warm_up({{256, 96}, {96}}, std::chrono::seconds(60)));
}

TEST_CASE("tiering/faults: runs cancelled by the thousand leave nothing behind") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults);
  drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
  std::atomic<bool> cancel{false}, stop{false};
  std::thread storm([&] {
    while (!stop) cancel = !cancel;
  });
  RunOptions options;
  options.cancel = &cancel;
  const std::vector<TensorView> views{inputs()[0].view(), inputs()[1].view()};
  const int64_t before = fixture.session->profile().working_bytes;
  int cancelled = 0, done = 0;
  const int64_t end = steady_ns() + 60'000'000'000;
  while ((cancelled < 200 || done < 200) && steady_ns() < end) {
    xc_tensor* y = nullptr;
    try {
      fixture.session->run(views, {&y, 1}, options);
      int64_t where = 0;
      const bool right = gelu_right(inputs(), y->tensor, where);
      REQUIRE_MESSAGE(right, "element ", where);
      y->release();
      ++done;
    } catch (const Error& error) {
      REQUIRE(error.status() == Status::kCancelled);
      REQUIRE(y == nullptr);
      ++cancelled;
    }
  }
  stop = true;
  storm.join();
  CHECK(cancelled >= 200);
  CHECK(done >= 200);
  CHECK(fixture.session->profile().working_bytes <= before + (1 << 20));
  more(fixture, 32);
}

TEST_CASE("tiering/faults: memory refused to a compile or a verification is no verdict") {
  /// The first times it is bound there is no memory.
  struct Short final : Kernel {
    explicit Short(std::shared_ptr<Kernel> kernel) : inner(std::move(kernel)) {}
    std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
      if (left-- > 0) throw std::bad_alloc();
      return inner->bind(context);
    }
    std::shared_ptr<Kernel> inner;
    mutable std::atomic<int> left{1};
  };
  for (const bool compiles : {true, false}) {
    CAPTURE(compiles);
    std::atomic<int> made{0};
    TierFaults faults;
    faults.eager = true;
    faults.wrap = [&](const Region&, std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
      if (made++ > 1) return kernel;
      if (compiles) throw Error(Status::kOutOfMemory, "planted");
      return std::make_shared<Short>(std::move(kernel));
    };
    Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
    drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
    CHECK(fixture.log.count(EventKind::kAccepted) == 1);
    CHECK(fixture.log.count(EventKind::kMismatch) == 0);
    CHECK(fixture.log.count(EventKind::kRefused) == 2);  // for now
    CHECK(made == 3);
    const std::string told = fixture.log.last(EventKind::kRefused);
    CHECK_MESSAGE(told.starts_with(compiles ? "not compiled: " : "not verified: "), told);
  }
}

TEST_CASE("tiering/faults: the thread without memory for a while, whatever it was about to do") {
  if (!kCanRefuse) return;
  for (const EventKind from : {EventKind::kSearched, EventKind::kQueued, EventKind::kCompiled,
                               EventKind::kVerified, EventKind::kTrial}) {
    CAPTURE(static_cast<int>(from));
    TierFaults faults;
    faults.eager = true;
    RefusedMemory memory;
    Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
    std::atomic<bool> begun{false};
    // From the first run on: the search is what fails first.
    if (from == EventKind::kSearched) {
      drive(fixture, [n = 0]() mutable { return ++n > 2; });
      memory.refuse(1, 1'000'000'000);
      begun = true;
    } else {
      fixture.log.then = [&](const Event& event) {
        if (event.kind == from && !begun.exchange(true)) memory.refuse(1, 1'000'000'000);
      };
    }
    drive(fixture, [&] { return begun.load(); });
    REQUIRE(begun);
    more(fixture, 20);
    CHECK(memory.stop() > 0);
    drive(fixture, [&] { return fixture.log.count(EventKind::kAccepted) > 0; });
    CHECK(fixture.log.count(EventKind::kAccepted) == 1);
    CHECK(fixture.log.count(EventKind::kMismatch) == 0);
    CHECK(fixture.session->profile().regions.size() == 1);  // no group twice
  }
}

TEST_CASE("tiering/faults: a region whose sizes are too long to write down leaves the others") {
  // An operand can be described; what the region moves, the sum over its operands, cannot.
  std::string dims, last;
  for (int axis = 0; axis < 64; ++axis) {
    last = "n" + std::to_string(axis);
    last.resize(505, 'n');
    dims += (dims.empty() ? "" : ", ") + last;
  }
  const std::string text = "graph g(%x: f32[" + dims + "], %b: f32[" + last + "], %z: f32[64, " +
                           last + R"(]) -> (%y, %q) {
  const %two: f32[] = 2
  %t = Add(%x, %b)
  %u = Tanh(%t)
  %y = Mul(%u, %x)
  %r = Add(%z, %two)
  %s = Tanh(%r)
  %q = Mul(%s, %z)
})";
  Config config;
  config.set_jit(JitMode::kSync);
  Fixture fixture(text, config);
  Dims rows(64, 1);
  rows[7] = 32;
  rows[63] = 96;
  const std::vector<Tensor> inputs{ramp(rows, 3, 0.1), ramp({96}, 1, 0.7), ramp({64, 96}, 2, 0.3)};
  const std::vector<Tensor> results = fixture.run(inputs);
  const auto element = [&](size_t k, int64_t i) {
    return static_cast<double>(inputs[k].as<float>()[i]);
  };
  const auto worst = [](const Tensor& y, auto want) {
    double out = 0;
    for (int64_t i = 0; i < y.count(); ++i)
      out = std::max(out, std::fabs(static_cast<double>(y.as<float>()[i]) - want(i)));
    return out;
  };
  CHECK(worst(results[0], [&](int64_t i) {
          return std::tanh(element(0, i) + element(1, i % 96)) * element(0, i);
        }) < 1e-5);
  CHECK(worst(results[1], [&](int64_t i) { return std::tanh(element(2, i) + 2) * element(2, i); }) <
        1e-5);
  CHECK(fixture.log.count(EventKind::kRefused) == 1);
  CHECK(fixture.log.last(EventKind::kRefused).starts_with("search: "));
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
  CHECK(fixture.session->profile().swapped == 1);
}
