// What the fusion templates find in example graphs and the loops they write: goldens in
// tests/golden/fusion (XC_BLESS=1 rewrites).
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/backend.h"
#include "base/cpu_info.h"
#include "ir/text.h"
#include "loop/kernel.h"
#include "loop/text.h"
#include "ops/infer.h"
#include "plan/fusion/region.h"
#include "plan/planner.h"
#include "support/golden.h"

using namespace xc;

namespace {

/// Regions, best first, with the nodes, operands and kernels of each.
std::string fused(const char* text, FusionOptions options = {},
                  const loop::TargetWidth& target = {}) {
  auto graph = std::make_shared<Graph>(parse_graph(text));
  infer_types(*graph);
  Planner planner(graph, cpu_backend(), {});
  options.in_place = planner.build()->in_place;
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
    const Verdict verdict = lower_region(*graph, region, planner.region_spec(region), target, code);
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
      {"row_softmax_channels", R"(graph g(%x: f32[n, 21, h, w], %s: f32[21, 1, 1]) -> (%y) {
  %a = Mul(%x, %s)
  %y = Softmax(%a) {axis = 1}
})"},
      {"row_weighted_sum", R"(graph g(%x: f32[n, t, 64], %w: f32[n, t, 1]) -> (%s, %m) {
  const %axes: i64[1] = [1]
  %a = Mul(%x, %w)
  %s = ReduceSum(%a, %axes) {keepdims = 0}
  %m = ReduceMax(%a, %axes) {keepdims = 1}
})"},
      {"aggregates", R"(graph g(%x: f32[n, 100], %y: f32[n, 100]) -> (%s, %t) {
  %a = Mul(%x, %y)
  %s = ReduceSum(%a) {keepdims = 0}
  %b = Mul(%x, %x)
  %t = ReduceSum(%b) {keepdims = 0}
})"},
      {"row_embeddings", R"(graph g(%ids: i64[b, s], %kinds: i32[b, s], %words: f32[1000, 96],
    %types: f32[2, 96], %places: f32[64, 96], %at: i64[1, s], %g: f32[96], %c: f32[96]) -> (%y) {
  %w = Gather(%words, %ids) {axis = 0}
  %t = Gather(%types, %kinds) {axis = 0}
  %p = Gather(%places, %at) {axis = 0}
  %u = Add(%w, %t)
  %v = Add(%u, %p)
  %y = LayerNormalization(%v, %g, %c) {axis = -1}
})"},
      {"cell_gather_nd", R"(graph g(%x: f16[n, m, 8], %i: i64[k, 2], %s: f16[8]) -> (%y) {
  %a = GatherND(%x, %i)
  %y = Mul(%a, %s)
})"},
      {"cell_gather_elements", R"(graph g(%x: f32[n, m], %i: i32[n, k]) -> (%y) {
  %a = GatherElements(%x, %i) {axis = 1}
  %y = Exp(%a)
})"},
      {"cell_concat", R"(graph g(%x: f32[b, n, h, w], %y: f32[b, 3, h, w], %z: f32[b, m, h, w])
    -> (%r, %c) {
  %c = Concat(%x, %y, %z) {axis = 1}
  %r = Sigmoid(%c)
})"},
      {"cell_concat_rows", R"(graph g(%x: f32[n, 40], %y: f32[m, 40], %s: f32[40]) -> (%r) {
  %c = Concat(%x, %y) {axis = 0}
  %r = Mul(%c, %s)
})"},
      {"cell_concat_flat", R"(graph g(%x: f32[1, 64, 28, 28], %y: f32[1, m, 28, 28]) -> (%r) {
  %c = Concat(%x, %y) {axis = 1}
  %r = Relu(%c)
})"},
      {"cell_pad_rows", R"(graph g(%x: f16[n, h, 6], %y: f16[n + 3, h, 6]) -> (%r) {
  const %pads: i64[6] = [1, 0, 0, 2, 0, 0]
  %p = Pad(%x, %pads)
  %r = Add(%p, %y)
})"},
      {"row_concat", R"(graph g(%x: f32[n, 40], %y: f32[n, 24]) -> (%r) {
  %c = Concat(%x, %y) {axis = -1}
  %r = Softmax(%c) {axis = -1}
})"},
      {"cell_pad", R"(graph g(%x: f32[n, 5, h], %y: f32[n, 8, h]) -> (%r) {
  const %pads: i64[6] = [0, 1, 0, 0, 2, 0]
  const %low: f32[] = -1
  %p = Pad(%x, %pads, %low)
  %r = Add(%p, %y)
})"},
      {"cell_pad_reflect", R"(graph g(%x: f32[n, h, w], %y: f32[n, h + 3, w + 4]) -> (%r) {
  const %pads: i64[6] = [0, 1, 2, 0, 2, 2]
  %p = Pad(%x, %pads) {mode = "reflect"}
  %r = Add(%p, %y)
})"},
      {"row_pad_edge", R"(graph g(%x: bf16[n, 40]) -> (%r) {
  const %pads: i64[4] = [0, 3, 0, 0]
  %p = Pad(%x, %pads) {mode = "edge"}
  %r = Softmax(%p) {axis = -1}
})"},
      {"cell_part", R"(graph g(%x: f32[n, 2, 64], %y: f32[n, m, 64]) -> (%j) {
  %a = Exp(%x)
  %b = Neg(%a)
  %c = Tanh(%y)
  %d = Neg(%c)
  %j = Concat(%b, %d) {axis = 1}
})"},
      {"cell_pad_crop", R"(graph g(%x: u8[n, 9], %y: u8[n, 12]) -> (%r) {
  const %pads: i64[4] = [-1, 3, 0, 0]
  const %crop: i64[4] = [0, 0, -1, 0]
  %p = Pad(%x, %pads)
  %k = Pad(%y, %crop)
  %r = BitwiseXor(%p, %k)
})"},
      {"row_divergence", R"(graph g(%x: f32[m, n], %y: f32[m, n]) -> (%s) {
  const %axes: i64[1] = [-1]
  %p = Softmax(%x) {axis = -1}
  %lp = LogSoftmax(%x) {axis = -1}
  %lq = LogSoftmax(%y) {axis = -1}
  %d = Sub(%lp, %lq)
  %e = Mul(%p, %d)
  %s = ReduceSum(%e, %axes) {keepdims = 0}
})"},
      {"row_of_loops",
       R"(graph g(%x: f32[b, m, n], %w: f32[b, 1, n], %v: f32[b, m, 1]) -> (%s, %y) {
  const %axes: i64[2] = [-2, -1]
  %a = Mul(%x, %w)
  %e = Add(%a, %v)
  %s = ReduceMean(%e, %axes) {keepdims = 1}
  %y = Sub(%x, %s)
})"},
      {"cell_transposed", R"(graph g(%x: f32[b, m, n], %y: f32[b, n, m], %s: f32[n]) -> (%r) {
  %t = Transpose(%y) {perm = [0, 2, 1]}
  %u = Add(%x, %t)
  %r = Mul(%u, %s)
})"},
      {"blocks_attention", kAttention},
      {"blocks_attention_masked", R"(graph g(%q: f32[b, 2, 4, s, 64], %k: f32[b, 2, 1, 64, t],
    %v: f32[b, 2, 1, t, 64], %mask: f32[b, 1, 1, s, t]) -> (%y) {
  %a = MatMul(%q, %k)
  %m = Add(%a, %mask)
  %p = Softmax(%m) {axis = -1}
  %y = MatMul(%p, %v)
})"},
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

