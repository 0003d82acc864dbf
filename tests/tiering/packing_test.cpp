// Weights packed in the background, part by part: whatever was bound before takes them.
// Labels: tsan
#include <map>

#include "support.h"
#include "support/evaluate.h"
#include "support/scratch.h"

namespace {

using namespace xc;
using namespace xc::testing;

constexpr auto kLong = std::chrono::seconds(60);
constexpr int64_t kFeatures = 160, kLayers = 5;

/// Products by weights, and what is fused behind each: a softmax between Tanh and Mul.
std::string layers() {
  std::string text = "graph g(%x: f32[n, 160]) -> (%y) {\n";
  for (int64_t l = 0; l < kLayers; ++l) {
    std::string numbers;
    for (int64_t i = 0; i < kFeatures * kFeatures; ++i)
      numbers += fmt::format("{}{}", i ? ", " : "", static_cast<double>((i * 5 + l) % 7 - 3) / 32);
    text += fmt::format("  const %w{}: f32[160, 160] = [{}]\n", l, numbers);
  }
  for (int64_t l = 0; l < kLayers; ++l)
    text += fmt::format(
        "  %m{0} = MatMul(%{1}, %w{0})\n  %t{0} = Tanh(%m{0})\n  %s{0} = Softmax(%t{0})\n"
        "  %{2} = Mul(%s{0}, %t{0})\n",
        l, l == 0 ? "x" : fmt::format("h{}", l),
        l + 1 == kLayers ? "y" : fmt::format("h{}", l + 1));
  return text + "}";
}

Tensor rows(int64_t n) {
  return ramp({n, kFeatures}, 3, 0.1);
}

/// What mode off gives.
const std::vector<Tensor>& expected(int64_t n) {
  static Fixture fixture(layers(), config_in(JitMode::kOff), {}, create_interpreting_compiler());
  static std::map<int64_t, std::vector<Tensor>> known;
  auto& results = known[n];
  if (results.empty()) results = fixture.run({rows(n)});
  return results;
}

struct Layers : Fixture {
  explicit Layers(const TierFaults& faults, const std::string& cache = {})
      : Fixture(layers(), with_cache(cache), faults,
                XC_HAVE_JIT ? nullptr : create_interpreting_compiler()) {}

  void run_right(int64_t n) {
    const std::string difference = test::difference(run({rows(n)}), expected(n), 1e-5);
    CHECK_MESSAGE(difference.empty(), difference);
  }
  /// Of the entries: how many are bound to fused plans, and whether some read weights as they lie.
  int64_t fused() const {
    int64_t fused = 0;
    for (const auto& entry : session->program().entries())
      fused += active(*entry)->bound->plan->region_steps > 0 ? 1 : 0;
    return fused;
  }
  /// Steps whose weights are.
  int packed() const {
    int count = 0;
    for (const auto& step : session->program().base_plan()->steps)
      count += step->spec.op->name == "MatMul" && step->kernel && !step->kernel->wants_prepare();
    return count;
  }
  bool reads_unpacked() const {
    for (const auto& entry : session->program().entries()) {
      const auto base = session->program().base_of(*entry);
      if (active(*entry)->bound->unprepared || (base && base->bound->unprepared)) return true;
    }
    return false;
  }

 private:
  static Config with_cache(const std::string& directory) {
    Config config = config_in(JitMode::kAuto);
    config.cache_dir = directory;
    return config;
  }
  std::shared_ptr<const Version> active(const SignatureEntry& entry) const {
    return session->program().published(entry)->active;
  }
};

TierFaults slowly() {
  TierFaults faults;
  faults.pack_slowly = true;
  return faults;
}

}  // namespace

TEST_CASE("tiering/packing: part by part, while sizes come that are bound in between") {
  Layers layers(slowly());
  for (int64_t n = 1; n <= 12; ++n) layers.run_right(n);
  layers.session->wait_idle(kLong);
  CHECK(layers.log.count(EventKind::kPrepared) == 1);
  for (int64_t n = 1; n <= 12; ++n)
    for (int k = 0; k < 3; ++k) layers.run_right(n);  // a size that was bound meanwhile follows
  layers.session->wait_idle(kLong);
  CHECK_FALSE(layers.reads_unpacked());
  CHECK(layers.log.count(EventKind::kPrepared) == 1);
}

TEST_CASE("tiering/packing: what an earlier process fused takes weights packed behind it") {
  const ScratchDirectory scratch;
  {
    TierFaults faults;
    faults.eager = true;
    Layers first(faults, scratch.path);
    for (int k = 0; k < 20000 && first.fused() == 0; ++k) {
      first.run_right(7);
      if (k % 16 == 0) first.session->wait_idle(kLong);
    }
    REQUIRE(first.fused() > 0);
    first.session->wait_idle(kLong);
  }
  Layers second({}, scratch.path);
  second.run_right(7);
  second.session->wait_idle(kLong);
  CHECK(second.log.count(EventKind::kPrepared) == 1);
  CHECK(second.fused() > 0);
  CHECK_FALSE(second.reads_unpacked());
  second.run_right(7);
}

TEST_CASE("tiering/packing: a session may end at any part") {
  for (int k = 0; k < 30; ++k) {
    Layers layers(slowly());
    for (int run = 0; run < k % 4; ++run) layers.run_right(1 + run);
    std::this_thread::sleep_for(std::chrono::microseconds(50 * k));
  }
}

TEST_CASE("tiering/packing: freezing a session waits for one part, not for all") {
  bool between = false;
  for (int attempt = 0; attempt < 200 && !between; ++attempt) {
    Layers layers(slowly());
    layers.run_right(1);  // the tier knows it from here on
    int packed = layers.packed();
    const int64_t end = steady_ns() + 2'000'000'000;
    while (packed == 0 && steady_ns() < end) packed = layers.packed();
    layers.session->freeze();
    packed = layers.packed();
    between = packed > 0 && packed < kLayers && layers.log.count(EventKind::kPrepared) == 0;
    layers.run_right(3);
    CHECK(layers.session->wait_idle(kLong));
    CHECK(layers.packed() == kLayers);  // mode off packs them too
    CHECK(layers.log.count(EventKind::kPrepared) == 1);
    layers.run_right(3);
  }
  CHECK(between);
}
