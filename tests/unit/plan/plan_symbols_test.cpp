#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "plan/planner.h"

using namespace xc;

TEST_CASE("plan/plan_symbols: an input whose sizes no input gives by themselves is named") {
  Graph graph = parse_graph("graph g(%x: f32[n], %y: f32[n, 2*m]) -> (%z) { %z = Relu(%y) }");
  infer_types(graph);
  const auto shared = std::make_shared<const Graph>(std::move(graph));
  try {
    Planner(shared, cpu_backend(), {}).build();
    FAIL_CHECK("planned");
  } catch (const Error& error) {
    CHECK(error.status() == Status::kInvalidModel);
    CHECK(error.message().find("'y'") != std::string::npos);
  }
}
