// Labels: asan tsan
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/program.h"

using namespace xc;

TEST_CASE("runtime/signatures: sorted by their last use, while runs go on") {
  std::vector<std::shared_ptr<SignatureEntry>> entries;
  for (int64_t k = 0; k < 600; ++k) {
    entries.push_back(std::make_shared<SignatureEntry>());
    entries.back()->last_use = k * 7 % 600;
  }
  const auto sorted = by_last_use(entries);
  REQUIRE(sorted.size() == entries.size());
  for (int64_t k = 0; k < 600; ++k) CHECK(sorted[static_cast<size_t>(k)]->last_use == k);

  // A run stamps the entries it uses: none may be lost or found twice.
  std::atomic<bool> done{false};
  std::thread runs([&] {
    for (int64_t time = 600; !done; ++time)
      entries[static_cast<size_t>(time * 37 % 600)]->last_use.store(time,
                                                                    std::memory_order_relaxed);
  });
  std::vector<std::shared_ptr<SignatureEntry>> all = entries;
  std::sort(all.begin(), all.end());
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    auto found = by_last_use(entries);
    std::sort(found.begin(), found.end());
    wrong += found == all ? 0 : 1;
  }
  done = true;
  runs.join();
  CHECK(wrong == 0);
}
