// Streams in which shapes come and go: what is kept per shape is bounded, by bytes and by count.
// What is asserted is the C library's own count of bytes in use, not pages.
#include "support.h"

#ifdef __GLIBC__
#include <malloc.h>

namespace {

using namespace xc;
using namespace xc::testing;

int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

constexpr const char* kSmall = R"(graph small(%x: f32[n, m], %b: f32[m]) -> (%y) {
  const %h: f32[] = 0.5
  %t = Add(%x, %b)
  %u = Mul(%t, %h)
  %v = Tanh(%u)
  %y = Mul(%v, %t)
})";

/// Runs shape number k of many; false when an element is wrong.
bool run_shape(Session& session, int64_t k) {
  const std::vector<Tensor> in{ramp({1 + k % 40, 1 + k / 40}, 3, 0.1), ramp({1 + k / 40}, 1, 0.7)};
  const Tensor y = testing::run(session, in)[0];
  for (int64_t i = 0; i < y.count(); ++i) {
    const double t =
        static_cast<double>(in[0].as<float>()[i]) + in[1].as<float>()[i % (1 + k / 40)];
    if (std::fabs(y.as<float>()[i] - std::tanh(0.5 * t) * t) > 1e-5) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("tiering/memory: a stream of ever new shapes stays under its cap, by the heap's count") {
  constexpr int64_t kCap = 512 << 10;
  for (const JitMode mode : {JitMode::kOff, JitMode::kAuto}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    config.bound_cache_bytes = kCap;
    Fixture fixture(kSmall, config, {}, create_interpreting_compiler());
    REQUIRE(run_shape(*fixture.session, 799));  // the largest: its working memory is no growth
    fixture.session->wait_idle(std::chrono::seconds(60));
    const int64_t start = heap_bytes();
    int64_t first_pass = 0, largest = 0;
    for (int64_t pass = 0; pass < 3; ++pass) {
      for (int64_t k = 0; k < 800; ++k) {
        REQUIRE(run_shape(*fixture.session, k));
        if (k % 32 != 0) continue;
        fixture.session->wait_idle(std::chrono::seconds(60));
        largest = std::max(largest, heap_bytes() - start);
        CHECK(fixture.session->profile().bound_bytes <= kCap);
      }
      if (pass == 0) first_pass = largest;
    }
    MESSAGE("most in the first pass ", first_pass, ", in three ", largest, " bytes");
    // Signatures, what waits for a run to leave it, and a tier's plans, events and accounts.
    CHECK(largest <= 2 * kCap + (1 << 20));
    CHECK(largest <= first_pass + kCap / 2 + (256 << 10));
    CHECK(fixture.session->profile().bound_bytes > kCap / 4);  // it is no stream that fits
  }
}

TEST_CASE("tiering/memory: shapes that alternate stay bound, however much one of them holds") {
  Config config;
  config.set_jit(JitMode::kOff);
  config.bound_cache_bytes = 1;
  Fixture fixture(kSmall, config, {}, create_interpreting_compiler());
  for (int64_t k = 0; k < 40; ++k) REQUIRE(run_shape(*fixture.session, k % 4));
  CHECK(fixture.log.count(EventKind::kEvicted) == 0);
  for (int64_t k = 0; k < 8; ++k) REQUIRE(run_shape(*fixture.session, k));
  CHECK(fixture.log.count(EventKind::kEvicted) > 0);
}

TEST_CASE("soak/shapes: ten million small calls over a thousand shapes" * doctest::skip()) {
  Fixture fixture(kSmall, {});
  int64_t after_first = 0;
  for (int64_t call = 0; call < 10'000'000; ++call) {
    REQUIRE(run_shape(*fixture.session, call * 7 % 1000));
    if (call == 1'000'000) after_first = heap_bytes();
  }
  CHECK(heap_bytes() <= after_first + (4 << 20));
}

TEST_CASE("soak/shapes: ten thousand shapes add 32 MiB at most, then nothing" * doctest::skip()) {
  for (const JitMode mode : {JitMode::kOff, JitMode::kAuto}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    Fixture fixture(kSmall, config);
    run_shape(*fixture.session, 9999);
    const int64_t start = heap_bytes();
    // Signatures go by halves: what counts is the most there ever is.
    int64_t early = 0, late = 0;
    for (int64_t pass = 0; pass < 8; ++pass) {
      int64_t most = 0;
      for (int64_t k = 0; k < 10'000; ++k) {
        REQUIRE(run_shape(*fixture.session, k));
        if (k % 100 == 0) most = std::max(most, heap_bytes() - start);
      }
      MESSAGE("pass ", pass, ": at most ", most >> 10, " KiB");
      (pass < 4 ? early : late) = std::max(pass < 4 ? early : late, most);
    }
    CHECK(early <= 32 << 20);
    CHECK(late <= early + (2 << 20));
  }
}
#endif
