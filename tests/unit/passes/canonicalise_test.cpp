// What canonical forms must leave alone.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/text.h"
#include "ops/op.h"
#include "passes/pipeline.h"

using namespace xc;

namespace {

/// Nodes that are left of `inner` and a Reshape of it.
size_t left_of(const std::string& input, const std::string& inner, const char* last,
               const char* attrs = "") {
  Graph graph = parse_graph(fmt::format(R"(graph g(%x: f32[{}], %s: i64[2]) -> (%y) {{
  const %fixed: i64[2] = [2, 8]
  const %eights: i64[2] = [-1, 8]
  const %pairs: i64[2] = [-1, 2]
  const %none: i64[2] = [0, 3]
  const %first: i64[1] = [0]
  %r = {}
  %y = Reshape(%r, {}){}
}})",
                                        input, inner, last, attrs));
  run_pass(graph, find_pass("infer-types"), {});
  for (const char* pass : {"canonicalise", "remove-dead"}) run_pass(graph, find_pass(pass), {});
  return graph.order().size();
}

}  // namespace

TEST_CASE("passes/canonicalise: a reshape that some sizes do not fit stays in front of another") {
  CHECK(left_of("n, 4", "Reshape(%x, %fixed)", "%pairs") == 2);
  CHECK(left_of("n, 4", "Reshape(%x, %eights)", "%pairs") == 2);
  CHECK(left_of("n, 4", "Reshape(%x, %s)", "%pairs") == 2);
  CHECK(left_of("n, 4", "Squeeze(%x, %first)", "%pairs") == 2);
  CHECK(left_of("n, 0", "Squeeze(%x, %first)", "%none", " {allowzero = 1}") == 2);
  CHECK(left_of("*", "Flatten(%x)", "%pairs") == 2);  // not of a rank that is known
  // These fit always.
  CHECK(left_of("4, 4", "Reshape(%x, %fixed)", "%pairs") == 1);
  CHECK(left_of("2*n, 4", "Reshape(%x, %eights)", "%pairs") == 1);
  CHECK(left_of("1, n, 4", "Squeeze(%x, %first)", "%pairs") == 1);
  CHECK(left_of("n, 4", "Unsqueeze(%x, %first)", "%pairs") == 1);
  CHECK(left_of("n, m, 4", "Flatten(%x)", "%pairs") == 1);
}

namespace {

/// Nodes that are left of a graph when the pass has run.
size_t left_by(const char* pass, const std::string& text) {
  Graph graph = parse_graph(text);
  for (const char* name : {"infer-types", pass, "remove-dead"})
    run_pass(graph, find_pass(name), {});
  return graph.order().size();
}

}  // namespace

TEST_CASE("passes/canonicalise: an operand that a mask never chooses still has to fit") {
  const auto left = [](const char* dropped, const char* where) {
    return left_by("canonicalise", fmt::format(R"(graph g(%x: f32[2, m], %y: f32[{}]) -> (%r) {{
  const %never: bool[1] = [false]
  const %always: bool[1] = [true]
  %z = {}
  %r = Relu(%z)
}})",
                                               dropped, where));
  };
  const char *second = "Where(%never, %y, %x)", *first = "Where(%always, %x, %y)";
  for (const char* where : {first, second}) {
    CHECK(left("n, m", where) == 2);  // n is 2 or 1
    CHECK(left("*", where) == 2);
    CHECK(left("2, m", where) == 1);
    CHECK(left("1, m", where) == 1);
    CHECK(left("m", where) == 1);
    CHECK(left("", where) == 1);
  }
}

TEST_CASE("passes/canonicalise: a zero is subtracted for nothing where none of them is negative") {
  const auto left = [](const char* zeros) {
    return left_by("canonicalise", fmt::format(R"(graph g(%x: f32[n, 2]) -> (%r) {{
  const %k: f32[2] = [{}]
  %d = Sub(%x, %k)
  %r = Reciprocal(%d)
}})",
                                               zeros));
  };
  CHECK(left("0, 0") == 1);
  CHECK(left("0.0, -0.0") == 2);  // -0 - -0 is 0, whose reciprocal is another infinity
  CHECK(left("-0.0, 0.0") == 2);
}

TEST_CASE("passes/group_norms: a reshape that some sizes do not fit is no group norm's") {
  const auto left = [](const char* h, const char* shape) {
    return left_by("group-norms", fmt::format(R"(graph g(%x: f32[2, 6, {}, 4]) -> (%y) {{
  const %s: f32[2] = [1, 2]
  const %b: f32[2] = [0, 0.5]
  const %to: i64[3] = {}
  %parts = Reshape(%x, %to)
  %norm = InstanceNormalization(%parts, %s, %b)
  %shape = Shape(%x)
  %y = Reshape(%norm, %shape)
}})",
                                              h, shape));
  };
  CHECK(left("h", "[2, 2, 48]") == 4);
  CHECK(left("h", "[2, 2, -1]") == 1);
  CHECK(left("4", "[2, 2, 48]") == 1);
}
