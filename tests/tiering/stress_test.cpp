// Labels: tsan
// Another plan is published at every run while four threads run; every value is checked. Runs under
// the thread sanitizer with the loop interpreter in place of LLVM.
#include "support.h"

using namespace xc;
using namespace xc::testing;

namespace {

void stress(std::unique_ptr<RegionCompiler> compiler, JitMode mode, int runs) {
  Config config;
  config.force_swap = 1;
  config.jit = static_cast<int64_t>(mode);
  Fixture fixture(kGelu, config, {}, std::move(compiler));
  std::atomic<int> wrong{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < runs; ++k) {
        const int64_t n = 1 + (k * 7 + t * 3) % 5;
        const std::vector<Tensor> in{ramp({n, 96}, 3, 0.1 * t), ramp({96}, 1, 0.7)};
        int64_t where = 0;
        if (!gelu_right(in, fixture.run(in)[0], where)) ++wrong;
        ++done;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(done == 4 * runs);
}

}  // namespace

TEST_CASE("tiering/stress: plans change at every run under four threads, interpreted kernels") {
  stress(create_interpreting_compiler(), JitMode::kSync, 150);
  stress(create_interpreting_compiler(), JitMode::kAuto, 150);
}

#if XC_HAVE_JIT
TEST_CASE("tiering/stress: plans change at every run under four threads, compiled kernels") {
  stress(create_jit_compiler(0, 64 << 20, false), JitMode::kSync, 400);
  stress(create_jit_compiler(0, 64 << 20, false), JitMode::kAuto, 400);
}
#endif

TEST_CASE("tiering/stress: sessions come and go while others compile") {
  for (int round = 0; round < 10; ++round) {
    Fixture fixture(kGelu, {}, {}, create_interpreting_compiler());
    const std::vector<Tensor> in{ramp({16, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
    int64_t where = 0;
    for (int k = 0; k < 20 * round; ++k) REQUIRE(gelu_right(in, fixture.run(in)[0], where));
  }
}

TEST_CASE("tiering/stress: the last owner goes while its program is being compiled") {
  for (int round = 0; round < 60; ++round) {
    auto fixture =
        std::make_unique<Fixture>(kGelu, Config{}, TierFaults{}, create_interpreting_compiler());
    const std::vector<Tensor> in{ramp({64, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
    int64_t where = 0;
    for (int k = 0; k < 8 + round; ++k) REQUIRE(gelu_right(in, fixture->run(in)[0], where));
    fixture.reset();  // engine, tier and thread with it
  }
}

TEST_CASE("tiering/stress: a thousand signatures stay under the cap") {
  Config config;
  config.bound_cache_bytes = 64 << 10;
  Fixture fixture(kGelu, config, {}, create_interpreting_compiler());
  for (int64_t n = 1; n <= 1000; ++n) {
    const std::vector<Tensor> in{ramp({n % 97 + 1, 96}, 3, 0.1), ramp({96}, 1, 0.7)};
    int64_t where = 0;
    REQUIRE(gelu_right(in, fixture.run(in)[0], where));
  }
  CHECK(fixture.session->profile().bound_bytes <= (64 << 10) + 8192);
}
