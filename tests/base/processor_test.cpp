// Labels: tsan
#include <sched.h>

#include <thread>

#include <doctest/doctest.h>

#include "base/processor.h"

namespace {

using namespace xc;

#if defined(__linux__)

cpu_set_t allowed() {
  cpu_set_t out;
  REQUIRE(sched_getaffinity(0, sizeof out, &out) == 0);
  return out;
}

TEST_CASE("base/processor: a thread leaves one for another, and may run where it might before") {
  // A thread of its own: what it is allowed ends with it.
  std::thread([] {
    const cpu_set_t before = allowed();
    if (CPU_COUNT(&before) < 2) return;
    int left = 0;
    for (int i = 0; i < 20; ++i) {
      // Kept where it is, so that it is not the system that has moved it.
      const int processor = current_processor();
      REQUIRE(processor >= 0);
      cpu_set_t here;
      CPU_ZERO(&here);
      CPU_SET(processor, &here);
      REQUIRE(sched_setaffinity(0, sizeof here, &here) == 0);
      REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
      leave_processor(processor);
      left += current_processor() != processor;
      const cpu_set_t after = allowed();
      CHECK(CPU_EQUAL(&before, &after));
    }
    CHECK(left > 15);  // the system may have moved it back
  }).join();
}

TEST_CASE("base/processor: a thread that may run on one alone stays there") {
  std::thread([] {
    const int processor = current_processor();
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(processor, &here);
    REQUIRE(sched_setaffinity(0, sizeof here, &here) == 0);
    leave_processor(processor);
    leave_processor(-1);
    leave_processor(CPU_SETSIZE);
    CHECK(current_processor() == processor);
    const cpu_set_t after = allowed();
    CHECK(CPU_EQUAL(&here, &after));
  }).join();
}

#endif

}  // namespace