TEST_CASE("plan/fusion: long rows take no operand that lies across the others") {
  const auto groups = [](int64_t size, const char* other) {
    return fused(fmt::format(R"(graph g(%x: f32[{0}, {0}], %y: f32[{0}, {0}]) -> (%z) {{
  %t = Transpose(%y)
  %a = Add(%x, {1})
  %z = Softmax(%a)
}})",
                             size, other)
                     .c_str());
  };
  CHECK(groups(1024, "%y").find("region row: Add Softmax") != std::string::npos);
  CHECK(groups(1024, "%t").find("region row: Add Softmax") == std::string::npos);
  CHECK(groups(1024, "%t").find("region row: Softmax") != std::string::npos);
  CHECK(groups(256, "%t").find("region row: Add Softmax") != std::string::npos);
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

TEST_CASE("plan/fusion: regions of strict numerics have kernels of their own") {
  auto graph = std::make_shared<Graph>(parse_graph(R"(graph g(%x: f32[n, 8]) -> (%y) {
  const %c: f32[] = 3
  %a = Div(%x, %c)
  %y = Round(%a)
})"));
  infer_types(*graph);
  std::vector<Hash128> identities;
  for (const Numerics numerics : {Numerics::kTolerant, Numerics::kFast, Numerics::kStrict}) {
    PlannerOptions planned;
    planned.numerics = numerics;
    Planner planner(graph, cpu_backend(), planned);
    FusionOptions options;
    options.numerics = numerics;
    options.in_place = planner.build()->in_place;
    const std::vector<Region> regions = find_regions(*graph, options);
    REQUIRE(regions.size() == 1);
    const StepSpec spec = planner.region_spec(regions[0]);
    RegionCode code;
    REQUIRE(lower_region(*graph, regions[0], spec, {}, code).yes());
    CHECK(code.phases[0].kernel.accuracy == (numerics == Numerics::kStrict ? loop::Accuracy::kStrict
                                             : numerics == Numerics::kFast
                                                 ? loop::Accuracy::kFast
                                                 : loop::Accuracy::kDefault));
    identities.push_back(region_identity(*graph, regions[0], spec));
    for (size_t k = 0; k + 1 < identities.size(); ++k) CHECK(identities[k] != identities.back());
  }
}

