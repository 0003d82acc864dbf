// What the fusion templates find in example graphs and the loops they write: goldens in
// tests/golden/fusion (XC_BLESS=1 rewrites).
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/backend.h"
#include "ir/text.h"
#include "loop/text.h"
#include "ops/infer.h"
#include "plan/fusion/region.h"
#include "plan/planner.h"
#include "support/golden.h"

using namespace xc;

namespace {

/// Regions, best first, with the nodes, operands and kernels of each.
std::string fused(const char* text, FusionOptions options = {}) {
  auto graph = std::make_shared<Graph>(parse_graph(text));
  infer_types(*graph);
  Planner planner(graph, cpu_backend(), {});
  (void)planner.build();
  std::string out;
  for (const Region& region : find_regions(*graph, options)) {
    out += "region " + region.pattern + ":";
    for (NodeId n : region.nodes) out += fmt::format(" {}", graph->node(n).op->name);
    out += "\n";
    const auto names = [&](const char* what, const std::vector<ValueId>& values) {
      out += what;
      for (ValueId v : values) out += " %" + graph->value(v).name;
      out += "\n";
    };
    names("  reads ", region.inputs);
    names("  writes", region.outputs);
    RegionCode code;
    const Verdict verdict = lower_region(*graph, region, planner.region_spec(region), {}, code);
    if (!verdict.yes()) out += "  cannot be lowered: " + verdict.reason + "\n";
    for (const RegionPhase& phase : code.phases) out += loop::print(phase.kernel);
    for (const RegionSum& sum : code.sums)
      out += fmt::format("sum of temp {} over the tasks into operand {}\n", sum.temp, sum.operand);
  }
  return out;
}

constexpr const char* kAttention = R"(graph attention(
    %q: f32[b, 12, s, 64], %k: f32[b, 12, s, 64], %v: f32[b, 12, s, 64]) -> (%y) {
  const %c: f32[] = 0.125
  %t = Transpose(%k) {perm = [0, 1, 3, 2]}
  %a = MatMul(%q, %t)
  %d = Mul(%a, %c)
  %p = Softmax(%d) {axis = -1}
  %y = MatMul(%p, %v)
})";

}  // namespace

TEST_CASE("plan/fusion: the loops of every template are as recorded") {
  const struct {
    const char* name;
    const char* graph;
  } cases[] = {
      {"cell", R"(graph g(%x: f32[n, 96], %b: f32[96], %s: f32[n, 1]) -> (%y, %z) {
  %u = Add(%x, %b)
  %v = Tanh(%u)
  %y = Mul(%v, %s)
  %z = Greater(%v, %s)
})"},
      {"row_layer_norm", R"(graph g(%x: f32[n, 96], %g: f32[96]) -> (%y) {
  const %axes: i64[1] = [-1]
  const %two: f32[] = 2
  const %eps: f32[] = 1e-05
  %m = ReduceMean(%x, %axes) {keepdims = 1}
  %d = Sub(%x, %m)
  %q = Pow(%d, %two)
  %v = ReduceMean(%q, %axes) {keepdims = 1}
  %e = Add(%v, %eps)
  %r = Sqrt(%e)
  %n = Div(%d, %r)
  %y = Mul(%n, %g)
})"},
      {"row_softmax", R"(graph g(%x: f32[n, m], %mask: f32[1, m]) -> (%y) {
  %a = Add(%x, %mask)
  %y = Softmax(%a) {axis = -1}
})"},
      {"aggregates", R"(graph g(%x: f32[n, 100], %y: f32[n, 100]) -> (%s, %t) {
  %a = Mul(%x, %y)
  %s = ReduceSum(%a) {keepdims = 0}
  %b = Mul(%x, %x)
  %t = ReduceSum(%b) {keepdims = 0}
})"},
      {"blocks_attention", kAttention},
      {"blocks_row_chain", R"(graph g(%x: f32[n, 150], %w: f32[n, 1], %v: f32[150, 1]) -> (%y) {
  %t = Transpose(%x) {perm = [1, 0]}
  %a = MatMul(%x, %v)
  %b = Mul(%w, %a)
  %y = MatMul(%t, %b)
})"},
      {"blocks_clusters", R"(graph g(%x: f32[n, 45], %c: f32[45, 3]) -> (%sums, %counts) {
  const %first: i64[1] = [0]
  const %last: i64[1] = [-1]
  %d = MatMul(%x, %c)
  %low = ReduceMin(%d, %last) {keepdims = 1}
  %near = Equal(%d, %low)
  %m = Cast(%near) {to = 1}
  %mt = Transpose(%m) {perm = [1, 0]}
  %sums = MatMul(%mt, %x)
  %counts = ReduceSum(%m, %first) {keepdims = 0}
})"},
  };
  for (const auto& [name, graph] : cases) {
    CAPTURE(name);
    test::check_golden(std::string("fusion/") + name + ".txt", fused(graph));
  }
}

