// Labels: tsan
// Executable memory for one region only: regions take it from each other by what they save, nothing
// that runs loses its code, and what lost it can come back. And the queue in front of it: what is
// not worth compiling any more, or takes too long, is not compiled.
#include "support.h"
#include "support/worst.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr int64_t kOne = 4096;  ///< bytes of every kernel here

/// Interpreted kernels that count as kOne bytes each, of which there are at most `cap`.
class Bounded final : public RegionCompiler {
 public:
  explicit Bounded(int64_t cap) : cap_(cap), inner_(create_interpreting_compiler()) {}
  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    if (*used_ + kOne > cap_) fail(Status::kLimit, "code memory is full: planted");
    return std::make_shared<Counted>(inner_->compile(kernel), used_);
  }
  int64_t code_bytes() const override { return *used_; }

 private:
  struct Counted final : PhaseCode {
    Counted(std::shared_ptr<const PhaseCode> code, std::shared_ptr<std::atomic<int64_t>> used)
        : inner(std::move(code)), counter(std::move(used)) {
      *counter += kOne;
    }
    ~Counted() override { *counter -= kOne; }
    int32_t run(const xc_kargs& args) const override { return inner->run(args); }
    int64_t code_bytes() const override { return kOne; }
    std::shared_ptr<const PhaseCode> inner;
    std::shared_ptr<std::atomic<int64_t>> counter;
  };
  int64_t cap_;
  std::unique_ptr<RegionCompiler> inner_;
  std::shared_ptr<std::atomic<int64_t>> used_ = std::make_shared<std::atomic<int64_t>>(0);
};

TierFaults eager() {
  TierFaults faults;
  faults.eager = true;
  return faults;
}

/// Two chains that have nothing to do with each other.
constexpr const char* kTwo = R"(graph two(%x: f32[n, m], %u: f32[k, l]) -> (%y, %w) {
  const %h: f32[] = 0.5
  %a = Mul(%x, %h)
  %b = Tanh(%a)
  %y = Add(%b, %x)
  %c = Add(%u, %h)
  %d = Sin(%c)
  %e = Mul(%d, %u)
  %w = Neg(%e)
})";

bool two_right(const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
  double worst = 0;
  for (int64_t i = 0; i < out[0].count(); ++i) {
    const double x = in[0].as<float>()[i];
    worst = test::worst_of(worst, std::fabs(out[0].as<float>()[i] - (std::tanh(0.5 * x) + x)));
  }
  for (int64_t i = 0; i < out[1].count(); ++i) {
    const double u = in[1].as<float>()[i];
    worst = test::worst_of(worst, std::fabs(out[1].as<float>()[i] + std::sin(u + 0.5) * u));
  }
  return worst < 1e-5;
}

/// Until `done`, at most a minute.
template <class Run, class Done>
void until(Run run, Done done) {
  const int64_t end = steady_ns() + 60'000'000'000;
  for (int k = 0; !done() && steady_ns() < end; ++k) run(k);
}

/// Right results all the while.
void run_until_refused(Fixture& fixture) {
  until(
      [&](int k) {
        REQUIRE(runs_gelu_right(*fixture.session));
        if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
      },
      [&] { return fixture.log.count(EventKind::kRefused) > 0; });
}

}  // namespace

TEST_CASE("tiering/code_cache: the regions of a program take turns where there is room for one") {
  Fixture fixture(kTwo, {}, eager(), std::make_unique<Bounded>(kOne));
  const std::vector<Tensor> in{ramp({12, 20}, 3, 0.1), ramp({9, 31}, 2, 0.3)};
  int wrong = 0;
  until(
      [&](int k) {
        wrong += !two_right(in, fixture.run(in));
        CHECK(fixture.session->profile().code_bytes <= kOne);
        if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(1000));
      },
      [&] { return fixture.log.count(EventKind::kEvicted) >= 4; });
  CHECK(wrong == 0);
  CHECK(fixture.log.count(EventKind::kEvicted) >= 4);
  CHECK(fixture.log.last(EventKind::kEvicted).find("code makes room") != std::string::npos);
  CHECK(fixture.log.count(EventKind::kMismatch) == 0);
}

TEST_CASE("tiering/code_cache: sessions take code from each other while both run") {
  Fixture fixture(kGelu, {}, eager(), std::make_unique<Bounded>(kOne));
  Session other(Model::create(fixture.session->model().engine(), parse_graph(kTwo)), Config{});
  const auto both = [&] { return fixture.log.count(EventKind::kEvicted) >= 3; };
  std::atomic<int> wrong{0};
  std::thread second([&] {
    const std::vector<Tensor> in{ramp({12, 20}, 3, 0.1), ramp({9, 31}, 2, 0.3)};
    until(
        [&](int k) {
          wrong += !two_right(in, testing::run(other, in));
          if (k % 16 == 0) other.wait_idle(std::chrono::milliseconds(100));
        },
        both);
  });
  const std::vector<Tensor>& in = gelu_inputs();
  until(
      [&](int k) {
        int64_t where = 0;
        wrong += !gelu_right(in, fixture.run(in)[0], where);
        if (k % 16 == 0) fixture.session->wait_idle(std::chrono::milliseconds(100));
      },
      both);
  second.join();
  CHECK(wrong == 0);
  CHECK(both());
  CHECK(fixture.session->profile().code_bytes <= kOne);
}

TEST_CASE("tiering/code_cache: without anything to take, the base plan runs and is told why") {
  Fixture fixture(kGelu, {}, eager(), std::make_unique<Bounded>(0));
  run_until_refused(fixture);
  CHECK(fixture.log.last(EventKind::kRefused).find("code memory is full") != std::string::npos);
  CHECK(fixture.log.count(EventKind::kCompiled) == 0);
}

TEST_CASE("tiering/code_cache: a compile that waited until its runs came no more is dropped") {
  TierFaults faults = eager();
  faults.half_life_s = 1e-9;
  const std::vector<Tensor>& in = gelu_inputs();
  {
    Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
    until([&](int) { fixture.run(in); },
          [&] { return fixture.log.count(EventKind::kRefused) > 0; });
    CHECK(fixture.log.last(EventKind::kRefused).find("come no more") != std::string::npos);
    CHECK(fixture.log.count(EventKind::kCompiled) == 0);
  }
  // A host that waits for it has it all the same.
  faults.starved = true;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  until(
      [&](int) {
        fixture.run(in);
        fixture.session->wait_idle(std::chrono::milliseconds(1000));
      },
      [&] { return fixture.log.count(EventKind::kCompiled) > 0; });
  CHECK(fixture.log.count(EventKind::kCompiled) == 1);
}

TEST_CASE("tiering/code_cache: a compile that takes too long is given up") {
  TierFaults faults = eager();
  faults.compile_limit_s = -1;
  Fixture fixture(kGelu, {}, faults, create_interpreting_compiler());
  run_until_refused(fixture);
  CHECK(fixture.log.count(EventKind::kRefused) == 1);
  CHECK(fixture.log.last(EventKind::kRefused).find("of CPU") != std::string::npos);
}

TEST_CASE("tiering/code_cache: warming up does not wait for what finds no room") {
  Fixture fixture(kGelu, {}, {}, std::make_unique<Bounded>(0));
  CHECK(fixture.session->warm_up({{128, 96}, {96}}, std::chrono::seconds(30)));
  CHECK(fixture.log.count(EventKind::kRefused) >= 1);
  CHECK(runs_gelu_right(*fixture.session));
}
