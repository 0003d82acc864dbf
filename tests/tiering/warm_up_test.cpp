// Labels: tsan
// Adaptation before the host serves, and runs that may not allocate.
#include <algorithm>
#include <cmath>

#include "support.h"
#include "support/evaluate.h"

namespace {

using namespace xc;
using namespace xc::testing;

const std::vector<Dims> kShapes{{8, 96}, {96}};
constexpr auto kLong = std::chrono::seconds(60);

/// Bytes by weights that are packed. Element i of these is i % 7.
constexpr int64_t kDepth = 512, kColumns = 256;
std::string byte_layer() {
  std::string weights;
  for (int64_t i = 0; i < kDepth * kColumns; ++i) weights += fmt::format("{}, ", i % 7);
  weights.resize(weights.size() - 2);
  return fmt::format(R"(graph g(%x: u8[n, {0}]) -> (%y) {{
  const %w: i8[{0}, {1}] = [{2}]
  %y = MatMulInteger(%x, %w)
}})",
                     kDepth, kColumns, weights);
}

bool multiplies_right(Session& session, int64_t rows) {
  Tensor x(DType::kU8, {rows, kDepth});
  for (int64_t i = 0; i < x.count(); ++i) x.as<uint8_t>()[i] = static_cast<uint8_t>(i * 5);
  const Tensor y = run(session, {x})[0];
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t want = 0;
    for (int64_t k = 0; k < kDepth; ++k)
      want += x.as<uint8_t>()[i / kColumns * kDepth + k] * ((k * kColumns + i % kColumns) % 7);
    if (y.as<int32_t>()[i] != want) return false;
  }
  return true;
}

/// Whether some kernel was bound in a hurry.
bool has_stand_ins(Session& session) {
  Program& program = session.program();
  const auto entries = program.entries();
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return program.published(*entry)->active->bound->provisional;
  });
}

/// The ways to run in which no tier follows up, the last by freeze().
std::vector<Config> configs_without_followers() {
  std::vector<Config> out(5);
  out[0].set_jit(JitMode::kOff);
  out[1].set_jit(JitMode::kFreeze);
  out[2].set_jit(JitMode::kSync);
  out[2].fusion = out[3].fusion = 1;
  return out;
}

}  // namespace

TEST_CASE("tiering/warm_up: sizes are compiled for and decided before the host serves") {
  TierFaults faults;
  faults.eager = true;  // interpreted kernels are slow: the trial is held, its times do not count
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  CHECK(fixture.session->warm_up(kShapes, kLong));
  CHECK(fixture.log.count(EventKind::kAccepted) == 1);
  CHECK(fixture.session->profile().signatures == 1);
  CHECK(runs_gelu_right(*fixture.session));
  CHECK(fixture.session->profile().signatures == 1);
  CHECK(fixture.session->warm_up(kShapes, kLong));  // nothing is left to do
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
}

