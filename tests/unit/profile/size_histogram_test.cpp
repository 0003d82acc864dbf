// Which sizes are frequent: held against exact counts.
#include "profile/size_histogram.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace xc;

TEST_CASE("profile/sizes: what is said to be frequent is, and what is frequent is found") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    SizeHistogram histogram;
    std::map<int64_t, double> exact;
    double total = 0;
    // Up to the horizon nothing is forgotten. Values by a law of powers, or all alike.
    while (total < SizeHistogram::kHorizon / 2) {
      const double u = std::uniform_real_distribution<double>(0, 1)(random);
      const auto value = seed % 2 ? static_cast<int64_t>(1 / (u + 1e-3)) : int64_t(random() % 500);
      const double runs = random() % 2 ? 1 : 16;
      histogram.add(value, runs);
      exact[value] += runs;
      total += runs;
    }
    REQUIRE(histogram.total() == total);
    double multiples = 0;
    for (const auto& [value, runs] : exact) {
      CAPTURE(value);
      CHECK(histogram.share(value) <= runs / total + 1e-12);
      // An upper bound of what is not seen: that of the counter with the fewest runs.
      if (runs / total > 2.0 / SizeHistogram::kCounters)
        CHECK(histogram.share(value) >= runs / total - 1.0 / SizeHistogram::kCounters);
      if (value % SizeHistogram::kVector == 0) multiples += runs;
    }
    CHECK(histogram.share_of_multiples() == doctest::Approx(multiples / total));
    for (const auto& frequent : histogram.frequent()) CHECK(exact.count(frequent.value) == 1);
  }
}

TEST_CASE("profile/sizes: a new phase takes over in a few thousand runs") {
  SizeHistogram histogram;
  for (int k = 0; k < 100000; ++k) histogram.add(64, 1);
  CHECK(histogram.share(64) > 0.99);
  CHECK(histogram.total() <= SizeHistogram::kHorizon);
  int runs = 0;
  for (; histogram.share(96) < 0.5; ++runs) histogram.add(96, 1);
  CHECK(runs <= SizeHistogram::kHorizon);
  for (int k = 0; k < 60000; ++k) histogram.add(96, 1);
  CHECK(histogram.share(64) < 0.05);
}
