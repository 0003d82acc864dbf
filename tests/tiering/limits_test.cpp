// max_memory_bytes while a session adapts: what mode off runs within, others do too, and what is
// over it is left as it was.
// Labels: tsan
#include "support.h"
#include "support/evaluate.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr int64_t kIn = 64, kHidden = 256;
constexpr auto kLong = std::chrono::seconds(60);

/// Two products by weights with a softmax between them, which one kernel may do block by block.
std::string two_products() {
  const auto matrix = [](const char* name, int64_t rows, int64_t columns) {
    std::string numbers;
    for (int64_t i = 0; i < rows * columns; ++i)
      numbers += fmt::format("{}{}", i ? ", " : "", static_cast<double>(i * 5 % 7 - 3) / 16);
    return fmt::format("  const %{}: f32[{}, {}] = [{}]\n", name, rows, columns, numbers);
  };
  return "graph g(%x: f32[n, 64]) -> (%y) {\n" + matrix("v", kIn, kHidden) +
         matrix("w", kHidden, kIn) +
         "  %s = MatMul(%x, %v)\n  %p = Softmax(%s)\n  %y = MatMul(%p, %w)\n}";
}

Tensor rows(int64_t n) {
  return ramp({n, kIn}, 3, 0.1);
}

/// The least limit at which `fits` holds.
int64_t least(const std::function<bool(int64_t)>& fits) {
  int64_t too_little = 1, enough = 1 << 24;
  while (enough - too_little > 1) {
    const int64_t middle = (too_little + enough) / 2;
    (fits(middle) ? enough : too_little) = middle;
  }
  return enough;
}

Config limited(JitMode mode, int64_t limit) {
  Config config = config_in(mode);
  config.max_memory_bytes = limit;
  return config;
}

/// Whether the entry of so many rows is fused; there has to be one.
bool is_fused(Session& session, int64_t n) {
  for (const auto& entry : session.program().entries())
    if (entry->symbols[0] == n)
      return session.program().published(*entry)->active->bound->plan->region_steps > 0;
  FAIL("no entry");
  return false;
}

}  // namespace

TEST_CASE("tiering/limits: what mode off runs within, others do before weights are packed too") {
  const std::string text = two_products();
  for (const int64_t n : {1, 16}) {
    const auto fits = [&](JitMode mode, int64_t limit) {
      Fixture fixture(text, limited(mode, limit), {}, create_interpreting_compiler());
      return status_of(*fixture.session, {rows(n)}) == Status::kOk;
    };
    const int64_t enough = least([&](int64_t limit) { return fits(JitMode::kOff, limit); });
    for (const JitMode mode : {JitMode::kAuto, JitMode::kSync}) CHECK(fits(mode, enough));
  }
}

TEST_CASE("tiering/limits: a plan over the limit at some size is not asked for again there") {
  constexpr int64_t kFew = 16, kMany = 32;
  const std::string text = two_products();
  // Within this the fused kernel runs at the smaller size, and operators alone at the larger one.
  TierFaults faults;
  faults.unverified = true;  // interpreted kernels are slow
  const int64_t limit = least([&](int64_t most) {
    Fixture fixture(text, limited(JitMode::kSync, most), faults, create_interpreting_compiler());
    return status_of(*fixture.session, {rows(kFew)}) == Status::kOk &&
           is_fused(*fixture.session, kFew);
  });
  faults.eager = true;  // what is compiled is used
  Fixture fixture(text, limited(JitMode::kAuto, limit), faults, create_interpreting_compiler());
  Session& session = *fixture.session;
  const std::vector<Tensor> want = testing::run(session, {rows(kMany)});
  for (int k = 0; k < 4000 && !(k > 0 && is_fused(session, kFew)); ++k) {
    testing::run(session, {rows(kFew)});
    if (k % 16 == 0) session.wait_idle(kLong);
  }
  REQUIRE(is_fused(session, kFew));
  for (int k = 0; k < 64; ++k) {
    CHECK(test::difference(testing::run(session, {rows(kMany)}), want, 1e-5).empty());
    session.wait_idle(kLong);
  }
  CHECK_FALSE(is_fused(session, kMany));
  for (const auto& entry : session.program().entries()) {
    CHECK_FALSE(entry->rebinding);
    CHECK_FALSE(session.program().published(*entry)->active->bound->provisional);
  }
}