TEST_CASE("plan/fusion: products round or split their factors where there are matrix units") {
  auto graph = std::make_shared<Graph>(parse_graph(kAttention));
  infer_types(*graph);
  for (const Numerics numerics : {Numerics::kTolerant, Numerics::kFast})
    for (const bool units : {false, true}) {
      PlannerOptions planned;
      planned.numerics = numerics;
      Planner planner(graph, cpu_backend(), planned);
      FusionOptions options;
      options.numerics = numerics;
      options.in_place = planner.build()->in_place;
      const std::vector<Region> regions = find_regions(*graph, options);
      REQUIRE(regions.size() == 1);
      loop::TargetWidth target;
      target.matrix_units = units;
      RegionCode code;
      REQUIRE(
          lower_region(*graph, regions[0], planner.region_spec(regions[0]), target, code).yes());
      const bool used = units && grant_matrix_units();
      CHECK(code.phases[0].matrix_units == used);
      const std::string text = loop::print(code.phases[0].kernel);
      const char* const sums = !used                         ? "dot seq"
                               : numerics == Numerics::kFast ? "dot_bf16 seq"
                                                             : "dot_bf16x3 seq";
      for (const char* other : {"dot seq", "dot_bf16 seq", "dot_bf16x3 seq"})
        CHECK((text.find(other) != std::string::npos) == (std::string_view(other) == sums));
    }
}

TEST_CASE("plan/fusion: what is loaded from across the row is loaded once") {
  const auto centred = [](const char* second) {
    const std::string text = fmt::format(R"(graph g(
    %x: f32[n, 64, 256], %u: f32[n, 256, 64], %v: f32[n, 64, 256]) -> (%y) {{
  const %axes: i64[1] = [-1]
  %t = Transpose(%u) {{perm = [0, 2, 1]}}
  %a = Add(%x, {})
  %m = ReduceMean(%a, %axes) {{keepdims = 1}}
  %y = Sub(%a, %m)
}})",
                                         second);
    return fused(text.c_str());
  };
  const std::string across = centred("%t"), along = centred("%v");
  CAPTURE(across);
  CHECK(across.find("scratch") != std::string::npos);
  CAPTURE(along);
  CHECK(along.find("scratch") == std::string::npos);
}

TEST_CASE("plan/fusion: tables of rows side by side are no wider than there are rows, nor large") {
  const auto softmax = [](int64_t columns, int64_t rows) {
    return fused(fmt::format("graph g(%x: f32[{0}, {1}], %s: f32[{0}, {1}]) -> (%y) {{\n"
                             "  %a = Mul(%x, %s)\n  %y = Softmax(%a) {{axis = 0}}\n}}",
                             columns, rows)
                     .c_str());
  };
  CHECK(softmax(300, 3).find("f32[(300 * 16); 16, 1]") != std::string::npos);
  CHECK(softmax(300, 20).find("f32[(300 * 32); 32, 1]") != std::string::npos);
  CHECK(softmax(300, 500).find("f32[(300 * 64); 64, 1]") != std::string::npos);
  CHECK(softmax(4096, 500).find("Softmax") != std::string::npos);
  CHECK(softmax(4097, 500).find("Softmax") == std::string::npos);
  CHECK(softmax(16384, 3).find("Softmax") != std::string::npos);
  // Written out, it is refused where it is lowered.
  const std::string refused = fused(R"(graph g(%x: f32[5000, 500]) -> (%y) {
  const %rows: i64[1] = [0]
  %m = ReduceMax(%x, %rows) {keepdims = 1}
  %d = Sub(%x, %m)
  %e = Exp(%d)
  %s = ReduceSum(%e, %rows) {keepdims = 1}
  %y = Div(%e, %s)
})");
  CHECK(refused.find("tables that no cache holds") != std::string::npos);
}

