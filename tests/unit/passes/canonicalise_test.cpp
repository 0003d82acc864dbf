// What canonical forms must leave alone.
// Labels: asan
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
