// Regions for some of their sizes: what is put in, what guards it, what the loops become.
#include "plan/fusion/specialise.h"

#include <doctest/doctest.h>

#include "backends/backend.h"
#include "base/clock.h"
#include "ir/text.h"
#include "loop/text.h"
#include "ops/infer.h"
#include "plan/planner.h"

using namespace xc;

namespace {

constexpr const char* kMasked = R"(graph g(%x: f32[b, n, s], %m: f32[s]) -> (%y) {
  %t = Add(%x, %m)
  %y = Softmax(%t) {axis = -1}
})";

struct Planned {
  std::shared_ptr<Graph> graph;
  Region region;
  StepSpec spec;

  explicit Planned(const char* text) : graph(std::make_shared<Graph>(parse_graph(text))) {
    infer_types(*graph);
    Planner planner(graph, cpu_backend(), {});
    (void)planner.build();
    region = find_regions(*graph, {}).at(0);
    spec = planner.region_spec(region);
    region.identity = region_identity(*graph, region, spec);
  }
  SpecialRegion with(const std::vector<SizeFact>& facts) const {
    return specialise(*graph, region, spec, facts);
  }
};

std::string loops(const Graph& graph, const Region& region, const StepSpec& spec) {
  RegionCode code;
  const Verdict verdict = lower_region(graph, region, spec, {}, code);
  REQUIRE_MESSAGE(verdict.yes(), verdict.reason);
  std::string out;
  for (const RegionPhase& phase : code.phases) out += loop::print(phase.kernel);
  return out;
}

/// Operands of kMasked with these sizes: x, m, y.
bool holds(const SizeGuard& guard, const Dims& x) {
  const Dims m{x.at(2)}, strides(3, 0);
  const std::array<BoundOperand, 2> in{BoundOperand{x, strides}, BoundOperand{m, strides}};
  const std::array<BoundOperand, 1> out{BoundOperand{x, strides}};
  return guard.holds({in, out, false});
}

}  // namespace

TEST_CASE("plan/specialise: a value and a divisor are put into the loops and guarded") {
  const Planned planned(kMasked);
  const std::string general = loops(*planned.graph, planned.region, planned.spec);
  const SpecialRegion exact = planned.with({{"s", 48, 1}});
  CHECK(to_text(exact.facts) == "s=48");
  const std::string of_48 = loops(exact.graph, exact.region, exact.spec);
  CHECK(of_48.find("0 .. 48 ") != std::string::npos);
  CHECK(general.find("0 .. 48 ") == std::string::npos);
  CHECK(holds(exact.guard, {3, 5, 48}));
  CHECK(!holds(exact.guard, {3, 5, 47}));

  const SpecialRegion multiple = planned.with({{"s", -1, 16}});
  CHECK(to_text(multiple.facts) == "s%16=0");
  const std::string of_16 = loops(multiple.graph, multiple.region, multiple.spec);
  CHECK_MESSAGE(of_16.find("* 16)") != std::string::npos, of_16);
  CHECK(holds(multiple.guard, {3, 5, 48}));
  CHECK(holds(multiple.guard, {3, 5, 0}));
  CHECK(!holds(multiple.guard, {3, 5, 47}));

  const SpecialRegion both = planned.with({{"b", 3, 1}, {"s", -1, 16}});
  CHECK(holds(both.guard, {3, 5, 32}));
  CHECK(!holds(both.guard, {2, 5, 32}));
  CHECK(exact.region.identity != multiple.region.identity);
  CHECK(exact.region.identity != planned.region.identity);
  CHECK(exact.region.identity == planned.with({{"s", 48, 1}}).region.identity);
}

TEST_CASE("plan/specialise: what no operand shows by itself is not taken for granted") {
  const Planned planned(kMasked);
  const SpecialRegion special = planned.with({{"elsewhere", 7, 1}});
  CHECK(special.facts.empty());
  CHECK(special.guard.checks.empty());
  CHECK(loops(special.graph, special.region, special.spec) ==
        loops(*planned.graph, planned.region, planned.spec));
}

TEST_CASE("plan/specialise: asking eight guards") {
  const Planned planned(kMasked);
  std::vector<SizeGuard> guards;
  for (int64_t s = 1; s <= 8; ++s) guards.push_back(planned.with({{"s", s, 1}}).guard);
  const Dims x{3, 5, 8}, m{8}, strides(3, 0);
  const std::array<BoundOperand, 2> in{BoundOperand{x, strides}, BoundOperand{m, strides}};
  const std::array<BoundOperand, 1> out{BoundOperand{x, strides}};
  constexpr int kTimes = 20000;
  int held = 0;
  const int64_t begin = steady_ns();
  for (int k = 0; k < kTimes; ++k)
    for (const SizeGuard& guard : guards) held += guard.holds({in, out, false});
  const double each = static_cast<double>(steady_ns() - begin) / kTimes;
  MESSAGE(each, " ns for eight guards, the last holds");
  CHECK(held == kTimes);
}
