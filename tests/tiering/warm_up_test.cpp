// Labels: asan tsan
// Adaptation before the host serves, and runs that may not allocate.
#include "support.h"

namespace {

using namespace xc;
using namespace xc::testing;

const std::vector<Dims> kShapes{{8, 96}, {96}};
constexpr auto kLong = std::chrono::seconds(60);

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

TEST_CASE("tiering/warm_up: a region need not have lost its price, and its trial decides") {
  // Of a size at which ten operators clearly take longer than one is predicted to.
  Fixture fixture(kGelu, {}, {}, create_interpreting_compiler());
  CHECK(fixture.session->warm_up({{128, 96}, {96}}, kLong));
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
  CHECK(fixture.log.count(EventKind::kAccepted) + fixture.log.count(EventKind::kRejected) >= 1);
  CHECK(runs_gelu_right(*fixture.session));
}

TEST_CASE("tiering/warm_up: where nothing adapts it is one run; what cannot be made up is told") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kSync, JitMode::kFreeze}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    Fixture fixture(kGelu, config, {}, create_interpreting_compiler());
    CHECK(fixture.session->warm_up(kShapes, kLong));
    CHECK(runs_gelu_right(*fixture.session));
  }
  Fixture fixture(kGelu, {}, {}, create_interpreting_compiler());
  fixture.session->warm_up(kShapes, std::chrono::milliseconds(0));  // as far as it gets
  CHECK_THROWS_AS(fixture.session->warm_up({{8, 96}}, kLong), Error);
  CHECK_THROWS_AS(fixture.session->warm_up({{8, 95}, {96}}, kLong), Error);
  CHECK(runs_gelu_right(*fixture.session));
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