TEST_CASE("tiering/warm_up: bodies of loops are compiled for and decided too") {
  // A body that an If of zeros does not come to is not waited for.
  constexpr const char* kLoop = R"(graph g(%x: f32[n, 96], %b: f32[96]) -> (%y, %z) {
  const %count: i64[] = 4
  const %go: bool[] = true
  const %zero: f32[] = 0
  %y = Loop(%count, %go, %x, %b) {} captures 1 (
    graph body(%i: i64[], %on: bool[], %s: f32[n, 96], %b: f32[96]) -> (%on, %t) {
      %u = Add(%s, %b)
      %v = Tanh(%u)
      %w = Mul(%v, %u)
      %t = Add(%w, %b)
    })
  %all = ReduceSum(%x) {keepdims = 0}
  %some = Greater(%all, %zero)
  %z = If(%some, %x) {} captures 1 (
    graph then(%x: f32[n, 96]) -> (%r) {
      %e = Exp(%x)
      %r = Mul(%e, %x)
    },
    graph else(%x: f32[n, 96]) -> (%r) { %r = Identity(%x) })
})";
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kLoop, {}, faults, create_interpreting_compiler());
  const std::vector<Tensor> inputs{ramp({8, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
  const std::vector<Tensor> want = fixture.run(inputs);
  CHECK(fixture.session->warm_up(kShapes, kLong));
  CHECK(fixture.log.count(EventKind::kAccepted) >= 1);
  CHECK(test::difference(fixture.run(inputs), want, 1e-5).empty());
}

TEST_CASE("tiering/warm_up: a region need not have lost its price, and its trial decides") {
  // Of a size at which ten operators clearly take longer than one is predicted to.
  Fixture fixture(kGelu, {}, {}, create_interpreting_compiler());
  CHECK(fixture.session->warm_up({{128, 96}, {96}}, kLong));
  CHECK(fixture.log.count(EventKind::kCompiled) >= 1);  // and its halves, where it loses
  CHECK(fixture.log.count(EventKind::kAccepted) + fixture.log.count(EventKind::kRejected) >= 1);
  CHECK(runs_gelu_right(*fixture.session));
}

TEST_CASE("tiering/warm_up: where nothing adapts it is one run; what cannot be made up is told") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kFreeze}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    Fixture fixture(kGelu, config, {}, create_interpreting_compiler());
    CHECK(fixture.session->warm_up(kShapes, kLong));
    CHECK(fixture.session->profile().runs == 1);
    CHECK(runs_gelu_right(*fixture.session));
  }
  Fixture fixture(kGelu, {}, {}, create_interpreting_compiler());
  CHECK_FALSE(fixture.session->warm_up(kShapes, std::chrono::milliseconds(0)));
  CHECK(fixture.session->profile().runs <= 1);  // its time was over between two steps
  CHECK_THROWS_AS(fixture.session->warm_up({{8, 96}}, kLong), Error);
  CHECK_THROWS_AS(fixture.session->warm_up({{8, 95}, {96}}, kLong), Error);
  CHECK(runs_gelu_right(*fixture.session));
}

TEST_CASE("tiering/warm_up: kernels bound in a hurry are replaced where no tier follows up") {
  const std::string text = byte_layer();
  for (const Config& config : configs_without_followers()) {
    CAPTURE(config.jit);
    CAPTURE(config.fusion);
    for (const bool warmed : {false, true}) {
      CAPTURE(warmed);
      Fixture fixture(text, config, {}, create_interpreting_compiler());
      if (config.jit == 0 && config.fusion == 0) {
        CHECK(multiplies_right(*fixture.session, 1));
        fixture.session->wait_idle(kLong);
        fixture.session->freeze();
      }
      if (warmed)
        CHECK(fixture.session->warm_up({{2, kDepth}}, kLong));
      else
        for (int k = 0; k < 100; ++k) REQUIRE(multiplies_right(*fixture.session, 2));
      CHECK_FALSE(has_stand_ins(*fixture.session));
      CHECK(multiplies_right(*fixture.session, 2));
    }
  }
}

TEST_CASE(
    "tiering/warm_up: a run that may not allocate is refused with nothing touched, or right") {
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  RunOptions options;
  options.no_alloc = true;
  const std::vector<TensorView> views{gelu_inputs()[0].view(), gelu_inputs()[1].view()};
  xc_tensor* y = nullptr;
  const auto run = [&] { fixture.session->run(views, {&y, 1}, options); };
  CHECK_THROWS_AS(run(), Error);
  CHECK(y == nullptr);
  CHECK(fixture.session->warm_up(kShapes, kLong));
  fixture.session->freeze();
  for (int k = 0; k < 3; ++k) CHECK(runs_gelu_right(*fixture.session));  // with its last plan
  for (int k = 0; k < 50; ++k) {
    run();
    int64_t where = 0;
    CHECK(gelu_right(gelu_inputs(), y->tensor, where));
    y->release();
    y = nullptr;
  }
  // Copies of inputs that are not row-major want memory, once.
  const std::vector<int64_t> strides{1, 8};
  const std::vector<TensorView> turned{{views[0].data, views[0].dtype, views[0].dims, strides},
                                       views[1]};
  CHECK_THROWS_AS(fixture.session->run(turned, {&y, 1}, options), Error);
  CHECK(y == nullptr);
  for (const RunOptions& how : {RunOptions(), options}) {
    fixture.session->run(turned, {&y, 1}, how);
    y->release();
    y = nullptr;
  }
}

