// Labels: tsan
// Copies of what runs compute, for who asked for them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/program.h"
#include "support/sessions.h"

using namespace xc;

namespace {

constexpr const char* kChain =
    "graph g(%x: f32[2]) -> (%z) { %a = Exp(%x) %b = Add(%a, %x) %z = Mul(%b, %b) }";

struct Fixture {
  std::shared_ptr<Session> session = testing::session_of(kChain, testing::config_in(JitMode::kOff));
  std::vector<std::string> served;  ///< who got copies, in their order

  SignatureEntry& entry() { return *session->program().entries().at(0); }
  void run() {
    Tensor x(DType::kF32, {2});
    x.as<float>()[0] = 0;
    x.as<float>()[1] = 1;
    testing::run(*session, {x});
  }
  /// Asks for the graph's input.
  void ask(const void* who, const std::string& name) {
    REQUIRE(session->program().request_capture(
        who, entry(), {session->program().graph().inputs.at(0)}, 1 << 10,
        [this, name](std::vector<Tensor> copies) {
          REQUIRE(copies.size() == 1);
          CHECK(copies[0].to_doubles() == std::vector<double>{0, 1});
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
      [&](std::vector<Tensor> copies) { operands = std::move(copies); }));
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
