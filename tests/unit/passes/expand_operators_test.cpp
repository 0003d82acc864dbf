// What operators are put into before kernels are chosen: the same values.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "ir/text.h"
#include "ops/op.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"

using namespace xc;

namespace {

/// A Conv of `channels` with `results` each, behind a Relu or not.
std::string depthwise(int channels, int results, std::string_view x, std::string_view attrs,
                      unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> weights(static_cast<size_t>(channels * results) * 9);
  for (int& w : weights) w = static_cast<int>(random() % 9) - 4;
  return fmt::format(
      "graph g(%x: f32[n, {0}, h, 12]) -> (%y) {{\n  const %w: f32[{1}, 1, 3, 3] = [{2}]\n"
      "  %r = Relu(%x)\n  %y = Conv({3}, %w) {{group = {0}{4}}}\n}}",
      channels, channels * results, fmt::join(weights, ", "), x, attrs);
}

int64_t groups_after(Graph& graph) {
  for (const char* pass : {"infer-types", "expand-operators", "remove-dead", "infer-types"})
    run_pass(graph, find_pass(pass), {});
  const auto order = graph.order();
  const auto conv = std::find_if(order.begin(), order.end(),
                                 [&](NodeId id) { return graph.node(id).op->name == "Conv"; });
  REQUIRE(conv != order.end());
  return graph.node(*conv).attrs.get_int("group", 1);
}

}  // namespace

TEST_CASE("passes/expand_operators: several results per channel are of copied channels") {
  const struct {
    int channels, results;
    std::string_view x, attrs;
    int64_t groups;
  } cases[] = {{6, 2, "%r", "", 12},
               {3, 5, "%r", ", strides = [2, 1], pads = [1, 0, 1, 2]", 15},
               {4, 2, "%x", ", strides = [2, 2]", 8},
               {4, 2, "%x", "", 4},  // as it lies
               {4, 1, "%r", ", dilations = [2, 2]", 4}};
  for (const auto& [channels, results, x, attrs, groups] : cases) {
    CAPTURE(attrs);
    const std::string text = depthwise(channels, results, x, attrs, 5);
    Graph graph = parse_graph(text);
    run_pass(graph, find_pass("infer-types"), {});
    Graph after = graph.clone();
    CHECK(groups_after(after) == groups);
    for (const int64_t extent : {7, 10}) {
      const auto inputs = test::random_inputs(graph, extent, 3);
      CHECK(test::difference(test::evaluate(graph, inputs), test::evaluate(after, inputs), 1e-6) ==
            "");
    }
  }
}
