// Labels: tsan
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/program.h"
#include "support/sessions.h"

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

namespace {

/// Ones of `rank` dims of size 2.
Tensor ones(int64_t rank) {
  Tensor out(DType::kF32, Dims(static_cast<size_t>(rank), 2));
  std::fill_n(out.as<float>(), out.count(), 1.0f);
  return out;
}

/// Of the sum of ones of these ranks; counts what is wrong with it.
int wrong_sum(Session& session, int64_t a, int64_t b) {
  const Tensor sum = testing::run(session, {ones(a), ones(b)})[0];
  const std::vector<double> found = sum.to_doubles();
  return sum.rank() != std::max(a, b) || std::count(found.begin(), found.end(), 2.0) != sum.count();
}

constexpr const char* kOpenSum = "graph g(%x: f32[*], %y: f32[*]) -> (%z) { %z = Add(%x, %y) }";
constexpr size_t kKept = 8, kMost = 64;

}  // namespace

TEST_CASE("runtime/signatures: of many ranks the programs used last are kept, and all is counted") {
  for (const JitMode mode : {JitMode::kOff, JitMode::kAuto}) {
    Config config;
    config.jit = static_cast<int64_t>(mode);
    auto session = testing::session_of(kOpenSum, config);
    // A call keeps what it was prepared for.
    const Tensor first = ones(1), second = ones(1);
    const std::vector<TensorView> views{first.view(), second.view()};
    const auto call = session->prepare(views, {});
    int64_t runs = 1;
    const auto names = [&] {
      std::vector<std::string> out;
      for (const auto& program : session->program().children()) out.push_back(program->name());
      std::sort(out.begin(), out.end());
      return out;
    };
    for (int64_t a = 1; a < 7; ++a)
      for (int64_t b = 1; b < 7; ++b) {
        CHECK(wrong_sum(*session, a, b) == 0);
        CHECK(wrong_sum(*session, 2, 2) == 0);  // one in use
        runs += 2;
        CHECK(session->counters().runs == runs);
      }
    CHECK(session->profile().signatures >= 36);
    // All of them lately ran: none makes room.
    CHECK(session->program().children().size() == 36);
    for (int k = 0; k < 1000; ++k) CHECK(wrong_sum(*session, 2, 2) == 0);
    CHECK(wrong_sum(*session, 7, 6) == 0);
    CHECK(session->counters().runs == runs + 1001);
    const auto kept = names();
    CHECK(kept.size() == kKept);
    for (const char* ranks : {"g/rank 1, 1", "g/rank 2, 2", "g/rank 7, 6"})
      CHECK(std::count(kept.begin(), kept.end(), ranks) == 1);
    call->run();
    CHECK(call->output(0)->tensor.to_doubles() == std::vector<double>{2, 2});
  }
}

TEST_CASE("runtime/signatures: ranks that alternate keep their programs, within reason") {
  auto session = testing::session_of(kOpenSum, testing::config_in(JitMode::kOff));
  const auto programs = [&] {
    auto out = session->program().children();
    std::sort(out.begin(), out.end());
    return out;
  };
  const auto all_run = [&](int64_t most) {
    for (int64_t a = 0; a < most; ++a)
      for (int64_t b = 0; b < 5; ++b) CHECK(wrong_sum(*session, a, b) == 0);
  };
  all_run(4);
  const auto first = programs();
  CHECK(first.size() == 20);
  all_run(4);
  CHECK(programs() == first);
  all_run(16);
  CHECK(programs().size() == kMost);
}

TEST_CASE("runtime/signatures: programs that pack weights of their own are kept by their size") {
  // 4 MiB of weights, a sixth of the cap of plans.
  auto session = testing::session_of(R"(graph g(%x: f32[*]) -> (%z) {
  const %shape: i64[2] = [1024, 1024]
  %w = ConstantOfShape(%shape)
  %z = MatMul(%x, %w)
})",
                                     testing::config_in(JitMode::kOff));
  for (int64_t rank = 1; rank < 20; ++rank) {
    Dims dims(static_cast<size_t>(rank), 1);
    dims.back() = 1024;
    const Tensor x(DType::kF32, dims);
    std::fill_n(x.as<float>(), x.count(), 1.0f);
    CHECK(testing::run(*session, {x})[0].count() == 1024);
  }
  CHECK(session->program().children().size() <= kKept);
}

TEST_CASE("runtime/signatures: threads bring more ranks than are kept") {
  auto session = testing::session_of(kOpenSum, {});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t k = 0; k < 60; ++k) wrong += wrong_sum(*session, 1 + (k + t) % 4, 1 + k % 5);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(session->counters().runs == 180);
}