/// Convolutions of small images, each of one channel more than the one before.
std::string convolutions(int count) {
  std::string constants, nodes;
  for (int k = 0; k < count; ++k) {
    const int in = 8 + k, out = in + 1;
    std::string weights;
    // Such that results stay about as large through all layers.
    for (int i = 0; i < out * in * 9; ++i)
      weights += fmt::format("{}{:.5f}", i ? ", " : "", (i * 7 % 13 - 6) / (10 * std::sqrt(in)));
    constants += fmt::format("  const %w{}: f32[{}, {}, 3, 3] = [{}]\n", k, out, in, weights);
    nodes += fmt::format("  %v{} = Conv(%v{}, %w{}) {{pads = [1, 1, 1, 1]}}\n", k + 1, k, k);
  }
  return fmt::format("graph g(%v0: f32[n, 8, 12, 12]) -> (%v{}) {{\n{}{}}}", count, constants,
                     nodes);
}

TEST_CASE("tiering/warm_up: what was bound in a hurry is settled when its sizes come again") {
  std::string weights;
  for (int i = 0; i < 16 * 8 * 9; ++i) weights += fmt::format("{}{}", i ? ", " : "", i % 5 - 2);
  const auto session = session_of(fmt::format(R"(graph g(%x: f32[n, 8, s, s]) -> (%y) {{
  const %w: f32[16, 8, 3, 3] = [{}]
  %y = Conv(%x, %w) {{pads = [1, 1, 1, 1]}}
}})",
                                              weights),
                                  {});
  const Tensor other = ramp({1, 8, 20, 20}, 1e-6, 0), x = ramp({1, 8, 400, 400}, 1e-6, 0);
  for (int k = 0; k < 6; ++k) run(*session, {other});  // regions are looked for
  session->wait_idle(kLong);
  const auto stands_in = [&] {
    for (const auto& entry : session->program().entries())
      if (entry->symbols.back() == 400)
        return session->program().published(*entry)->active->bound->provisional;
    return false;
  };
  const std::vector<Tensor> first = run(*session, {x});
  session->wait_idle(kLong);
  CHECK(stands_in());
  for (int k = 0; k < 40 && stands_in(); ++k) {
    CHECK(test::difference(run(*session, {x}), first, 1e-4).empty());
    session->wait_idle(kLong);
  }
  CHECK_FALSE(stands_in());
  CHECK(test::difference(run(*session, {x}), first, 1e-4).empty());
}

TEST_CASE("tiering/warm_up: to settle what was bound in a hurry needs no budget") {
  TierFaults faults;
  faults.starved = true;
  Fixture fixture(byte_layer(), {}, faults, create_interpreting_compiler());
  for (int k = 0; k < 6; ++k) CHECK(multiplies_right(*fixture.session, 1));
  fixture.session->wait_idle(kLong);  // regions were looked for
  CHECK(multiplies_right(*fixture.session, 2));
  REQUIRE(has_stand_ins(*fixture.session));
  const int64_t end = steady_ns() + 20'000'000'000;
  while (has_stand_ins(*fixture.session) && steady_ns() < end)
    CHECK(multiplies_right(*fixture.session, 2));
  CHECK_FALSE(has_stand_ins(*fixture.session));
}

TEST_CASE("tiering/warm_up: without followers runs settle what was bound in a hurry, each some") {
  constexpr uint32_t kLayers = 24;
  Config config;
  config.set_jit(JitMode::kOff);
  const auto session = session_of(convolutions(kLayers), config);
  const Tensor x = ramp({1, 8, 12, 12}, 0.01, 0);
  const auto stand_ins = [&] {
    Program& program = session->program();
    return program.published(*program.entries().at(0))->active->bound->stand_ins;
  };
  const std::vector<Tensor> first = run(*session, {x});
  const std::vector<double> values = first[0].to_doubles();
  CHECK(std::ranges::max(values) > 0.1);
  CHECK(std::ranges::max(values) < 10);
  uint32_t left = stand_ins();
  CHECK(left == kLayers);
  int runs = 1, settling = 0;
  for (; runs < 400 && left > 0; ++runs) {
    CHECK(test::difference(run(*session, {x}), first, 1e-4).empty());
    const uint32_t now = stand_ins();
    CHECK((settling > 0 ? now < left : now <= left));  // once begun, no run goes by in vain
    settling += now < left ? 1 : 0;
    left = now;
  }
  CHECK(left == 0);
  CHECK_FALSE(has_stand_ins(*session));
  CHECK(settling > 1);
}
