#include "ir/fingerprint.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/text.h"

using namespace xc;

namespace {

Hash128 of(const std::string& text) {
  return fingerprint(parse_graph(text));
}

const std::string kBase = R"(graph a(%x: f32[n, 8]) -> (%y) {
  const %w: f32[8, 8] = splat 2
  %t: f32[n, 8] = MatMul(%x, %w)
  %y: f32[n, 8] = Softmax(%t) {axis = -1}
})";

}  // namespace

TEST_CASE("ir/fingerprint: renaming values, graph and symbols changes nothing") {
  CHECK(of(kBase) == of(R"(graph b(%in: f32[batch, 8]) -> (%out) {
  const %k: f32[8, 8] = splat 2
  %u: f32[batch, 8] = MatMul(%in, %k) "layer"
  %out: f32[batch, 8] = Softmax(%u) {axis = -1}
})"));
}

TEST_CASE("ir/fingerprint: ops, attributes, wiring, dims and small constants change it") {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kBase;
    text.replace(text.find(from), from.size(), to);
    return of(text);
  };
  CHECK(changed("axis = -1", "axis = 1") != of(kBase));
  CHECK(changed("{axis = -1}", "") != of(kBase));
  CHECK(changed("Softmax(%t)", "Softmax(%x)") != of(kBase));
  CHECK(changed("-> (%y)", "-> (%t)") != of(kBase));
  CHECK(changed("%x: f32[n, 8]", "%x: f32[4, 8]") != of(kBase));
  CHECK(changed("splat 2", "splat 3") != of(kBase));
  CHECK(changed("%w: f32[8, 8]", "%w: f32[8, 16]") != of(kBase));
}

TEST_CASE("ir/fingerprint: large constants count by type only") {
  const std::string large = R"(graph a(%x: f32[n, 64]) -> (%t) {
  const %w: f32[64, 64] = splat 2
  %t: f32[n, 64] = MatMul(%x, %w)
})";
  std::string other = large;
  other.replace(other.find("splat 2"), 7, "splat 3");
  CHECK(of(large) == of(other));
}

TEST_CASE("ir/fingerprint: the same layer twice in a graph is the same region") {
  const Graph g = parse_graph(R"(graph a(%x: f32[n, 8]) -> (%d) {
  const %v: f32[8, 8] = splat 1
  const %w: f32[8, 8] = splat 1
  %a: f32[n, 8] = MatMul(%x, %v)
  %b: f32[n, 8] = Softmax(%a)
  %c: f32[n, 8] = MatMul(%b, %w)
  %d: f32[n, 8] = Softmax(%c)
})");
  const std::vector<NodeId> first{0, 1}, second{2, 3}, reversed{3, 2}, mixed{1, 2}, one{0};
  CHECK(fingerprint(g, first) == fingerprint(g, second));
  CHECK(fingerprint(g, second) == fingerprint(g, reversed));
  CHECK(fingerprint(g, first) != fingerprint(g, mixed));
  CHECK(fingerprint(g, first) != fingerprint(g, one));
}
