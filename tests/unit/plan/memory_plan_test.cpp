#include "plan/memory_plan.h"

#include <doctest/doctest.h>

#include <random>

using namespace xc;

TEST_CASE("plan/memory_plan: buffers alive together never overlap, aligned, inside the arena") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaRequest> requests;
    const auto count = static_cast<uint32_t>(random() % 60);
    for (uint32_t k = 0; k < count; ++k) {
      const auto first = static_cast<uint32_t>(random() % 40);
      requests.push_back({k, static_cast<int64_t>(random() % 5000), first,
                          first + static_cast<uint32_t>(random() % 10)});
    }
    std::vector<ArenaSlot> slots;
    const int64_t total = plan_memory(requests, slots);
    REQUIRE(slots.size() == requests.size());
    int64_t sum = 0;
    for (const ArenaSlot& a : slots) {
      REQUIRE(a.offset % 64 == 0);
      REQUIRE(a.offset + a.bytes <= total);
      sum += a.bytes + 64;
      for (const ArenaSlot& b : slots) {
        const ArenaRequest &ra = requests[a.buffer], &rb = requests[b.buffer];
        const bool together =
            a.buffer != b.buffer && ra.first_step <= rb.last_step && rb.first_step <= ra.last_step;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        REQUIRE_FALSE((together && overlap));
      }
    }
    CHECK(total <= sum);
  }
}

TEST_CASE("plan/memory_plan: a chain needs two buffers") {
  std::vector<ArenaRequest> requests;
  for (uint32_t k = 0; k < 10; ++k) requests.push_back({k, 1024, k, k + 1});
  std::vector<ArenaSlot> slots;
  CHECK(plan_memory(requests, slots) == 2048);
}
