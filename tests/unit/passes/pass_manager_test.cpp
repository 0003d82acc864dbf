#include "passes/pass_manager.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <pthread.h>

#include <chrono>

#include "base/background_thread.h"
#include "base/error.h"
#include "ir/patch.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace xc;

namespace {

const char* kGraph = R"(graph main(%x: f32[n, 4]) -> (%y) {
  %a = Identity(%x)
  %b = Relu(%a)
  %c = Relu(%a)
  %y = Add(%b, %c)
})";

size_t nodes_after(PassOptions options) {
  Graph graph = parse_graph(kGraph);
  optimise(graph, options);
  return graph.order().size();
}

}  // namespace

TEST_CASE("passes/pass_manager: reports runs, changes and rewrites") {
  Graph graph = parse_graph(kGraph);
  const PassReport report = optimise(graph);
  CHECK(report.converged);
  CHECK(graph.order().size() == 2);
  bool merged = false;
  for (const PassReport::Row& row : report.rows)
    if (row.name == "merge-common") {
      merged = true;
      CHECK(row.runs == 2);  // the second round finds nothing
      CHECK(row.changed == 1);
      CHECK(row.nanoseconds > 0);
    }
  CHECK(merged);
  CHECK(report.rewrites == std::vector<std::pair<std::string, int64_t>>{
                               {"canonicalise", 1}, {"merge-common", 1}, {"remove-dead", 1}});
}

TEST_CASE("passes/pass_manager: passes are disabled by name; unknown names are refused") {
  PassOptions options;
  CHECK(nodes_after(options) == 2);
  options.disabled = {"merge-common"};
  CHECK(nodes_after(options) == 3);
  options.disabled = {"merge-common", "canonicalise"};
  CHECK(nodes_after(options) == 4);
  options.disabled = {"nonsense"};
  CHECK_THROWS_AS(nodes_after(options), Error);
  CHECK_THROWS_AS(find_pass("nonsense"), Error);
}

TEST_CASE("passes/pass_manager: dumps after a named pass, or after each that changed something") {
  PassOptions options;
  std::vector<std::string> seen;
  options.on_dump = [&](std::string_view pass, const std::string& text) {
    seen.emplace_back(pass);
    CHECK(!text.empty());
  };
  options.dump_after = "canonicalise";
  nodes_after(options);
  CHECK(seen == std::vector<std::string>{"canonicalise"});
  seen.clear();
  options.dump_after = "*";
  nodes_after(options);
  CHECK(seen.size() > 3);
}

TEST_CASE("passes/pass_manager: bodies are rewritten too, and errors name the pass") {
  Graph graph = parse_graph(R"(graph main(%c: bool[], %x: f32[n, 4]) -> (%y) {
  %y = If(%c, %x) captures 1 (
    graph then(%a: f32[n, 4]) -> (%r) {
      %i = Identity(%a)
      %r = Relu(%i)
    },
    graph else(%a: f32[n, 4]) -> (%r) {
      %r = Abs(%a)
    }
  )
})");
  optimise(graph);
  CHECK(graph.node(graph.order()[0]).subgraphs[0]->order().size() == 1);

  const Pipeline failing = {{{{"breaks", "for the test", [](Graph&, PassContext&) -> bool {
                                 fail(Status::kInternal, "broken");
                               }}}}};
  try {
    run_pipeline(graph, failing, {});
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CHECK(error.where() == "pass breaks");
  }
}

TEST_CASE("passes/pass_manager: verification catches a pass that breaks the graph") {
  const Pipeline breaking = {{{{"breaks", "for the test", [](Graph& graph, PassContext&) {
                                  graph.node(graph.order()[0]).inputs[0] = 12345;
                                  return true;
                                }}}}};
  PassOptions options;
  options.verify_each = true;
  Graph graph = parse_graph(kGraph);
  CHECK_THROWS_AS(run_pipeline(graph, breaking, options), Error);
}

TEST_CASE("passes/pass_manager: verification catches a value of another type") {
  // What the pass puts in the place of a Softmax.
  static std::string op;
  const Pass replace = {"breaks", "for the test", [](Graph& graph, PassContext&) {
                          const ValueId old = graph.outputs[0];
                          const NodeId id = graph.value(old).producer;
                          const ValueId x = graph.node(id).inputs[0];
                          Patch patch(graph, "test");
                          Attrs attrs;
                          if (op == "Transpose") attrs.set("perm", std::vector<int64_t>{1, 0});
                          patch.replace(old, patch.add_node(get_op(op), {x}, 1, attrs)[0]);
                          patch.remove(id);
                          patch.apply();
                          return true;
                        }};
  PassOptions options;
  options.verify_each = true;
  for (const char* each : {"Neg", "Transpose", "IsNaN", "Size"}) {
    CAPTURE(each);
    op = each;
    Graph graph = parse_graph("graph(%x: f32[3, 4]) -> (%y) {\n%y = Softmax(%x) {axis = -1}\n}");
    if (op == "Neg")
      run_pass(graph, replace, options);
    else
      CHECK_THROWS_WITH_AS(run_pass(graph, replace, options),
                           doctest::Contains("'y' was f32[3, 4]"), Error);
  }
}

