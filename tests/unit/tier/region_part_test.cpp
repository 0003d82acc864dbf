#include "tier/region_part.h"

#include <doctest/doctest.h>

#include <cstring>

#include "ir/text.h"
#include "ops/infer.h"
#include "support/sessions.h"
#include "tier/comparison.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// Elements of the largest result at the sizes of these graphs, and what is to be left of them.
constexpr int64_t kElements = 3 * 500 * 400, kMost = kElements / 4;

Graph graph_of(const std::string& text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return graph;
}

std::optional<RegionPart> part_of(const std::string& text) {
  return RegionPart::of(graph_of(text), kElements, kMost);
}

/// What operators make of a part is that part of what they make of all.
void check_part(const std::string& text, const std::vector<Tensor>& inputs, const Dims& dims) {
  const Graph graph = graph_of(text);
  const auto part = part_of(text);
  REQUIRE(part);
  const auto want = part->of_outputs(evaluate_region(graph, inputs).outputs);
  const auto have = evaluate_region(part->graph(), part->of_inputs(inputs)).outputs;
  REQUIRE(want.size() == have.size());
  CHECK(have[0].dims() == dims);
  for (size_t k = 0; k < want.size(); ++k) {
    REQUIRE(want[k].dims() == have[k].dims());
    CHECK(std::memcmp(want[k].data(), have[k].data(),
                      static_cast<size_t>(want[k].count()) * sizeof(float)) == 0);
  }
}

TEST_CASE("tier/region_part: rows of attention, whose keys and values are whole") {
  check_part(R"(graph g(%q: f32[3, 500, 8], %k: f32[3, 400, 8], %v: f32[3, 400, 8],
                        %bias: f32[500, 400]) -> (%y) {
  %kt = Transpose(%k) {perm = [0, 2, 1]}
  %s = MatMul(%q, %kt)
  %b = Add(%s, %bias)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})",
             {ramp({3, 500, 8}, 3, 0.1), ramp({3, 400, 8}, 5, 0.2), ramp({3, 400, 8}, 7, 0.3),
              ramp({500, 400}, 1, 0.1)},
             {3, 192, 8});
}

TEST_CASE("tier/region_part: the axis that leaves the least, broadcast operands and constants") {
  std::string numbers;
  for (int i = 0; i < 600; ++i) numbers += (i ? ", " : "") + std::to_string(i);
  check_part(
      "graph g(%x: f32[600, 3, 300], %row: f32[300]) -> (%y, %z) {\n  const %c: f32[600, 1, 1] = "
      "[" +
          numbers + "]\n" + R"(  %t = Mul(%x, %c)
  %y = Add(%t, %row)
  %z = Neg(%t)
})",
      {ramp({600, 3, 300}, 3, 0.1), ramp({300}, 1, 0.7)}, {192, 3, 300});
}

TEST_CASE("tier/region_part: what needs all of an axis is not cut along it") {
  // Columns are added up, so rows are taken; and where both are, there is no part.
  check_part(R"(graph g(%x: f32[1500, 400]) -> (%y) {
  %y = Softmax(%x) {axis = 1}
})",
             {ramp({1500, 400}, 3, 0.1)}, {375 / 3 * 3, 400});
  CHECK_FALSE(part_of(R"(graph g(%x: f32[1500, 400]) -> (%y) {
  %a = Softmax(%x) {axis = 0}
  %y = Softmax(%a) {axis = 1}
})"));
  // A value that is wanted whole and in part.
  CHECK_FALSE(part_of(R"(graph g(%x: f32[1, 700, 700]) -> (%y) {
  %y = MatMul(%x, %x)
})"));
  // Sizes that are not known, and results that are small.
  CHECK_FALSE(part_of("graph g(%x: f32[n, 400]) -> (%y) {\n  %y = Neg(%x)\n}"));
  CHECK_FALSE(RegionPart::of(graph_of("graph g(%x: f32[900, 400]) -> (%y) {\n  %y = Neg(%x)\n}"),
                             kMost, kMost));
}

}  // namespace
