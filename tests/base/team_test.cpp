// Labels: tsan
#include "base/team.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace xc {
namespace {

constexpr int64_t kPhases = 300;

/// What the parts hold after all phases: each reads all of the phase before and writes its own.
/// Worker w comes after `late` w microseconds, and rests as long now and then; those from `workers`
/// on never come.
std::vector<int64_t> mixed(int64_t parts, int64_t workers, int64_t late) {
  std::vector<std::byte> memory(static_cast<size_t>(Team::bytes(parts)) + 64);
  auto* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  Team::create(aligned, parts);
  // Plain memory: the sanitizer sees a phase that begins too early.
  std::vector<int64_t> values[2] = {std::vector<int64_t>(static_cast<size_t>(parts)), {}};
  for (int64_t part = 0; part < parts; ++part) values[0][static_cast<size_t>(part)] = part + 1;
  values[1] = values[0];
  std::vector<int64_t> times(static_cast<size_t>(parts));
  const auto rest = [&](int64_t worker) {
    if (late > 0) std::this_thread::sleep_for(std::chrono::microseconds(late * worker));
  };
  std::vector<std::thread> threads;
  for (int64_t worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      rest(worker);
      Team::at(aligned, parts).run(worker, kPhases, [&](int64_t phase, int64_t part) {
        if (phase % 64 == 13) rest(worker);
        const std::vector<int64_t>& before = values[phase % 2];
        int64_t sum = 0;
        for (size_t k = 0; k < before.size(); ++k) sum += before[k] * static_cast<int64_t>(k + 3);
        values[1 - phase % 2][static_cast<size_t>(part)] = sum % 1'000'003 + part + phase;
        ++times[static_cast<size_t>(part)];
      });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(times == std::vector<int64_t>(static_cast<size_t>(parts), kPhases));
  return values[kPhases % 2];
}

TEST_CASE("base/team: every part once in every phase, whoever comes, and when") {
  for (const int64_t parts : {1, 2, 3, 7}) {
    CAPTURE(parts);
    const std::vector<int64_t> alone = mixed(parts, 1, 0);
    for (const int64_t workers : {int64_t{1}, int64_t{2}, parts})
      for (const int64_t late : {0, 30, 2000}) {
        if (workers > parts) continue;
        CAPTURE(workers);
        CAPTURE(late);
        CHECK(mixed(parts, workers, late) == alone);
      }
  }
}

TEST_CASE("base/team: who comes when all is done has nothing to do") {
  alignas(64) std::byte memory[1024];
  REQUIRE(Team::bytes(2) <= 1024);
  Team::create(memory, 2);
  int64_t calls = 0;
  const auto count = [&](int64_t, int64_t) { ++calls; };
  Team::at(memory, 2).run(1, 5, count);
  CHECK(calls == 10);
  Team::at(memory, 2).run(0, 5, count);
  CHECK(calls == 10);
}

}  // namespace
}  // namespace xc
