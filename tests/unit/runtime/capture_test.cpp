// Labels: tsan
// Copies of what runs compute, for who asked for them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/capture.h"
#include "support/sessions.h"

using namespace xc;

namespace {

constexpr const char* kChain =
    "graph g(%x: f32[n]) -> (%z) { %a = Exp(%x) %b = Add(%a, %x) %z = Mul(%b, %b) }";

struct Fixture {
  std::shared_ptr<Session> session = testing::session_of(kChain, testing::config_in(JitMode::kOff));
  std::vector<std::string> served;  ///< who got copies, in their order

  SignatureEntry& entry() { return *session->program().entries().at(0); }
  /// With 0, 1, ...
  void run(int64_t n = 2) { testing::run(*session, {testing::ramp({n}, 1, 0)}); }
  /// Asks for the graph's input.
  void ask(const void* who, const std::string& name) {
    REQUIRE(session->program().request_capture(
        who, entry(), {session->program().graph().inputs.at(0)}, 1 << 10, nullptr,
        [this, name](Captured run) {
          REQUIRE(run.copies.size() == 1);
          CHECK(run.copies[0].to_doubles() == testing::ramp({2}, 1, 0).to_doubles());
          CHECK(run.symbols == std::vector<int64_t>{2});
          served.push_back(name);
        }));
  }
};

}  // namespace

TEST_CASE("runtime/capture: each request is served by a run of its own") {
  Fixture fixture;
  fixture.run();
  int a = 0, b = 0;
  fixture.ask(&a, "a");
  fixture.ask(&b, "b");
  std::vector<Tensor> operands;
  REQUIRE(fixture.session->program().request_operands(
      &operands, fixture.entry(), [](const Step&) { return true; }, 1 << 10,
      [&](Captured run) { operands = std::move(run.copies); }));
  fixture.run();
  CHECK(fixture.served == std::vector<std::string>{"a"});
  fixture.run();
  CHECK(fixture.served == std::vector<std::string>{"a", "b"});
  CHECK(operands.empty());
  fixture.run();
  CHECK(operands.size() >= 2);  // the step's input and its result
  fixture.run();
  CHECK(fixture.served.size() == 2);
}

TEST_CASE("runtime/capture: the last request of each counts, and the last eight of all") {
  Fixture fixture;
  fixture.run();
  int who[10];
  fixture.ask(&who[0], "before");
  fixture.ask(&who[0], "0");
  for (int k = 1; k < 10; ++k) fixture.ask(&who[k], std::to_string(k));
  for (int k = 0; k < 12; ++k) fixture.run();
  CHECK(fixture.served == std::vector<std::string>{"2", "3", "4", "5", "6", "7", "8", "9"});
}

TEST_CASE("runtime/capture: a run of other sizes serves, but none that has too much to copy") {
  Fixture fixture;
  fixture.run(2);
  int who = 0;
  std::vector<Captured> values, operands;
  REQUIRE(fixture.session->program().request_capture(
      &who, fixture.entry(), {fixture.session->program().graph().inputs.at(0)}, 20, nullptr,
      [&](Captured run) { values.push_back(std::move(run)); }));
  REQUIRE(fixture.session->program().request_operands(
      &operands, fixture.entry(), [](const Step&) { return true; }, 80,
      [&](Captured run) { operands.push_back(std::move(run)); }));
  fixture.run(60);
  CHECK(values.empty());
  CHECK(operands.empty());
  fixture.run(5);
  fixture.run(4);
  REQUIRE(values.size() == 1);
  CHECK(values[0].symbols == std::vector<int64_t>{5});
  CHECK(values[0].copies.at(0).dims() == Dims{5});
  REQUIRE(operands.size() == 1);
  CHECK(operands[0].symbols == std::vector<int64_t>{4});
  CHECK(operands[0].copies.at(0).dims() == Dims{4});
  CHECK(operands[0].copies.back().dims() == Dims{4});
}

TEST_CASE("runtime/capture: a run of other sizes than are wanted does not serve") {
  Fixture fixture;
  fixture.run(4);
  int who = 0;
  std::vector<Captured> values;
  const auto even = [](std::span<const int64_t> symbols) { return symbols[0] % 2 == 0; };
  const auto ask = [&] {
    return fixture.session->program().request_capture(
        &who, fixture.entry(), {fixture.session->program().graph().inputs.at(0)}, 1 << 10, even,
        [&](Captured run) { values.push_back(std::move(run)); });
  };
  REQUIRE(ask());
  fixture.run(5);
  CHECK(values.empty());
  fixture.run(6);
  REQUIRE(values.size() == 1);
  CHECK(values[0].symbols == std::vector<int64_t>{6});
}