TEST_CASE("plan/fusion: as many rows side by side as registers have room for and rows fill") {
  const auto lanes = [](int64_t rows, const char* pass, int registers = 32) {
    loop::TargetWidth target;
    target.registers = registers;
    const std::string text = fused(fmt::format(R"(graph g(%x: f32[300, {}]) -> (%y) {{
  const %first: i64[1] = [0]
{}
}})",
                                               rows, pass)
                                       .c_str(),
                                   {}, target);
    CAPTURE(text);
    const bool wide = text.find("vector(64) l") != std::string::npos;
    CHECK(wide != (text.find("vector(16) l") != std::string::npos));
    return wide ? 64 : 16;
  };
  const char* heavy = R"(  %e = Tanh(%x)
  %m = ReduceMean(%e, %first) {keepdims = 1}
  %y = Sub(%m, %e))";
  CHECK(lanes(64, heavy) == 64);
  CHECK(lanes(64, heavy, 8) == 16);
  CHECK(lanes(100, heavy) == 16);  // 28 lanes of the second 64 would work for nothing
  CHECK(lanes(250, heavy) == 64);
  // Once per row does not count.
  const char* light = R"(  %m = ReduceMean(%x, %first) {keepdims = 1}
  %t = Tanh(%m)
  %y = Mul(%t, %x))";
  for (const int registers : {8, 32})
    for (const int64_t rows : {64, 100}) CHECK(lanes(rows, light, registers) == 64);
}

TEST_CASE("plan/fusion: operands that views repeat do not tell how rows are walked") {
  const auto pooled = [](const char* product) {
    return fused(fmt::format(R"(graph g(%x: f32[8, 50, 64], %m: f32[8, 50, 1]) -> (%y) {{
  const %second: i64[1] = [1]
  const %to: i64[3] = [8, 50, 64]
  %e = Expand(%m, %to)
  %p = {}
  %y = ReduceSum(%p, %second) {{keepdims = 0}}
}})",
                             product)
                     .c_str());
  };
  for (const char* product : {"Mul(%x, %e)", "Mul(%e, %x)"}) {
    const std::string text = pooled(product);
    CAPTURE(text);
    CHECK(text.find("vector(64) l") != std::string::npos);
  }
}

TEST_CASE("plan/fusion: sums of one operand share a region while registers hold them") {
  std::string text = "graph g(%x: f32[n, 100]) -> (";
  for (int k = 0; k < 9; ++k) text += fmt::format("{}%s{}", k ? ", " : "", k);
  text += ") {\n";
  for (int k = 0; k < 9; ++k)
    text += fmt::format(
        "  const %c{0}: f32[] = {1}\n  %p{0} = Mul(%x, %c{0})\n"
        "  %s{0} = ReduceSum(%p{0}) {{keepdims = 0}}\n",
        k, k + 2);
  const std::string regions = fused((text + "}").c_str());
  CAPTURE(regions);
  size_t count = 0, most = 0;
  for (size_t at = 0; (at = regions.find("region aggregate:", at)) != std::string::npos; ++count) {
    const std::string line = regions.substr(at, regions.find('\n', at) - at);
    size_t sums = 0;
    for (size_t k = 0; (k = line.find("ReduceSum", k)) != std::string::npos; ++k) ++sums;
    most = std::max(most, sums);
    at += line.size();
  }
  CHECK(count == 3);
  CHECK(most == 4);
}

