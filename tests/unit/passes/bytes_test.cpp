// Bytes that are floats for a while: what only moves them moves bytes, what one byte decides is a
// table; the values stay.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "ir/text.h"
#include "ops/op.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"

using namespace xc;

namespace {

Graph after(const Graph& graph, std::initializer_list<const char*> passes) {
  Graph out = graph.clone();
  for (const char* pass : passes) run_pass(out, find_pass(pass), {});
  return out;
}

Graph graph_of(const std::string& text) {
  Graph graph = parse_graph(text);
  run_pass(graph, find_pass("infer-types"), {});
  return graph;
}

size_t count(const Graph& graph, std::string_view op) {
  size_t out = 0;
  for (NodeId id : graph.order()) out += graph.node(id).op->name == op ? 1 : 0;
  return out;
}

void check_same(const Graph& before, const Graph& now, double tolerance) {
  for (const int64_t extent : {1, 6, 11})
    for (const unsigned seed : {1U, 2U}) {
      const auto inputs = test::random_inputs(before, extent, seed);
      CHECK(test::difference(test::evaluate(before, inputs), test::evaluate(now, inputs),
                             tolerance) == "");
    }
}

/// Scales a and b, zero points of both types.
constexpr const char* kConstants =
    "  const %a: f32[] = 0.02\n  const %b: f32[] = 0.013\n  const %z: i8[] = 3\n"
    "  const %u: u8[] = 120\n  const %half: f32[] = 0.5\n";

std::string text_of(const std::string& body, const std::string& type = "i8",
                    const char* out = "%y") {
  return fmt::format("graph g(%x: {}[n, 4, 6]) -> ({}) {{\n{}{}}}", type, out, kConstants, body);
}

}  // namespace

TEST_CASE("passes/lift_views: what moves elements moves bytes, and equal scales cancel") {
  const Graph graph = graph_of(text_of(
      "  %f = DequantizeLinear(%x, %a, %z)\n  %t = Transpose(%f) {perm = [0, 2, 1]}\n"
      "  %q = QuantizeLinear(%t, %a, %z)\n  %g = DequantizeLinear(%q, %a, %z)\n"
      "  %s0, %s1 = Split(%g) {axis = 1, num_outputs = 2}\n  %p = QuantizeLinear(%s1, %b, %z)\n"
      "  %r = QuantizeLinear(%s0, %a, %z)\n  %y = DequantizeLinear(%p, %b, %z)\n"
      "  %y2 = DequantizeLinear(%r, %a, %z)\n",
      "i8", "%y, %y2"));
  const Graph lifted = after(graph, {"lift-views", "remove-dead", "infer-types"});
  CHECK(count(lifted, "QuantizeLinear") == 1);  // to another scale
  CHECK(count(lifted, "DequantizeLinear") == 3);
  CHECK(count(lifted, "Split") == 1);
  check_same(graph, lifted, 0);
}

TEST_CASE("passes/lift_views: several views in a row") {
  const Graph graph = graph_of(
      text_of("  const %rows: i64[2] = [-1, 12]\n  const %ends: i64[1] = [9]\n"
              "  const %starts: i64[1] = [2]\n  const %axes: i64[1] = [0]\n"
              "  %f = DequantizeLinear(%x, %a, %z)\n  %t = Transpose(%f) {perm = [0, 2, 1]}\n"
              "  %r = Reshape(%t, %rows)\n  %s = Transpose(%r) {perm = [1, 0]}\n"
              "  %c = Slice(%s, %starts, %ends, %axes)\n  %y = QuantizeLinear(%c, %a, %z)\n"));
  const Graph lifted = after(graph, {"lift-views", "remove-dead", "infer-types"});
  CHECK(count(lifted, "QuantizeLinear") == 0);
  CHECK(count(lifted, "DequantizeLinear") == 0);
  check_same(graph, lifted, 0);
}

