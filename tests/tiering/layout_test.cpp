// Channels-last values: where they are chosen, and that results do not depend on it. Generated
// convolution networks run with and without layouts, fused and not, against the reference kernels.
#include <doctest/doctest.h>

#include "backends/backend.h"
#include "conv_network.h"
#include "ops/infer.h"
#include "plan/planner.h"
#include "runtime/engine.h"
#include "support.h"
#include "support/worst.h"
#include "tier/engine_factory.h"
#include "tier/region_kernel.h"

namespace {

using namespace xc;
using namespace xc::testing;

Config mode(JitMode jit) {
  Config config;
  config.jit = static_cast<int64_t>(jit);
  return config;
}

/// Whether the base plan holds a value of this name in another order than row-major.
bool channels_last(Session& session, const std::string& name) {
  const Plan& plan = *session.program().base_plan();
  for (const PlanValue& value : plan.values) {
    if (value.id == kNone || plan.graph->value(value.id).name != name) continue;
    Operand operand;
    operand.dims = value.dims;
    operand.strides = value.strides;
    return !operand.contiguous();
  }
  FAIL("no value " << name);
  return false;
}

}  // namespace

TEST_CASE("tiering/layout: convolutions pass channels-last values on, ends stay row-major") {
  std::string w1, w2;
  for (int k = 0; k < 16 * 8 * 9; ++k) w1 += (k ? ", 0.1" : "0.1");
  for (int k = 0; k < 16 * 16; ++k) w2 += (k ? ", 0.1" : "0.1");
  const std::string text =
      "graph g(%x: f32[n, 8, 10, 10]) -> (%y, %f) {\n"
      "  const %a: f32[16, 8, 3, 3] = [" +
      w1 + "]\n  const %b: f32[16, 16, 1, 1] = [" + w2 +
      "]\n"
      "  %c = Conv(%x, %a) {kernel_shape = [3, 3]}\n"
      "  %t = Erf(%c)\n  %u = Mul(%t, %c)\n"
      "  %y = Conv(%u, %b) {kernel_shape = [1, 1]}\n"
      "  %p = Conv(%t, %b) {kernel_shape = [1, 1]}\n"
      "  %f = Flatten(%p) {axis = 1}\n}\n";
  auto session = session_of(text, mode(JitMode::kOff));
  CHECK(channels_last(*session, "c"));
  CHECK(channels_last(*session, "u"));
  CHECK(!channels_last(*session, "y"));  // a graph output is written in place
  CHECK(!channels_last(*session, "p"));  // nobody behind it reads channels-last
  Config off = mode(JitMode::kOff);
  off.layouts = 1;
  CHECK(!channels_last(*session_of(text, off), "c"));
}

TEST_CASE("tiering/layout: results in another order may suit a kernel refused before") {
  auto session = testing::session_of(R"(graph net(%x: f32[1, 8, 6, 6]) -> (%y) {
  const %w: f32[16, 8, 3, 3] = splat 0.1
  const %v: f32[4, 16, 1, 1] = splat 0.2
  const %scale: f32[] = 0.5
  const %zero: u8[] = 7
  %c = Conv(%x, %w)
  %q = QuantizeLinear(%c, %scale, %zero)
  %d = DequantizeLinear(%q, %scale, %zero)
  %y = Conv(%d, %v)
})",
                                     mode(JitMode::kOff));
  REQUIRE(channels_last(*session, "q"));
  const Plan& plan = *session->program().base_plan();
  const auto quantize = std::find_if(
      plan.steps.begin(), plan.steps.end(),
      [](const std::shared_ptr<const Step>& s) { return s->spec.op->name == "QuantizeLinear"; });
  REQUIRE(quantize != plan.steps.end());
  CHECK((*quantize)->kernel_name == "xc.quantize_bytes");
}

TEST_CASE("tiering/layout: generated networks give the same with and without layouts") {
  int partly = 0;  // of which a Concat copies some of its parts and finds the others in place
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const ConvNetwork network(seed, seed > 60);
    CAPTURE(seed);
    CAPTURE(network.text());
    Config reference = mode(JitMode::kOff);
    reference.kernels = 1;
    Config row_major = mode(JitMode::kOff);
    row_major.layouts = 1;
    Config threads = mode(JitMode::kOff);
    threads.threads = 3;
    const auto oracle = session_of(network.text(), reference);
    const auto base = session_of(network.text(), mode(JitMode::kOff));
    const Plan& plan = *base->program().base_plan();
    partly += std::any_of(plan.steps.begin(), plan.steps.end(), [&](const auto& step) {
      return std::find(plan.in_place.begin(), plan.in_place.end(), step->nodes.front()) !=
             plan.in_place.end();
    });
    Config bands = threads;
    bands.bands = 2;
    std::vector<std::shared_ptr<Session>> others{session_of(network.text(), row_major),
                                                 session_of(network.text(), threads),
                                                 session_of(network.text(), bands)};
#if XC_HAVE_JIT
    others.push_back(session_of(network.text(), mode(JitMode::kSync)));
#endif
    for (int64_t batch : {1, 3}) {
      const std::vector<Tensor> in{
          ramp(network.input(batch), 1.0, 0.1 * static_cast<double>(seed))};
      const std::vector<double> want = run(*oracle, in)[0].to_doubles();
      double largest = 1e-3;
      for (double v : want) largest = std::max(largest, std::fabs(v));
      const auto agrees = [&](Session& session) {
        const std::vector<double> have = run(session, in)[0].to_doubles();
        if (have.size() != want.size()) return false;
        for (size_t i = 0; i < want.size(); ++i)
          if (!(std::fabs(want[i] - have[i]) <= 1e-4 * largest)) return false;
        return true;
      };
      CHECK(agrees(*base));
      for (const auto& other : others) CHECK(agrees(*other));
    }
  }
  CHECK(partly > 5);
}

