// Products whose left side runs have shown to be mostly zeros get a kernel that skips those.
// Labels: tsan
#include <random>

#include "support.h"
#include "support/scratch.h"

using namespace xc;
using namespace xc::testing;

namespace {

constexpr const char* kLayer =
    R"(graph g(%x: f32[n, 96], %w: f32[96, 80], %b: f32[80]) -> (%y) {
  %m = MatMul(%x, %w)
  %s = Add(%m, %b)
  %y = Relu(%s)
})";

struct Layer : Fixture {
  explicit Layer(TierFaults faults = {}, Config config = {}, const std::string& text = kLayer)
      : Fixture(text, config, std::move(faults),
                XC_HAVE_JIT ? nullptr : create_interpreting_compiler()) {}
  bool skips() const {
    for (const RegionSummary& region : session->profile().regions)
      if (region.state == "live" && region.name.ends_with("+Relu skipping zeros of x")) return true;
    return false;
  }
};

/// The same with constant weights, transposed: 1 where (96 j + k) % 7 is 3, else 0; so many that
/// they are packed.
constexpr int64_t kColumns = 200;
std::string packed_layer() {
  std::string weights;
  for (int64_t i = 0; i < kColumns * 96; ++i) weights += i % 7 == 3 ? "1, " : "0, ";
  weights.resize(weights.size() - 2);
  return fmt::format(R"(graph g(%x: f32[n, 96]) -> (%y) {{
  const %w: f32[{}, 96] = [{}]
  %m = Gemm(%x, %w) {{transB = 1}}
  %y = Relu(%m)
}})",
                     kColumns, weights);
}

/// One in `every` elements is no zero.
std::vector<Tensor> inputs_of(int64_t rows, int64_t every, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Tensor> out{Tensor(DType::kF32, {rows, 96}), Tensor(DType::kF32, {96, 80}),
                          Tensor(DType::kF32, {80})};
  for (Tensor& t : out)
    for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = uniform(random);
  for (int64_t i = 0; i < out[0].count(); ++i)
    if (random() % static_cast<uint32_t>(every) != 0) out[0].as<float>()[i] = 0;
  return out;
}

/// Against sums in f64.
bool right(const std::vector<Tensor>& in, const Tensor& y) {
  for (int64_t r = 0; r < in[0].dims()[0]; ++r)
    for (int64_t j = 0; j < 80; ++j) {
      double want = in[2].as<float>()[j];
      for (int64_t k = 0; k < 96; ++k)
        want += static_cast<double>(in[0].as<float>()[r * 96 + k]) * in[1].as<float>()[k * 80 + j];
      const float got = y.as<float>()[r * 80 + j];
      if (std::isnan(want) ? !std::isnan(got) : std::fabs(std::max(0.0, want) - got) > 1e-4)
        return false;
    }
  return true;
}

TierFaults eager() {
  TierFaults faults;
  faults.eager = true;
  return faults;
}

/// Runs on sparse inputs until they are skipped or `other` was seen.
void run_until_skipped(Layer& layer, EventKind other = EventKind::kMismatch) {
  const int64_t end = steady_ns() + 60'000'000'000;
  for (uint32_t k = 0; !layer.skips() && layer.log.count(other) == 0 && steady_ns() < end; ++k) {
    const auto in = inputs_of(5 + k % 3, 20, k);
    REQUIRE(right(in, layer.run(in)[0]));
    if (k % 16 == 0) layer.session->wait_idle(std::chrono::milliseconds(20000));
  }
}

}  // namespace

TEST_CASE("tiering/zeros: sparse inputs are skipped, and others stay right") {
  Layer layer(eager());
  run_until_skipped(layer);
  REQUIRE(layer.skips());
  CHECK(layer.log.count(EventKind::kMismatch) == 0);
  const std::string text = layer.session->explain({}, false);
  CHECK(text.find("skipping zeros of x") != std::string::npos);
  for (const int64_t rows : {1, 5, 40})
    for (const int64_t every : {1, 3, 1000}) {
      auto in = inputs_of(rows, every, 7);
      CHECK(right(in, layer.run(in)[0]));
      in[1].as<float>()[3 * 80 + 11] = std::numeric_limits<float>::infinity();
      CHECK(right(in, layer.run(in)[0]));
    }
}

TEST_CASE("tiering/zeros: dense inputs give no candidate") {
  Layer layer(eager());
  for (uint32_t k = 0; k < 4000; ++k) {
    const auto in = inputs_of(5, 1, k % 4);
    REQUIRE(right(in, layer.run(in)[0]));
  }
  layer.session->wait_idle(std::chrono::milliseconds(20000));
  for (const RegionSummary& region : layer.session->profile().regions)
    CHECK(region.name.find("zeros") == std::string::npos);
}

