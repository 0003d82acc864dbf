// Labels: tsan
#include "base/thread_pool.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/cpu_info.h"
#include "base/error.h"

namespace xc {
namespace {

TEST_CASE("base/thread_pool: every task runs once, workers are in range and exclusive") {
  for (int workers : {1, 2, 3, 5}) {
    ThreadPool pool(workers);
    REQUIRE(pool.workers() == workers);
    for (int64_t tasks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::vector<std::atomic<int>> inside(static_cast<size_t>(workers));
      std::atomic<bool> wrong{false};
      pool.run(tasks, [&](int64_t task, int worker) {
        if (worker < 0 || worker >= workers || inside[static_cast<size_t>(worker)]++ != 0)
          wrong = true;
        runs[static_cast<size_t>(task)]++;
        inside[static_cast<size_t>(worker)]--;
      });
      CHECK_FALSE(wrong);
      for (const auto& count : runs) CHECK(count == 1);
    }
  }
}

TEST_CASE("base/thread_pool: many short runs from several callers, nested too") {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  auto caller = [&] {
    const TaskSeries series(pool);
    for (int i = 0; i < 500; ++i)
      pool.run(4, [&](int64_t task, int) {
        if (i % 50 == 0) pool.run(3, [&](int64_t inner, int) { sum += inner; });
        sum += task;
      });
  };
  std::thread a(caller), b(caller);
  caller();
  a.join();
  b.join();
  CHECK(sum == 3 * (500 * 6 + 10 * 4 * 3));
}

TEST_CASE("base/thread_pool: the first exception reaches the caller and the pool stays usable") {
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i)
    CHECK_THROWS_AS(pool.run(50,
                             [&](int64_t task, int) {
                               if (task == 7) fail(Status::kRange, "index 7");
                             }),
                    Error);
  std::atomic<int> count{0};
  pool.run(9, [&](int64_t, int) { count++; });
  CHECK(count == 9);
  InlineRunner inline_runner;
  CHECK_THROWS_AS(inline_runner.run(2, [](int64_t, int) { fail(Status::kRange, "no"); }), Error);
}

TEST_CASE("base/thread_pool: sleeping workers wake up, and have signals blocked") {
  ThreadPool pool(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  // The two tasks wait for each other: this ends only if the sleeping worker takes one.
  std::atomic<int> there{0};
  std::atomic<int> blocked{0};
  pool.run(2, [&](int64_t, int worker) {
    there++;
    while (there != 2) std::this_thread::yield();
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (worker != 0 && sigismember(&mask, SIGTERM) == 1) blocked++;
  });
  CHECK(blocked == 1);
}

TEST_CASE("base/thread_pool: pools end whenever they are told to, on a busy machine too") {
  // A worker that is told to stop while it is about to sleep must not: this would not end.
  std::vector<std::thread> owners;
  for (int owner = 0; owner < 6; ++owner)
    owners.emplace_back([] {
      for (int i = 0; i < 2000; ++i) ThreadPool pool(3);
    });
  for (std::thread& owner : owners) owner.join();
  CHECK(owners.size() == 6);
}

TEST_CASE("base/thread_pool: refuses a thread count out of range") {
  CHECK_THROWS_AS(ThreadPool(0), Error);
  CHECK_THROWS_AS(ThreadPool(ThreadPool::kMaxWorkers + 1), Error);
}

TEST_CASE("base/cpu_info: plausible values; quotas round up") {
  const CpuInfo& info = cpu_info();
  CHECK(info.cores >= 1);
  CHECK(info.l1_bytes >= 8 << 10);
  CHECK(info.l2_bytes >= info.l1_bytes);
  CHECK(cores_of_cgroup_quota("max 100000") == 0);
  CHECK(cores_of_cgroup_quota("") == 0);
  CHECK(cores_of_cgroup_quota("50000 100000") == 1);
  CHECK(cores_of_cgroup_quota("250000 100000") == 3);
}

}  // namespace
}  // namespace xc
