// The accounts of a region; sums worked out by hand.
#include "profile/ledger.h"

#include <doctest/doctest.h>

using namespace xc;

TEST_CASE("profile/ledger: a call saves the difference of the medians of its shape's trial") {
  Ledger ledger;
  ledger.replaced({128}, 16, 90e-6, 12e-6);  // a mean with a cold call in it
  CHECK(ledger.saved_s() == 0);
  CHECK(ledger.accounts().at({128}).before_s == 90e-6);
  ledger.trialled({128}, 40e-6, 15e-6);
  ledger.live({128}, 16, 21e-6, 40.0 / 15);
  ledger.live({128}, 4, 20e-6, 40.0 / 15);
  CHECK(ledger.saved_s() == doctest::Approx(20 * 25e-6));
  const Ledger::Account& account = ledger.accounts().at({128});
  CHECK(account.calls == 36);
  CHECK(account.live_calls == 20);
  CHECK(account.before_s == 40e-6);
  CHECK(account.fused_s == 15e-6);
  CHECK(account.now_s == 20e-6);
  CHECK(account.predicted_s == 12e-6);
  CHECK_FALSE(account.estimated);
}

TEST_CASE("profile/ledger: a slower region costs, and so does trying it") {
  Ledger ledger;
  ledger.trialled({}, 10e-6, 12e-6);
  ledger.live({}, 100, 12e-6, 0);
  ledger.add_saved(-1e-3);
  CHECK(ledger.saved_s() == doctest::Approx(-100 * 2e-6 - 1e-3));
}

TEST_CASE("profile/ledger: shapes that had no trial count by the ratio of those that had") {
  Ledger ledger;
  ledger.replaced({7}, 3, 50e-6, 0);
  ledger.live({7}, 10, 20e-6, 0);  // nothing known: nothing saved
  CHECK(ledger.saved_s() == 0);
  ledger.live({7}, 10, 20e-6, 1.5);
  CHECK(ledger.saved_s() == doctest::Approx(10 * 10e-6));
  CHECK(ledger.accounts().at({7}).estimated);
  ledger.trialled({7}, 24e-6, 20e-6);
  ledger.live({7}, 1, 20e-6, 1.5);
  CHECK(ledger.saved_s() == doctest::Approx(10 * 10e-6 + 4e-6));
  CHECK_FALSE(ledger.accounts().at({7}).estimated);
}

TEST_CASE("profile/ledger: any number of shapes take the memory of a few, and no call is lost") {
  Ledger ledger;
  double saved = 0;
  for (int64_t n = 1; n <= 1000; ++n) {
    const double calls = n == 500 ? 100 : 1;
    ledger.replaced({n}, calls, 3e-6, 0);
    ledger.live({n}, calls, 1e-6, 3.0);
    saved += calls * 2e-6;
  }
  CHECK(ledger.accounts().size() == Ledger::kShapes);
  CHECK(ledger.accounts().contains({500}));  // the one with many calls stays
  double calls = ledger.others().calls, live = ledger.others().live_calls;
  for (const auto& [shape, account] : ledger.accounts()) {
    calls += account.calls;
    live += account.live_calls;
  }
  CHECK(calls == 2 * 1099);
  CHECK(live == 1099);
  CHECK(ledger.calls() == calls);
  CHECK(ledger.saved_s() == doctest::Approx(saved));
}