TEST_CASE("tiering/zeros: a warm-up's zeros teach nothing") {
  Layer layer(eager());
  for (int k = 0; k < 200; ++k)
    REQUIRE(layer.session->warm_up({{6, 96}, {96, 80}, {80}}, std::chrono::seconds(60)));
  for (const RegionSummary& region : layer.session->profile().regions)
    CHECK(region.name.find("zeros") == std::string::npos);
}

TEST_CASE("tiering/zeros: a frozen session's time depends on no values") {
  Layer layer(eager());
  run_until_skipped(layer);
  REQUIRE(layer.skips());
  layer.session->freeze();
  CHECK_FALSE(layer.skips());
  Program& program = layer.session->program();
  for (const int64_t rows : {5, 6, 7, 30}) {  // the last is new
    const auto in = inputs_of(rows, 20);
    CHECK(right(in, layer.run(in)[0]));
  }
  for (const auto& entry : program.entries())
    CHECK(program.published(*entry)->active->bound->plan->region_steps == 0);
}

TEST_CASE("tiering/zeros: a wrong kernel is found before a caller sees its result") {
  TierFaults faults = eager();
  faults.wrap = [](const Region& region,
                   std::shared_ptr<Kernel> kernel) -> std::shared_ptr<Kernel> {
    if (region.pattern != "zeros") return kernel;
    return std::make_shared<Tampered>(std::move(kernel), nullptr, region.inputs.size(), 0.25f);
  };
  Layer layer(faults);
  run_until_skipped(layer);
  CHECK(layer.log.count(EventKind::kMismatch) == 1);
  CHECK_FALSE(layer.skips());
}

TEST_CASE("tiering/zeros: strict numerics keep the library's product") {
  Config config;
  config.set_numerics(Numerics::kStrict);
  Layer layer(eager(), config);
  for (uint32_t k = 0; k < 2000; ++k) {
    const auto in = inputs_of(5, 20, k % 4);
    REQUIRE(right(in, layer.run(in)[0]));
  }
  CHECK_FALSE(layer.skips());
}

TEST_CASE("tiering/zeros: the next process skips them from its first run") {
  const ScratchDirectory scratch;
  Config config;
  config.cache_dir = scratch.path;
  {
    Layer layer(eager(), config);
    run_until_skipped(layer);
    REQUIRE(layer.skips());
    layer.session->wait_idle(std::chrono::milliseconds(20000));
  }
  {
    Config freeze = config;
    freeze.set_jit(JitMode::kFreeze);
    Layer layer({}, freeze);
    const auto in = inputs_of(6, 20);
    CHECK(right(in, layer.run(in)[0]));
    CHECK_FALSE(layer.skips());  // nobody would find it slow
  }
  Layer layer({}, config);
  const auto in = inputs_of(6, 20);
  CHECK(right(in, layer.run(in)[0]));
  layer.session->wait_idle(std::chrono::milliseconds(20000));
  CHECK(right(in, layer.run(in)[0]));
  CHECK(layer.skips());
  CHECK(layer.log.count(EventKind::kCandidate) == 1);
  CHECK(layer.log.count(EventKind::kAccepted) == 0);
}

TEST_CASE("tiering/zeros: with packed weights too, once they are packed again") {
  const ScratchDirectory scratch;
  Config config;
  config.cache_dir = scratch.path;
  const auto x = [](uint32_t seed) { return inputs_of(3 + seed % 3, 20, seed)[0]; };
  const auto check = [](const Tensor& in, const Tensor& y) {
    for (int64_t r = 0; r < in.dims()[0]; ++r)
      for (int64_t j = 0; j < kColumns; ++j) {
        double want = 0;
        for (int64_t k = 0; k < 96; ++k)
          want += (96 * j + k) % 7 == 3 ? static_cast<double>(in.as<float>()[r * 96 + k]) : 0;
        REQUIRE(std::fabs(std::max(0.0, want) - y.as<float>()[r * kColumns + j]) <= 1e-4);
      }
  };
  {
    Layer layer(eager(), config, packed_layer());
    const int64_t end = steady_ns() + 60'000'000'000;
    for (uint32_t k = 0; !layer.skips() && steady_ns() < end; ++k) {
      check(x(k), layer.run({x(k)})[0]);
      if (k % 16 == 0) layer.session->wait_idle(std::chrono::milliseconds(20000));
    }
    REQUIRE(layer.skips());
    layer.session->wait_idle(std::chrono::milliseconds(20000));
  }
  Layer layer({}, config, packed_layer());
  check(x(1), layer.run({x(1)})[0]);
  layer.session->wait_idle(std::chrono::milliseconds(20000));
  CHECK(layer.skips());
  CHECK(layer.log.count(EventKind::kAccepted) == 0);
  check(x(2), layer.run({x(2)})[0]);
}