TEST_CASE("plan/fusion: rows of a few elements are left to steps that know of them") {
  const auto scaled = [](int64_t channels, const char* type) {
    return fused(fmt::format(R"(graph g(%x: {1}[n, {0}], %m: f32[{0}]) -> (%y) {{
  %f = Cast(%x) {{to = 1}}
  %d = Sub(%f, %m)
  %y = Mul(%d, %m)
}})",
                             channels, type)
                     .c_str());
  };
  constexpr const char* kRefused = "rows of a few elements";
  CHECK(scaled(3, "u8").find(kRefused) != std::string::npos);
  CHECK(scaled(7, "u8").find(kRefused) != std::string::npos);
  CHECK(scaled(8, "u8").find(kRefused) == std::string::npos);
  CHECK(scaled(3, "i32").find(kRefused) != std::string::npos);
  CHECK(scaled(5, "i32").find(kRefused) == std::string::npos);
}

TEST_CASE("plan/fusion: rows over several axes are nests next to what is broadcast") {
  const auto loss = [](const char* weight) {
    return fused(
        fmt::format(R"(graph g(%x: f32[b, 50, 64], %t: f32[b, 50, 64], %w: f32[b, {}]) -> (%y) {{
  const %axes: i64[2] = [1, 2]
  %d = Sub(%x, %t)
  %q = Mul(%d, %d)
  %p = Mul(%w, %q)
  %y = ReduceSum(%p, %axes) {{keepdims = 0}}
}})",
                    weight)
            .c_str());
  };
  const std::string whole = loss("1, 1"), some = loss("50, 1");
  CAPTURE(whole);
  CHECK(whole.find("region row: Sub Mul Mul ReduceSum") != std::string::npos);
  CAPTURE(some);
  CHECK(some.find("region row: Sub Mul Mul ReduceSum") != std::string::npos);
  const std::string norm = fused(R"(graph g(
    %x: f32[b, 50, 64], %w: f32[b, 50, 1], %g: f32[50, 64]) -> (%y) {
  %p = Mul(%x, %w)
  %y = LayerNormalization(%p, %g) {axis = 1}
})");
  CAPTURE(norm);
  CHECK(norm.find("region row: Mul") == std::string::npos);
  for (const std::string& text : {whole, some, norm})
    CHECK(text.find("cannot be lowered") == std::string::npos);
}

TEST_CASE("plan/fusion: reductions of the same rows are one pass over them") {
  const auto regions = [](const char* second, const char* third = "") {
    return fused(fmt::format(R"(graph g(%x: f32[n, 96, 50], %v: f32[n, 96, 50]) -> (%m, %s{}) {{
  const %last: i64[1] = [2]
  const %middle: i64[1] = [1]
  %m = ReduceMean(%x, %last) {{keepdims = 0}}
  %s = {}
  {}
}})",
                             *third ? ", %t" : "", second, third)
                     .c_str());
  };
  const std::string two = regions("ReduceMax(%x, %last) {keepdims = 1}");
  CAPTURE(two);
  CHECK(two.find("region row: ReduceMean ReduceMax\n") != std::string::npos);
  CHECK(two.find("cannot be lowered") == std::string::npos);
  // One alone is its own kernel's, as are those over other values or other axes.
  CHECK(regions("ReduceMax(%v, %last) {keepdims = 1}").empty());
  CHECK(regions("ReduceMax(%x, %middle) {keepdims = 1}").empty());
  // With another that is a region by itself, but none that gives whole rows.
  const std::string three = regions("ReduceL1(%x, %last) {keepdims = 1}", "%t = Sqrt(%s)");
  CAPTURE(three);
  CHECK(three.find("region row: ReduceMean ReduceL1 Sqrt\n") != std::string::npos);
  const std::string norm = regions("ReduceL1(%x, %last) {keepdims = 1}", "%t = Div(%x, %s)");
  CAPTURE(norm);
  CHECK(norm.find("region row: ReduceL1 Div\n") != std::string::npos);
}

TEST_CASE("plan/fusion: what rows side by side read lies side by side, and is read again") {
  const std::string text = fused(R"(graph g(%x: f32[5000, 64]) -> (%y) {
  const %first: i64[1] = [0]
  %m = ReduceMean(%x, %first) {keepdims = 1}
  %d = Sub(%x, %m)
  %s = ReduceL2(%d, %first) {keepdims = 1}
  %y = Div(%d, %s)
})");
  CAPTURE(text);
  CHECK(text.find("region row") != std::string::npos);
  CHECK(text.find("scratch") == std::string::npos);
  CHECK(text.find("cannot be lowered") == std::string::npos);
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