TEST_CASE("passes/lift_views: parts that are joined are quantised one by one") {
  const Graph graph =
      graph_of(text_of("  const %shift: i8[] = 1\n  %f = DequantizeLinear(%x, %a, %z)\n"
                       "  %h = DequantizeLinear(%x, %b, %shift)\n  %c = Concat(%f, %h) {axis = 2}\n"
                       "  %y = QuantizeLinear(%c, %b, %shift)\n"));
  const Graph lifted = after(graph, {"lift-views", "remove-dead", "infer-types"});
  CHECK(count(lifted, "QuantizeLinear") == 1);  // of the part by another scale
  CHECK(count(lifted, "DequantizeLinear") == 1);
  check_same(graph, lifted, 0);
}

TEST_CASE("passes/lift_views: the largest of some is that of the bytes") {
  // Quantised behind it as in front of it, or by another scale, to another type; pads are no byte.
  struct Case {
    const char *bytes, *zero, *again, *zero_again;
    size_t left;
  };
  for (const Case& c : {Case{"%a", "%z", "%a", "%z", 1}, Case{"%a", "%u", "%a", "%u", 1},
                        Case{"%a", "%z", "%b", "%u", 2}, Case{"%minus", "%z", "%minus", "%z", 2}}) {
    const Graph graph = graph_of(text_of(
        fmt::format("  const %minus: f32[] = -0.02\n  %q = QuantizeLinear(%x, {0}, {1})\n"
                    "  %f = DequantizeLinear(%q, {0}, {1})\n"
                    "  %m = MaxPool(%f) {{kernel_shape = [3], pads = [2, 1], strides = [2]}}\n"
                    "  %p = QuantizeLinear(%m, {2}, {3})\n  %y = DequantizeLinear(%p, {2}, {3})\n",
                    c.bytes, c.zero, c.again, c.zero_again),
        "f32"));
    const Graph lifted = after(graph, {"lift-views", "remove-dead", "infer-types"});
    CHECK(count(lifted, "QuantizeLinear") == c.left);
    CHECK(count(lifted, "DequantizeLinear") == c.left);
    check_same(graph, lifted, 0);
  }
}

TEST_CASE("passes/lift_views: floats that somebody else reads stay floats") {
  for (const char* body :
       {"  %f = DequantizeLinear(%x, %a, %z)\n  %t = Transpose(%f) {perm = [0, 2, 1]}\n"
        "  %y = QuantizeLinear(%t, %a, %z)\n  %y2 = Exp(%t)\n",
        // By several scales, of which each axis has its own.
        "  const %m: f32[6] = [1, 2, 3, 4, 5, 6]\n  %f = DequantizeLinear(%x, %m) {axis = 2}\n"
        "  %t = Transpose(%f) {perm = [0, 2, 1]}\n  %y = QuantizeLinear(%t, %a, %z)\n"
        "  %y2 = Identity(%x)\n",
        // Floats of 16 bits between, which do not hold every product.
        "  %f = DequantizeLinear(%x, %a, %z) {output_dtype = 10}\n"
        "  %y = QuantizeLinear(%f, %a, %z)\n  %y2 = Identity(%x)\n",
        // The same scale, another type.
        "  %f = DequantizeLinear(%x, %a, %z)\n  %y = QuantizeLinear(%f, %a, %u)\n"
        "  %y2 = Identity(%x)\n"}) {
    const Graph graph = graph_of(text_of(body, "i8", "%y, %y2"));
    const Graph now = after(graph, {"lift-views", "remove-dead"});
    CHECK(count(now, "QuantizeLinear") == 1);
    CHECK(count(now, "DequantizeLinear") == 1);
  }
}

TEST_CASE("passes/lift_views: floats of eight bits are quantised again, which has infinities end") {
  const Graph graph = graph_of(
      "graph g(%x: f32[n]) -> (%y) {\n  const %s: f32[] = 0.5\n  const %z: f8e5m2[] = 0\n"
      "  %b = Cast(%x) {to = 19, saturate = 0}\n  %f = DequantizeLinear(%b, %s, %z)\n"
      "  %q = QuantizeLinear(%f, %s, %z)\n  %y = Cast(%q) {to = 1}\n}");
  const Graph now = after(graph, {"lift-views", "remove-dead", "infer-types"});
  const std::vector<Tensor> x{Tensor::of<float>({INFINITY, 1, -INFINITY, 1e9F})};
  CHECK(test::evaluate(now, x)[0].to_doubles() == std::vector<double>{57344, 1, -57344, 57344});
  CHECK(test::difference(test::evaluate(graph, x), test::evaluate(now, x), 0) == "");
}

