// When what runs may still read is destroyed.
// Labels: asan tsan
#include "runtime/epoch.h"

#include <doctest/doctest.h>

#include <memory>

#include "runtime/run_context.h"

using namespace xc;

namespace {

struct Fixture {
  Engine engine{Config{}, HostHooks{}, nullptr};
  RunContext context{engine};
  Epochs epochs;
  int64_t destroyed = 0;
  Fixture() { epochs.add(&context); }
  void retire() {
    epochs.retire(std::shared_ptr<const void>(&destroyed, [this](const void*) { ++destroyed; }));
  }
  void enter() { context.epoch = epochs.current(); }
  void leave() { context.epoch = 0; }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "runtime/epoch: a run keeps what was retired since it began, no more") {
  retire();
  enter();
  const uint64_t entered = context.epoch;
  retire();
  retire();
  CHECK(epochs.reclaim());
  CHECK(destroyed == 1);
  CHECK(epochs.retired() == 2);
  CHECK(epochs.waits_for(entered));
  leave();
  enter();  // what it may see is retired from here on
  CHECK(epochs.reclaim());
  CHECK(destroyed == 3);
  CHECK(epochs.retired() == 0);
  CHECK_FALSE(epochs.waits_for(entered));
}

TEST_CASE_FIXTURE(Fixture, "runtime/epoch: some are destroyed at a time, and many in all") {
  constexpr int64_t kMany = 300'000;
  enter();
  for (int64_t k = 0; k < kMany; ++k) retire();
  CHECK(epochs.reclaim(100));  // none can go
  CHECK(destroyed == 0);
  leave();
  CHECK_FALSE(epochs.reclaim(100));
  CHECK(destroyed == 100);
  retire();
  CHECK(epochs.retired() == kMany - 99);
  CHECK(epochs.reclaim());
  CHECK(destroyed == kMany + 1);
}