TEST_CASE("plan/fusion: loops over values that are read over and over are written at once") {
  // 2^30 paths lead through the chain.
  const auto chain = [](std::string first, const char* last) {
    std::string text, v = std::move(first);
    for (int level = 0; level < 30; ++level) {
      const std::string next = level == 29 ? last : fmt::format("v{}", level);
      text += fmt::format("  %a{0} = Abs(%{1})\n  %{2} = Mul(%{1}, %a{0})\n", level, v, next);
      v = next;
    }
    return text;
  };
  // A Concat whose pieces have loops of their own: which of them the chain reads is looked at.
  const std::string pieces = fused(
      ("graph g(%x: f32[n, 40], %y: f32[n, 30], %z: f32[n, 70]) -> (%r) {\n" + chain("z", "v") +
       "  %c = Concat(%x, %y) {axis = 1}\n  %t = Tanh(%c)\n  %r = Add(%v, %t)\n}")
          .c_str());
  CHECK(pieces.find("Concat") != std::string::npos);
  CHECK(pieces.find("cannot be lowered") == std::string::npos);
  // An output by rows of what lies in scratch by columns.
  const std::string turned =
      fused(("graph g(%q: f32[2, 64, 32], %k: f32[2, 32, 64], %w: f32[2, 64, 32]) -> (%v, %y) {\n"
             "  const %c: f32[] = 0.25\n  %a = MatMul(%q, %k)\n  %s = Sigmoid(%a)\n" +
             chain("s", "v") + "  %d = Sub(%v, %c)\n  %y = MatMul(%d, %w)\n}")
                .c_str());
  CHECK(turned.find("region blocks") != std::string::npos);
  CHECK(turned.find("cannot be lowered") == std::string::npos);
}

TEST_CASE("plan/fusion: no region has more operands than a kernel may have") {
  const auto fits = [](const std::string& text, size_t least) {
    Graph graph = parse_graph(text);
    infer_types(graph);
    size_t nodes = 0;
    for (const Region& region : find_regions(graph, {})) {
      const auto read = std::count_if(region.inputs.begin(), region.inputs.end(),
                                      [&](ValueId v) { return !graph.value(v).is_constant(); });
      CHECK(static_cast<size_t>(read) + region.outputs.size() <= loop::kMaxBuffers);
      nodes += region.nodes.size();
    }
    CHECK(nodes >= least);
    CHECK(fused(text.c_str()).find("cannot be lowered") == std::string::npos);
  };
  const int count = 100;
  std::string inputs = "%x0: f32[n, 33]", results, sum, shown, aggregates, parts, pieces;
  for (int k = 0; k < count; ++k) {
    const std::string last = k == 0 ? "x0" : fmt::format("a{}", k - 1);
    inputs += fmt::format(", %x{}: f32[n, 33]", k + 1);
    results += fmt::format("{}%s{}", k == 0 ? "" : ", ", k);
    sum += fmt::format("  %a{} = Add(%{}, %x{})\n", k, last, k + 1);
    shown += fmt::format("  %s{} = Add(%{}, %c)\n", k, k == 0 ? "x" : fmt::format("s{}", k - 1));
    aggregates +=
        fmt::format("  %m{0} = Mul(%x, %c)\n  %s{0} = ReduceSum(%m{0}) {{keepdims = 0}}\n", k);
  }
  const std::string one = "(%x: f32[n, 33]) -> (" + results + ") {\n  const %c: f32[] = 0.5\n";
  fits("graph reads(" + inputs + ") -> (%y) {\n" + sum + "  %y = Tanh(%a99)\n}", 100);
  fits("graph writes" + one + shown + "}", 98);
  fits("graph aggregates" + one + aggregates + "}", 2 * count);
  // Products give way to what is between them.
  fits("graph products(" + inputs +
           ", %q: f32[n, 20], %k: f32[20, 33], %v: f32[33, 20]) -> (%y) {\n" +
           "  %p = MatMul(%q, %k)\n  %r = Mul(%x0, %p)\n" + sum +
           "  %b = Sub(%a99, %r)\n  %y = MatMul(%b, %v)\n}",
       100);
  for (int k = 0; k < 40; ++k) {
    parts += fmt::format("  %c{0} = Concat(%x{1}, %x{2}) {{axis = 1}}\n", k, 2 * k, 2 * k + 1);
    pieces +=
        fmt::format("  %a{} = Add(%{}, %c{})\n", k, k == 0 ? "z" : fmt::format("a{}", k - 1), k);
  }
  fits("graph maps(" + inputs + ", %z: f32[n, 66]) -> (%a39) {\n" + parts + pieces + "}", 40);
}