TEST_CASE("passes/fold_constants: budgets in bytes and time hold") {
  const auto folded = [](const PassOptions& options) {
    Graph graph = parse_graph(R"(graph main(%x: f32[n, 64]) -> (%y) {
  const %a: f32[64, 64] = splat 2
  const %b: f32[64, 64] = splat 3
  %c = Mul(%a, %b)
  %d = Add(%c, %b)
  %y = MatMul(%x, %d)
})");
    optimise(graph, options);
    return graph.order().size() == 1;
  };
  PassOptions options;
  CHECK(folded(options));
  options.fold_bytes_each = 1000;
  CHECK(!folded(options));
  options.fold_bytes_each = 1 << 20;
  options.fold_bytes_total = 20000;  // one of the two
  CHECK(!folded(options));
  options.fold_bytes_total = 1 << 20;
  options.fold_time = std::chrono::milliseconds(0);
  CHECK(!folded(options));
}

TEST_CASE("passes/fold_constants: what many views show larger is made within the budget") {
  constexpr int kViews = 100;
  std::string text = R"(graph main(%x: f32[1]) -> (%y) {
  const %a: f32[4] = [1, 2, 3, 4]
  const %shape: i64[2] = [8192, 4]
  const %start: i64[1] = [-1]
  const %end: i64[1] = [-9223372036854775807]
  const %axis: i64[1] = [0]
  const %all: i64[2] = [0, 1]
  %v0 = Expand(%a, %shape)
)";
  std::string sums = "%x";
  for (int k = 0; k < kViews; ++k) {
    text += fmt::format("  %v{} = Slice(%v{}, %start, %end, %axis, %start)\n", k + 1, k);
    text += fmt::format("  %s{} = ReduceMax(%v{}, %all) {{keepdims = 0}}\n", k, k + 1);
    sums += fmt::format(", %s{}", k);
  }
  Graph graph = parse_graph(text + "  %y = Sum(" + sums + ")\n}");
  PassOptions options;
  options.fold_time = std::chrono::milliseconds(20);
  int made = 0;
  options.evaluate = [&](const Node& node, const std::vector<Tensor>& inputs) {
    ++made;
    return run_reference(node, inputs);
  };
  optimise(graph, options);
  CHECK(made < kViews * kViews / 4);  // each reader makes all views behind its own anew
}

TEST_CASE("passes/pipeline: chains of any length fit a small stack") {
  constexpr int kFunctions = 20000, kViews = 8000;
  std::string text = R"(graph main(%x: f32[2, 3, 4], %f0: f32[2, 4, 4]) -> (%y, %m) {
  const %a: f32[4] = [1, 2, 3, 4]
  const %shape: i64[2] = [100, 4]
  const %start: i64[1] = [-1]
  const %end: i64[1] = [-9223372036854775807]
  const %axis: i64[1] = [0]
  %v0 = Expand(%a, %shape)
)";
  for (int k = 0; k < kFunctions; ++k) text += fmt::format("  %f{} = Tanh(%f{})\n", k + 1, k);
  for (int k = 0; k < kViews; ++k)
    text += fmt::format("  %v{} = Slice(%v{}, %start, %end, %axis, %start)\n", k + 1, k);
  text += fmt::format("  %y = MatMul(%x, %f{})\n  %m = ReduceMax(%v{})\n}}", kFunctions, kViews);
  Graph graph = parse_graph(text);
  const auto run = [](void* g) -> void* {
    optimise(*static_cast<Graph*>(g));
    return nullptr;
  };
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 512 << 10) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, run, &graph) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
  CHECK(graph.order().size() >= kFunctions);
}

TEST_CASE("passes/fold_constants: random ops are neither folded nor merged") {
  if (!find_op("RandomNormalLike")) {
    MESSAGE("skipped: no operator RandomNormalLike");
    return;
  }
  Graph graph = parse_graph(R"(graph main(%x: f32[2]) -> (%y) {
  const %a: f32[2] = [1, 2]
  %r = RandomNormalLike(%a)
  %s = RandomNormalLike(%a)
  %t = Add(%r, %s)
  %y = Add(%t, %x)
})");
  optimise(graph);
  CHECK(graph.order().size() == 4);
}

TEST_CASE("passes/pipeline: 20000 nodes take no quadratic time") {
  Graph graph;
  ValueId v = graph.add_input("x", Type::tensor(DType::kF32, SymDims{Dim::symbol("n"), 4}));
  const char* kOps[] = {"Relu", "Identity", "Abs", "Sigmoid"};
  for (int i = 0; i < 20000; ++i)
    v = graph.node(graph.add_node(get_op(kOps[i % 4]), {v}, 1)).outputs[0];
  graph.outputs = {v};
  const double begin = thread_cpu_seconds();
  optimise(graph);
  const double spent = thread_cpu_seconds() - begin;
  CHECK(graph.order().size() == 15000);
  CHECK(spent < 20);
  MESSAGE("optimise: " << spent << " s");
}

TEST_CASE("passes/share_prefixes: 60000 lists that begin alike take no quadratic time") {
  Graph graph;
  const Type type = Type::tensor(DType::kF32, SymDims{Dim::symbol("n")});
  const ValueId a = graph.add_input("a", type), b = graph.add_input("b", type);
  Attrs axis;
  axis.set("axis", int64_t{0});
  std::vector<ValueId> lists;
  for (int i = 0; i < 60000; ++i) {
    const ValueId x = graph.add_input(fmt::format("x{}", i), type);
    const NodeId list = graph.add_node(get_op("Concat"), {a, b, x}, 1, axis);
    lists.push_back(graph.node(list).outputs[0]);
  }
  graph.outputs = graph.node(graph.add_node(get_op("Sum"), lists, 1)).outputs;
  const double begin = thread_cpu_seconds();
  run_pass(graph, find_pass("share-prefixes"), {});
  const double spent = thread_cpu_seconds() - begin;
  CHECK(spent < 20);
  MESSAGE("share-prefixes: " << spent << " s");
}