TEST_CASE("plan/fusion: templates can be switched off, parts remain") {
  FusionOptions options;
  options.blocks = false;
  const std::string parts = fused(kAttention, options);
  CHECK(parts.find("region blocks") == std::string::npos);
  CHECK(parts.find("region row:") != std::string::npos);
  options.blocks = true;
  options.numerics = Numerics::kStrict;  // products stay with the library, bit for bit
  CHECK(fused(kAttention, options).find("region blocks") == std::string::npos);
}

TEST_CASE("plan/fusion: strict numerics fuse what rounds once, and say what they leave") {
  Graph graph = parse_graph(R"(graph g(%x: f32[n, 8], %h: f16[n, 8]) -> (%y, %z, %s) {
  const %axes: i64[1] = [1]
  %a = Add(%x, %x)
  %b = Mul(%a, %x)
  %c = Relu(%b)
  %d = Exp(%c)
  %e = Neg(%d)
  %y = HardSwish(%e)
  %s = ReduceSum(%c, %axes)
  %f = Add(%h, %h)
  %z = Mul(%f, %h)
})");
  infer_types(graph);
  FusionOptions options;
  options.numerics = Numerics::kStrict;
  FusionReport report;
  const std::vector<Region> regions = find_regions(graph, options, &report);
  REQUIRE(regions.size() == 1);
  std::vector<std::string> ops;
  for (NodeId n : regions[0].nodes) ops.emplace_back(graph.node(n).op->name);
  CHECK(ops == std::vector<std::string>{"Add", "Mul", "Relu"});
  for (const char* name : {"Exp", "HardSwish", "ReduceSum", "Add"})
    CHECK_MESSAGE(std::any_of(report.alternatives.begin(), report.alternatives.end(),
                              [&](const FusionReport::Alternative& a) {
                                return a.nodes == name && a.reason.find("strict") == 0;
                              }),
                  name);
}

TEST_CASE("plan/fusion: what does not fit the row-block template stays out of it") {
  const auto has_blocks = [](const char* text) {
    return fused(text).find("region blocks") != std::string::npos;
  };
  // One product alone.
  CHECK(
      !has_blocks("graph g(%x: f32[n, 8], %w: f32[8, 3]) -> (%y) {\n"
                  "  %a = MatMul(%x, %w)\n  %y = Softmax(%a) {axis = -1}\n}"));
  // The second product's matrix is made of the first one's rows.
  CHECK(
      !has_blocks("graph g(%x: f32[n, n], %w: f32[n, n]) -> (%y) {\n"
                  "  %a = MatMul(%x, %w)\n  %b = Relu(%a)\n  %y = MatMul(%b, %a)\n}"));
  // Few rows: their lanes would stay empty.
  CHECK(
      !has_blocks("graph g(%x: f32[4, 8], %w: f32[8, 3], %v: f32[3, 5]) -> (%y) {\n"
                  "  %a = MatMul(%x, %w)\n  %b = Relu(%a)\n  %y = MatMul(%b, %v)\n}"));
  CHECK(
      has_blocks("graph g(%x: f32[40, 8], %w: f32[8, 3], %v: f32[3, 5]) -> (%y) {\n"
                 "  %a = MatMul(%x, %w)\n  %b = Relu(%a)\n  %y = MatMul(%b, %v)\n}"));
}
