// What sampled runs see of the values that regions read reaches profiles and explain.
// Labels: tsan
#include "support.h"

using namespace xc;
using namespace xc::testing;

TEST_CASE("tiering/values: zeros and scalars that regions read are told") {
  constexpr const char* kScaled =
      R"(graph g(%x: f32[n, 64], %same: f32[], %other: f32[1]) -> (%y) {
  %a = Mul(%x, %same)
  %b = Add(%a, %other)
  %c = Tanh(%b)
  %y = Mul(%c, %c)
})";
  TierFaults faults;
  faults.eager = true;
  Fixture fixture(kScaled, {}, faults, XC_HAVE_JIT ? nullptr : create_interpreting_compiler());
  Tensor x(DType::kF32, {40, 64});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = i % 4 ? 0.0f : 0.5f;
  const Tensor same = Tensor::scalar<float>(0.25f);
  const auto run = [&](int k) {
    const float shift = static_cast<float>(k % 5) * 0.125f;
    const Tensor y = fixture.run({x, same, Tensor::of<float>({shift})})[0];
    bool right = true;
    for (int64_t i = 0; i < x.count(); ++i) {
      const double t = std::tanh(0.25 * static_cast<double>(x.as<float>()[i]) + shift);
      right = right && std::fabs(y.as<float>()[i] - t * t) <= 1e-5;
    }
    REQUIRE(right);
  };
  const auto input = [&](const std::string& name) {
    for (const RegionSummary& region : fixture.session->profile().regions)
      for (const ValueSummary& value : region.inputs)
        if (value.name == name && value.looks >= 20) return value;
    return ValueSummary{};
  };
  // Several threads look and one asks.
  std::atomic<bool> stop{false};
  std::thread asking([&] {
    while (!stop) (void)fixture.session->explain({}, false);
  });
  const int64_t end = steady_ns() + 60'000'000'000;
  const auto all_looked_at = [&] {
    return input("x").looks > 0 && input("same").looks > 0 && input("other").looks > 0;
  };
  for (int k = 0; !all_looked_at() && steady_ns() < end; ++k) run(k);
  stop = true;
  asking.join();
  CHECK(std::fabs(input("x").zeros - 0.75) <= 0.05);
  CHECK_FALSE(input("x").scalar);
  CHECK(input("same").scalar);
  CHECK(input("same").constant);
  CHECK(input("same").value == 0.25);
  CHECK(input("other").scalar);
  CHECK_FALSE(input("other").constant);
  const std::string text = fixture.session->explain({}, false);
  CHECK(text.find("reads same: one element, always 0.25") != std::string::npos);
  CHECK(text.find("reads other: one element, not always the same") != std::string::npos);
  CHECK(fixture.session->explain({}, true).find("\"zeros\"") != std::string::npos);
}