namespace {

/// Runs a session's latest signature by a plan in which everything fuses but the first `kept` nodes
/// of what a library's kernels absorb, and gives how many regions that plan has.
uint32_t split_epilogues(Session& session, size_t kept) {
  Program& program = session.program();
  FusionOptions options;
  options.blocks = false;
  options.in_place = program.base_plan()->in_place;
  for (const auto& step : program.base_plan()->steps)
    if (step->nodes.size() > 1)
      options.taken.insert(
          options.taken.end(), step->nodes.begin(),
          step->nodes.begin() + static_cast<ptrdiff_t>(std::min(kept, step->nodes.size())));
  const auto compiler = create_interpreting_compiler();
  std::vector<PlannedRegion> planned;
  for (const Region& region : find_regions(program.graph(), options)) {
    RegionCode code;
    if (!lower_region(program.graph(), region, program.planner().region_spec(region),
                      compiler->target(), code)
             .yes())
      continue;
    std::vector<std::shared_ptr<const PhaseCode>> phases;
    for (const RegionPhase& phase : code.phases) phases.push_back(compiler->compile(phase.kernel));
    planned.push_back({region,
                       std::make_shared<RegionKernel>(std::move(code), std::move(phases),
                                                      region.inputs.size() + region.outputs.size()),
                       "fused"});
  }
  std::vector<uint32_t> refused;
  const auto plan = program.planner().build(planned, &refused);
  CHECK(refused.empty());  // values that were inside a step lie as they would as its result
  const auto entry = program.entries().front();
  auto published = std::make_shared<Published>();
  published->active = std::make_shared<Version>(bind_segment(plan, 0, entry->symbols, {}));
  program.publish(*entry, std::move(published));
  return plan->region_steps;
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  REQUIRE(a.size() == b.size());
  for (size_t k = 0; k < a.size(); ++k) {
    const auto x = a[k].to_doubles(), y = b[k].to_doubles();
    REQUIRE(x.size() == y.size());
    double largest = 1e-3;
    for (double v : x) largest = std::max(largest, std::fabs(v));
    for (size_t i = 0; i < x.size(); ++i)
      worst = test::worst_of(worst, std::fabs(x[i] - y[i]) / largest);
  }
  return worst;
}

/// A convolution whose epilogue ends in a value that is reduced and convolved again.
std::string epilogue_network() {
  std::string w1, w2;
  for (int k = 0; k < 16 * 8 * 9; ++k) w1 += fmt::format("{}{}", k ? ", " : "", std::sin(k) * 0.2);
  for (int k = 0; k < 16 * 16; ++k) w2 += fmt::format("{}{}", k ? ", " : "", std::cos(k) * 0.2);
  return "graph g(%x: f32[n, 8, 10, 10]) -> (%m, %f) {\n"
         "  const %axes: i64[2] = [-2, -1]\n"
         "  const %a: f32[16, 8, 3, 3] = [" +
         w1 + "]\n  const %b: f32[16, 16, 1, 1] = [" + w2 +
         "]\n  %r = Conv(%x, %a) {kernel_shape = [3, 3]}\n"
         "  %t = Tanh(%r)\n"
         "  %c = Conv(%t, %b) {kernel_shape = [1, 1]}\n"
         "  %s = Add(%c, %t)\n"
         "  %u = Relu(%s)\n"
         "  %m = ReduceMean(%u, %axes) {keepdims = 1}\n"
         "  %d = Conv(%u, %b) {kernel_shape = [1, 1]}\n"
         "  %e = Sigmoid(%d)\n"
         "  %g = Mul(%e, %u)\n"
         "  %f = Flatten(%g) {axis = 1}\n}\n";
}

}  // namespace

TEST_CASE("tiering/layout: an epilogue split anywhere gives the same values") {
  std::vector<std::string> texts{epilogue_network()};
  std::vector<Dims> inputs{{2, 8, 10, 10}};
  for (uint64_t seed = 101; seed <= 116; ++seed) {
    const ConvNetwork network(seed);
    texts.push_back(network.text());
    inputs.push_back(network.input(2));
  }
  uint32_t regions = 0;
  for (size_t k = 0; k < texts.size(); ++k) {
    CAPTURE(texts[k]);
    Config reference = mode(JitMode::kOff);
    reference.kernels = 1;
    const std::vector<Tensor> in{ramp(inputs[k], 1.0, 0.3)};
    const auto want = run(*session_of(texts[k], reference), in);
    const auto session = session_of(texts[k], mode(JitMode::kOff));
    CHECK(largest_difference(want, run(*session, in)) <= 1e-4);
    for (size_t kept = 0; kept <= 3; ++kept) {
      CAPTURE(kept);
      regions += split_epilogues(*session, kept);
      CHECK(largest_difference(want, run(*session, in)) <= 1e-4);
    }
  }
  CHECK(regions >= texts.size());
}

TEST_CASE("tiering/layout: a plan refuses a region that was made for values lying otherwise") {
  auto graph = std::make_shared<Graph>(parse_graph(epilogue_network()));
  infer_types(*graph);
  FusionOptions options;
  Planner planner(graph, cpu_backend(), {});
  const auto regions = find_regions(*graph, options);
  REQUIRE(!regions.empty());
  // Asked before the base plan decides how values lie: row-major, all of them.
  std::vector<PlannedRegion> planned;
  for (const Region& region : regions) {
    (void)planner.region_spec(region);
    planned.push_back({region, nullptr, "never run"});
  }
  (void)planner.build();
  std::vector<uint32_t> refused;
  const auto plan = planner.build(planned, &refused);
  CHECK(refused.size() >= 1);
  CHECK(plan->region_steps + refused.size() == planned.size());
}