TEST_CASE("plan/fusion: long chains of products are regions of a few of them") {
  const auto regions_of = [](int products, const char* type) {
    std::string text =
        fmt::format("graph g(%v0: {0}[n, 16], %w: {0}[16, 16]) -> (%v{1}) {{\n", type, products);
    for (int k = 0; k < products; ++k)
      text += fmt::format(
          "  %p{0} = MatMul(%v{0}, %w)\n  %r{0} = Relu(%p{0})\n"
          "  %v{1} = Add(%r{0}, %p{0})\n",
          k, k + 1);
    Graph graph = parse_graph(text + "}");
    infer_types(graph);
    size_t in_blocks = 0;
    const std::vector<Region> regions = find_regions(graph, {});
    for (const Region& region : regions) {
      const auto count = std::count_if(region.nodes.begin(), region.nodes.end(), [&](NodeId n) {
        return graph.node(n).op->name == "MatMul";
      });
      CHECK(count <= 6);
      if (region.blocks) in_blocks += static_cast<size_t>(count);
    }
    CHECK(in_blocks + 6 >= static_cast<size_t>(products));
    return regions.size();
  };
  CHECK(regions_of(40, "f32") <= 8);
  CHECK(regions_of(40, "f64") <= 8);
  // On a stack of any size, in time that grows with the chain.
  CHECK(regions_of(20'000, "f32") <= 3335);
}

TEST_CASE("plan/fusion: iterations that no number can count are tasks of their own") {
  // Nominal sizes of all these axes multiply to 2^64.
  std::string dims = "n, 1048576", few = "n, 1";
  for (int k = 0; k < 9; ++k) {
    dims += fmt::format(", s{}", k);
    few += k % 2 ? ", 1" : fmt::format(", s{}", k);
  }
  const std::string out = fused(fmt::format("graph g(%x: f32[{0}, r], %y: f32[{1}, 1]) -> (%z) {{\n"
                                            "  %a = Add(%x, %y)\n  %c = Mul(%a, %x)\n"
                                            "  %z = Relu(%c)\n}}",
                                            dims, few)
                                    .c_str());
  CHECK(out.find("region cell") != std::string::npos);
  CHECK(out.find("cannot be lowered") == std::string::npos);
}

TEST_CASE("plan/fusion: a few rows of a block are worked on like a vector of them") {
  Graph model = parse_graph(R"(graph g(%q: f32[n, 64], %k: f32[64, m], %v: f32[m, 64]) -> (%r) {
  %a = MatMul(%q, %k)
  %e = Softmax(%a) {axis = -1}
  %r = MatMul(%e, %v)
})");
  infer_types(model);
  const std::vector<Region> regions = find_regions(model, {});
  REQUIRE(regions.size() == 1);
  REQUIRE(regions[0].blocks);
  const RegionCost cost = estimate(model, regions[0]);
  const auto flops = [&](int64_t rows) {
    return cost.product_flops.evaluate([&](const std::string& symbol) {
      return std::optional<int64_t>(symbol == "n" ? rows : 100);
    });
  };
  // Two products of 64 terms and 100 columns, two operations per term.
  CHECK(flops(16) == 2 * 2 * 64 * 100 * 16);
  CHECK(flops(1) == flops(16));
  CHECK(flops(17) == flops(32));
  CHECK(flops(0) == 0);
}

TEST_CASE("plan/fusion: a search that is stopped ends before its next part, and finds nothing") {
  const std::vector<std::string> ops{"Sigmoid", "Tanh", "Erf", "Exp"};
  std::string text = "graph g(%v0: f32[n, 8]) -> (%v400) {\n";
  for (size_t k = 0; k < 400; ++k)
    text += fmt::format("  %v{} = {}(%v{})\n", k + 1, ops[k % ops.size()], k);
  Graph graph = parse_graph(text + "}");
  infer_types(graph);
  FusionOptions options;
  int parts = 0, most = 1 << 30;
  options.stop = [&] { return ++parts > most; };
  CHECK(!find_regions(graph, options).empty());
  REQUIRE(parts > 1);
  most = parts - 1;
  parts = 0;
  CHECK(find_regions(graph, options).empty());
  CHECK(parts == most + 1);
}