TEST_CASE("passes/tabulate_bytes: what one byte decides is one lookup") {
  // x * sigmoid(x), bytes between; the float in front of it is read elsewhere too.
  const Graph graph = graph_of(text_of(
      "  %f = DequantizeLinear(%x, %a, %z)\n  %s = Sigmoid(%f)\n"
      "  %q = QuantizeLinear(%s, %b, %u)\n  %g = DequantizeLinear(%q, %b, %u)\n"
      "  %m = Mul(%f, %g)\n  %k = QuantizeLinear(%m, %a, %z)\n  %h = DequantizeLinear(%k, %a, %z)\n"
      "  %y = Add(%h, %f)\n"));
  const Graph now =
      after(graph, {"tabulate-bytes", "fold-dequantised", "remove-dead", "infer-types"});
  CHECK(count(now, "Lookup") == 1);
  CHECK(count(now, "Sigmoid") == 0);
  CHECK(count(now, "DequantizeLinear") == 2);
  CHECK(now.order().size() == 4);
  check_same(graph, now, 0);
}

TEST_CASE("passes/tabulate_bytes: a byte that is a bound or a zero point too stays one") {
  const char* const bodies[] = {
      "  const %two: i8[] = 2\n  %s = Add(%x, %two)\n  %y = Clip(%s, %x)\n",
      "  const %s: f32[] = 0.5\n  %f = DequantizeLinear(%x, %s, %x)\n"
      "  %y = QuantizeLinear(%f, %s, %x)\n"};
  // 7 + 2 is no less than 7; (7 - 7) * 0.5 is 0, which is 7 again.
  const double want[] = {9, 7};
  for (const char* dims : {"", "1"})
    for (size_t k = 0; k < 2; ++k) {
      const Graph graph =
          graph_of(fmt::format("graph g(%x: i8[{}]) -> (%y) {{\n{}}}", dims, bodies[k]));
      const Graph now = after(graph, {"tabulate-bytes", "remove-dead", "infer-types"});
      CHECK(count(now, "Lookup") == 0);
      Tensor x(DType::kI8, *dims ? Dims{1} : Dims{});
      *x.as<int8_t>() = 7;
      CHECK(test::evaluate(now, {x})[0].to_doubles() == std::vector<double>{want[k]});
    }
}

TEST_CASE("passes/tabulate_bytes: random chains of bytes give what they gave") {
  const char* const functions[] = {"Sigmoid", "Relu", "Neg", "Abs", "Tanh", "Floor", "Exp"};
  const char* const pairs[] = {"Add", "Mul", "Sub", "Max"};
  size_t tables = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    std::string body = "  %f0 = DequantizeLinear(%x, %a, %u)\n";
    std::vector<std::string> floats{"%f0"};
    for (int i = 1; i < 9; ++i) {
      const std::string from = floats[below(floats.size())], to = fmt::format("%f{}", i);
      if (below(3) == 0)
        body += fmt::format(
            "  %q{0} = QuantizeLinear({1}, %{2}, %{3})\n"
            "  {4} = DequantizeLinear(%q{0}, %{2}, %{3})\n",
            i, from, below(2) ? "a" : "b", below(2) ? "z" : "u", to);
      else if (below(2) == 0)
        body += fmt::format("  {} = {}({})\n", to, functions[below(7)], from);
      else
        body += fmt::format("  {} = {}({}, {})\n", to, pairs[below(4)], from,
                            below(3) ? floats[below(floats.size())] : "%half");
      floats.push_back(to);
    }
    const std::string out = below(2) ? floats.back() : floats[below(floats.size())];
    body += fmt::format("  %y = QuantizeLinear({}, %b, %z)\n", out);
    CAPTURE(body);
    const Graph graph = graph_of(text_of(body, "u8", below(2) ? "%y" : "%y, %f5"));
    const Graph now =
        after(graph, {"tabulate-bytes", "fold-dequantised", "remove-dead", "infer-types"});
    tables += count(now, "Lookup");
    check_same(graph, now, 0);
  }
  CHECK(tables > 250);
}
