#include "plan/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace xc;

namespace {

/// First fit by size, looking at every buffer placed before.
std::vector<int64_t> first_fit(const std::vector<ArenaRequest>& requests) {
  std::vector<uint32_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), 0u);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](uint32_t a, uint32_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<int64_t> offsets(requests.size());
  const auto padded = [&](uint32_t k) {
    return (std::max<int64_t>(requests[k].bytes, 1) + 63) / 64 * 64;
  };
  std::vector<uint32_t> placed;
  for (const uint32_t index : by_size) {
    const ArenaRequest& request = requests[index];
    std::sort(placed.begin(), placed.end(),
              [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
    int64_t offset = 0;
    for (const uint32_t other : placed) {
      if (requests[other].last_step < request.first_step ||
          requests[other].first_step > request.last_step)
        continue;
      if (offsets[other] - offset >= padded(index)) break;
      offset = std::max(offset, offsets[other] + padded(other));
    }
    offsets[index] = offset;
    placed.push_back(index);
  }
  return offsets;
}

}  // namespace

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

TEST_CASE("plan/memory_plan: offsets are those of first fit by size over all buffers") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 120; ++round) {
    CAPTURE(round);
    // Few or many steps, and lives that are short, sometimes long, or as long as the run.
    const auto count =
        static_cast<uint32_t>(round % 4 == 3 ? 513 + random() % 900 : random() % 300);
    const auto steps = static_cast<uint32_t>(1 + random() % (round % 2 == 0 ? 20 : 400));
    const uint64_t longest = round % 3 == 0 ? 3 : steps;
    std::vector<ArenaRequest> requests;
    for (uint32_t k = 0; k < count; ++k) {
      const auto first = static_cast<uint32_t>(random() % steps);
      const uint64_t life = round % 3 == 2 && random() % 8 != 0 ? 1 : longest;
      requests.push_back({k, static_cast<int64_t>(random() % 3000), first,
                          first + static_cast<uint32_t>(random() % life)});
    }
    std::vector<ArenaSlot> slots;
    plan_memory(requests, slots);
    const std::vector<int64_t> expected = first_fit(requests);
    REQUIRE(slots.size() == requests.size());
    for (const ArenaSlot& slot : slots) CHECK(slot.offset == expected[slot.buffer]);
  }
}

TEST_CASE("plan/memory_plan: a chain of 100,000 buffers") {
  // Looking at every other buffer for each would take a minute.
  std::vector<ArenaRequest> requests;
  for (uint32_t k = 0; k < 100'000; ++k)
    requests.push_back({k, int64_t{64} * (1 + (k * 7919) % 1000), k, k + 1});
  std::vector<ArenaSlot> slots;
  CHECK(plan_memory(requests, slots) <= 3 * 64 * 1000);
  CHECK(slots.size() == requests.size());
}
