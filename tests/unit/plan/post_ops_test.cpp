#include "plan/post_ops.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/infer.h"

using namespace xc;

TEST_CASE("plan/post_ops: an operator of many operands ends the chain before a kernel is asked") {
  // Of scalars, which a post-op could keep as constants. With as many makers as operands, looking
  // at all of them for each maker would take quadratic time.
  for (const auto& [others, length] :
       std::vector<std::pair<std::string, size_t>>{{"%s, %s", 2}, {"%s, %s, %s, %s, %s", 1}}) {
    Graph graph = parse_graph(
        "graph g(%x: f32[n]) -> (%y) {\n  const %s: f32[] = 1\n"
        "  %r = Relu(%x)\n  %y = Sum(%r, " +
        others + ")\n}");
    infer_types(graph);
    const Unit unit = with_post_ops(
        graph, graph.users(), graph.order()[0], [](NodeId) { return false; },
        [](const Unit&) { return true; });
    CHECK(unit.nodes.size() == length);
  }
}
