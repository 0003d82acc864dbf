#include "tier/special_policy.h"

#include <doctest/doctest.h>

#include "tier/policy.h"

using namespace xc;
using namespace xc::policy;

TEST_CASE("tier/special_policy: a size is taken for granted where it is frequent") {
  SizeHistogram seen;
  for (int k = 0; k < 1000; ++k) seen.add(k % 4 == 0 ? 96 : 1 + k % 64, 1);
  CHECK(choose_size(96, seen).exact);
  CHECK(!choose_size(96, seen).multiple);
  CHECK(!choose_size(17, seen).exact);
  CHECK(!choose_size(48, seen).multiple);  // most sizes are no multiples
  SizeHistogram even;
  for (int k = 0; k < 1000; ++k) even.add(16 * (1 + k % 40), 1);
  CHECK(!choose_size(48, even).exact);
  CHECK(choose_size(48, even).multiple);
  CHECK(!choose_size(49, even).multiple);
  CHECK(!choose_size(0, even).multiple);
}

TEST_CASE("tier/special_policy: what never pays is tried less, and again after a while") {
  SpecialGain gain;
  const double worth = 1 - Regret::kMinimumGain;
  CHECK(gain.expected(64, 0) > worth);
  CHECK(gain.expected(4096, 0) < worth);  // nothing to win on long rows
  int tries = 0;
  double now_s = 0;
  for (; gain.expected(64, now_s) >= worth; ++tries, now_s += 0.1) gain.learn(1.0, 64, now_s);
  CHECK(tries >= 2);
  CHECK(tries <= 8);
  CHECK(gain.expected(64, now_s + 1) < worth);
  CHECK(gain.expected(64, now_s + 1000) > worth);
  // Where it pays, longer rows are worth a look.
  SpecialGain good;
  for (int k = 0; k < 20; ++k) good.learn(0.6, 64, k * 0.1);
  CHECK(good.expected(64, 2) > 0.35);
  CHECK(good.expected(600, 2) > worth);
}
