#include "tier/comparison.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ops/infer.h"
#include "support/sessions.h"

namespace {

using namespace xc;
using namespace xc::testing;

/// What differs when every other element of the only output is `off` more than the operators give.
std::string difference(const char* text, const std::vector<Tensor>& inputs, float off) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  const Expected expected = evaluate_region(graph, inputs);
  REQUIRE(expected.outputs.size() == 1);
  Tensor got = expected.outputs[0].clone();
  for (int64_t i = 0; i < got.count(); i += 2) got.as<float>()[i] += off;
  return compare_region(graph, inputs, expected, {got});
}

}  // namespace

TEST_CASE("tier/comparison: what is left where a LogSumExp gives nothing but rounding") {
  constexpr const char* kText = R"(graph g(%x: f32[n, 8]) -> (%y) {
  const %axes: i64[1] = [1]
  %l = LogSoftmax(%x) {axis = 1}
  %m = ReduceMax(%l, %axes) {keepdims = 1}
  %d = Sub(%l, %m)
  %e = Exp(%d)
  %s = ReduceSum(%e, %axes) {keepdims = 1}
  %g = Log(%s)
  %y = Add(%g, %m)
})";
  for (const double scale : {0.0, 1.0}) {
    const Tensor x = ramp({96, 8}, scale, 0.1);
    CHECK(difference(kText, {x}, 0).empty());
    CHECK(difference(kText, {x}, 2e-7f).empty());
    CHECK_FALSE(difference(kText, {x}, 1e-3f).empty());
    CHECK_FALSE(difference(kText, {x}, 0.25f).empty());
  }
}

TEST_CASE("tier/comparison: the mean of a row of one value may be a unit in the last place off") {
  // The first row is the constant's, whatever the inputs are.
  constexpr const char* kText = R"(graph g(%x: f32[n, 7]) -> (%y) {
  const %c: f32[] = 1.7
  const %limit: f32[] = 1000
  const %scale: f32[7] = splat 1
  const %bias: f32[7] = splat -0.28
  %some = Less(%x, %limit)
  %v = Where(%some, %c, %x)
  %y = LayerNormalization(%v, %scale, %bias)
})";
  const Tensor x = ramp({30, 7}, 1, 0);
  CHECK(difference(kText, {x}, 0).empty());
  CHECK(difference(kText, {x}, 9e-5f).empty());
  CHECK_FALSE(difference(kText, {x}, 0.05f).empty());
  // Where rows differ there is no reason for it.
  const Tensor far = ramp({30, 7}, 100, 0);
  for (int64_t i = 0; i < far.count(); ++i) far.as<float>()[i] += 2000;
  CHECK(difference(kText, {far}, 0).empty());
  CHECK_FALSE(difference(kText, {far}, 1e-3f).empty());
}
