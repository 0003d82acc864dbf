// Which runs are timed: often enough to see every size, rarely enough to cost next to nothing.
#include "runtime/sampling.h"

#include <doctest/doctest.h>

#include <cmath>

#include "runtime/program.h"
#include "support/sessions.h"

using namespace xc;
using namespace xc::testing;

TEST_CASE("runtime/sampling: one run in 2^bits is timed, also of every other and every third") {
  constexpr uint64_t kRuns = 1 << 18;
  for (int bits = 0; bits <= kRarestBits; ++bits)
    for (const uint64_t step : {1, 2, 3, 7}) {
      CAPTURE(bits);
      CAPTURE(step);
      uint64_t timed = 0, rarer = 0;
      bool nested = true;
      for (uint64_t run = step / 2; run < kRuns * step; run += step) {
        timed += is_sampled(run, bits);
        rarer += is_sampled(run, bits + 1);
        nested = nested && (is_sampled(run, bits) || !is_sampled(run, bits + 1));
      }
      CHECK(nested);
      const uint64_t expected = kRuns >> bits;
      CHECK(timed >= expected - expected / 8);
      CHECK(timed <= expected + expected / 8);
      CHECK(rarer < timed);
    }
}

TEST_CASE("runtime/sampling: looking costs a small share of the runs, however short they are") {
  for (const double look : {50.0, 1000.0, 100000.0})
    for (double run = 10; run < 1e9; run *= 3) {
      CAPTURE(look);
      CAPTURE(run);
      const int young = sample_bits(0, run, look), early = sample_bits(200, run, look);
      const int bits = sample_bits(100000, run, look);
      CHECK(bits >= 0);
      CHECK(bits <= kRarestBits);
      // Twice that share at most goes into rounding.
      if (bits < kRarestBits) CHECK(look <= run * std::ldexp(1.0, bits) / 256);
      if (bits > 0) CHECK(look >= run * std::ldexp(1.0, bits) / 1024);
      CHECK(young <= kSampleBits);
      CHECK(young <= early);
      CHECK(early <= bits);
      if (run >= 256 * look) CHECK(bits <= 1);
    }
}

TEST_CASE(
    "runtime/sampling: long runs give a quarter to what makes later ones shorter, short ones "
    "wait") {
  CHECK(settling_seconds(1, 0, false) == 0);
  CHECK(settling_seconds(2, 1e-3, false) == 0);
  CHECK(settling_seconds(1, 40e-3, false) == 0);
  CHECK(settling_seconds(2, 40e-3, false) == doctest::Approx(10e-3));
  CHECK(settling_seconds(15, 1e-6, false) == 0);
  for (const double run : {0.0, 1e-6, 1e-3})
    CHECK(settling_seconds(16, run, false) == doctest::Approx(1e-3));
  CHECK(settling_seconds(1000, 40e-3, false) == doctest::Approx(10e-3));
  // Begun by a run that was slow for once, it goes on.
  CHECK(settling_seconds(3, 1e-4, true) == doctest::Approx(1e-3));
  CHECK(settling_seconds(3, 40e-3, true) == doctest::Approx(10e-3));
}

TEST_CASE("runtime/sampling: a session looks at few of many short runs, and they count as all") {
  const auto session = session_of(
      "graph g(%x: f32[n], %y: f32[n]) -> (%z) {\n  %s = Add(%x, %y)\n  %z = Tanh(%s)\n}",
      {.threads = 1});
  const std::vector<Tensor> few{ramp({3}, 1, 0.1), ramp({3}, 1, 0.2)};
  constexpr int64_t kRuns = 40000;
  for (int64_t k = 0; k < kRuns; ++k) run(*session, few);
  CHECK(session->profile().runs == kRuns);
  Program& program = session->program();
  CHECK(program.runs() < kRuns / 16);  // what it would be, did they cost nothing
  if (!program.engine().tier()) return;
  const auto counted = static_cast<int64_t>(program.latest_entries()[0]->runs);
  CHECK(counted > kRuns / 2);
  CHECK(counted < kRuns * 2);
}
