// Which kernels were asked for a step, and what they said.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "ir/text.h"
#include "ops/infer.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

using namespace xc;

TEST_CASE("plan/kernel_steps: a step on the reference names each kernel that said no once") {
  Graph model = parse_graph("graph g(%x: bf16[n, 64]) -> (%y) { %y = Softmax(%x) }");
  infer_types(model);
  const auto graph = std::make_shared<const Graph>(std::move(model));
  const auto plan = Planner(graph, cpu_backend(), {}).build();
  REQUIRE(plan->steps.size() == 1);
  const Step& step = *plan->steps[0];
  CHECK(step.kernel_name == "reference");
  REQUIRE_FALSE(step.refused.empty());
  std::set<std::string> names;
  for (const Refusal& refusal : step.refused) {
    CHECK_MESSAGE(names.insert(refusal.name).second, refusal.name);
    CHECK_FALSE(refusal.reason.empty());
  }
}

TEST_CASE("plan/kernel_steps: what passes put in place of an operator has kernels") {
  for (const char* text : {
           R"(graph g(%x: f32[n, 64]) -> (%y) {
  const %axes: i64[1] = [1]
  %y = ReduceLogSumExp(%x, %axes)
})",
           "graph g(%x: f32[n, 8, 9, 9]) -> (%y) { %y = LRN(%x) {size = 3} }",
           "graph g(%x: f32[n, 8, 9, 9]) -> (%y) { %y = LpPool(%x) {kernel_shape = [3, 3]} }",
           "graph g(%x: f32[n, 8, 9, 9]) -> (%y) { %y = GlobalLpPool(%x) }",
           "graph g(%x: f32[n, 8, 9, 9]) -> (%y) { %y = MeanVarianceNormalization(%x) }",
       }) {
    CAPTURE(text);
    Graph model = parse_graph(text);
    infer_types(model);
    optimise(model, {});
    const auto plan =
        Planner(std::make_shared<const Graph>(std::move(model)), cpu_backend(), {}).build();
    REQUIRE(plan->steps.size() > 0);
    for (const auto& step : plan->steps) CHECK(step->kernel_name != "reference");
  }
}
