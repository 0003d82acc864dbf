// Concats whose parts are written where they belong: which are, and where what lies.
#include "plan/in_place_concat.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/background_thread.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "plan/bound.h"
#include "plan/planner.h"

using namespace xc;

namespace {

struct Planned {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<Planner> planner;
  std::shared_ptr<const Plan> plan;

  const PlanValue& value(std::string_view name) const {
    for (const PlanValue& v : plan->values)
      if (v.id != kNone && graph->value(v.id).name == name) return v;
    fail(Status::kNotFound, "no value {}", name);
  }
  int steps(std::string_view op) const {
    return static_cast<int>(std::count_if(plan->steps.begin(), plan->steps.end(), [&](auto& step) {
      return !step->nodes.empty() && step->spec.op->name == op;
    }));
  }
};

Planned planned(const char* text, PlannerOptions options = {}) {
  Graph model = parse_graph(text);
  infer_types(model);
  const auto graph = std::make_shared<const Graph>(std::move(model));
  auto planner = std::make_shared<Planner>(graph, cpu_backend(), options);
  auto plan = planner->build();
  return {graph, std::move(planner), std::move(plan)};
}

constexpr const char* kRows = R"(graph g(%x: f32[n, 80], %y: f32[n, 24], %w: f32[24, 112])
    -> (%r) {
  %a = Exp(%x)
  %b = MatMul(%y, %w)
  %c = Concat(%a, %b) {axis = 1}
  %r = Softmax(%c) {axis = -1}
})";

}  // namespace

TEST_CASE("plan/in_place_concat: parts lie in the result, with its strides") {
  const Planned p = planned(kRows);
  CHECK(p.plan->serial == 0);
  REQUIRE(p.plan->in_place.size() == 1);
  CHECK(p.steps("Concat") == 0);
  const PlanValue &a = p.value("a"), &b = p.value("b"), &c = p.value("c");
  CHECK(a.buffer == c.buffer);
  CHECK(b.buffer == c.buffer);
  CHECK(to_text(a.strides) == "[192, 1]");
  CHECK(to_text(b.strides) == "[192, 1]");
  CHECK(a.offset == Dim(0));
  CHECK(b.offset == Dim(80));
  CHECK(b.dims[1] == Dim(112));
  const auto bound = bind_segment(p.plan, 0, {3}, {});
  // What Softmax reads lies where it puts its result (in_place_steps.h).
  CHECK(bound->arena_bytes == 0);
}

TEST_CASE("plan/in_place_concat: a part of a part, in front of a graph output") {
  const Planned p = planned(R"(graph g(%x: f32[1, n, 4, 4], %y: f32[1, m, 4, 4]) -> (%d) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %e = Sigmoid(%c)
  %d = Concat(%e, %c) {axis = 1}
})");
  CHECK(p.plan->in_place.size() == 2);
  CHECK(p.steps("Concat") == 0);
  CHECK(p.value("b").buffer == p.value("d").buffer);
  CHECK(p.plan->buffers[p.value("d").buffer].storage == Storage::kOutput);
  CHECK(p.value("e").offset == Dim(0));
  // Behind e, which has as many elements as c, and a.
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  CHECK(p.value("c").offset == (n + m) * Dim(16));
  CHECK(p.value("b").offset == (n + m) * Dim(16) + n * Dim(16));
  // With one image the parts are dense.
  Operand b{DType::kF32, p.value("b").dims, p.value("b").strides, {}};
  CHECK(b.contiguous());
}

TEST_CASE("plan/in_place_concat: some parts in place, where nothing elementwise reads the result") {
  const Planned p = planned(R"(graph g(%x: f32[n, 64], %y: f32[n, 24], %w: f32[24, 112]) -> (%r) {
  %b = MatMul(%y, %w)
  %c = Concat(%x, %b) {axis = 1}
  %r = Softmax(%c) {axis = -1}
})");
  CHECK(p.plan->in_place.size() == 1);
  CHECK(p.steps("Concat") == 1);
  CHECK(p.value("b").buffer == p.value("c").buffer);
  CHECK(p.value("b").offset == Dim(64));
  CHECK(p.value("x").buffer != p.value("c").buffer);
}

TEST_CASE("plan/in_place_concat: along a chain of Concats only new parts are copied") {
  const Planned p = planned(R"(graph g(%x: f32[n, 64], %y: f32[n, 8], %z: f32[n, 8]) -> (%r, %s) {
  %c = Concat(%x, %y) {axis = 1}
  %r = Tanh(%c)
  %d = Concat(%c, %z) {axis = 1}
  %s = Tanh(%d)
})");
  CHECK(p.plan->in_place.size() == 1);  // c in d; inputs are nobody's to place
  CHECK(p.steps("Concat") == 2);
  CHECK(p.value("c").buffer == p.value("d").buffer);
  CHECK(to_text(p.value("c").strides) == "[80, 1]");
}

TEST_CASE("plan/in_place_concat: what has to stay a step") {
  const struct {
    const char* why;
    const char* graph;
  } cases[] = {
      {"a part is an input", R"(graph g(%x: f32[n, 64], %y: f32[n, 64]) -> (%r) {
  %a = Exp(%x)
  %c = Concat(%a, %y) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a part is a constant", R"(graph g(%x: f32[1, 32]) -> (%r) {
  const %k: f32[1, 2] = [1, 2]
  %a = Exp(%x)
  %c = Concat(%a, %k) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a part is a graph output", R"(graph g(%x: f32[n, 64], %y: f32[n, 64]) -> (%r, %a) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a part is there twice", R"(graph g(%x: f32[n, 64]) -> (%r) {
  %a = Exp(%x)
  %c = Concat(%a, %a) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a part is a view", R"(graph g(%x: f32[64, n], %y: f32[n, 64]) -> (%r) {
  %t = Exp(%x)
  %a = Transpose(%t) {perm = [1, 0]}
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a view of a part", R"(graph g(%x: f32[n, 64], %y: f32[n, 64]) -> (%r, %s) {
  const %flat: i64[1] = [-1]
  %a = Exp(%x)
  %b = Tanh(%y)
  %v = Reshape(%a, %flat)
  %s = Neg(%v)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"text, which no arena holds", R"(graph g(%x: string[n], %y: string[n]) -> (%r, %n) {
  %c = Concat(%x, %y) {axis = 0}
  %r = StringNormalizer(%c)
  %n = Identity(%x)
})"},
      {"short rows", R"(graph g(%x: f32[n, 64], %y: f32[n, 63]) -> (%r) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"rows of which nobody knows how long they are",
       R"(graph g(%x: f32[n, m], %y: f32[n, 64]) -> (%r) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"a kernel that converts what is not in its order",
       R"(graph g(%x: f32[n, 3, 8, 8], %w: f32[32, 3, 1, 1], %y: f32[n, 32, 8, 8]) -> (%r) {
  %a = Conv(%x, %w)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
      {"two Concats want a part", R"(graph g(%x: f32[n, 64], %y: f32[n, 64]) -> (%r, %s) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
  %d = Concat(%b, %a) {axis = 1}
  %s = Tanh(%d)
})"},
      {"dims that only the run shows to be equal",
       R"(graph g(%x: f32[n, 64], %y: f32[m, 64]) -> (%r) {
  %a = Exp(%x)
  %b = Tanh(%y)
  %c = Concat(%a, %b) {axis = 1}
  %r = Tanh(%c)
})"},
  };
  for (const auto& [why, text] : cases) {
    CAPTURE(std::string(why));
    const Planned p = planned(text);
    // Of two Concats that want the same parts the later has them.
    const bool two = std::string_view(why).find("two") == 0;
    CHECK(p.plan->in_place.size() == (two ? 1 : 0));
    CHECK(p.steps("Concat") == 1);
  }
  PlannerOptions off;
  off.layouts = false;
  CHECK(planned(kRows, off).steps("Concat") == 1);
}

TEST_CASE("plan/in_place_concat: regions write into the result, and none takes the Concat") {
  const Planned p = planned(R"(graph g(%x: f32[n, 80], %y: f32[n, 112]) -> (%r) {
  %a = Exp(%x)
  %b = Neg(%a)
  %c = Tanh(%y)
  %d = Neg(%c)
  %j = Concat(%b, %d) {axis = 1}
  %k = Sqrt(%j)
  %r = Exp(%k)
})");
  REQUIRE(p.plan->in_place.size() == 1);
  FusionOptions options;
  options.in_place = p.plan->in_place;
  const std::vector<Region> regions = find_regions(*p.graph, options);
  CHECK(regions.size() == 3);
  for (const Region& region : regions) {
    CHECK(region.nodes.size() == 2);
    RegionCode code;
    const StepSpec spec = p.planner->region_spec(region);
    CHECK(lower_region(*p.graph, region, spec, {}, code).yes());

    CHECK(to_text(spec.outputs[0].strides) == "[192, 1]");
  }
  // A region that was made without knowing leaves its nodes to their steps.
  FusionOptions unaware;
  std::vector<PlannedRegion> wrong;
  for (const Region& region : find_regions(*p.graph, unaware))
    for (NodeId n : region.nodes)
      if (n == p.plan->in_place[0]) wrong.push_back({region, nullptr, "fused"});
  REQUIRE(wrong.size() == 1);
  std::vector<uint32_t> refused;
  const auto plan = p.planner->build(wrong, &refused);
  CHECK(refused == std::vector<uint32_t>{0});
  CHECK(plan->region_steps == 0);
}

TEST_CASE("plan/in_place_concat: 100000 parts of one Concat take no quadratic time") {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::kF32, SymDims{2, 4}));
  std::vector<ValueId> parts;
  for (int i = 0; i < 100000; ++i)
    parts.push_back(graph.node(graph.add_node(get_op(i % 2 ? "Exp" : "Abs"), {x}, 1)).outputs[0]);
  Attrs axis;
  axis.set("axis", int64_t{0});
  graph.outputs = graph.node(graph.add_node(get_op("Concat"), parts, 1, axis)).outputs;
  infer_types(graph);
  Planner planner(std::make_shared<const Graph>(std::move(graph)), cpu_backend(), {});
  const double begin = thread_cpu_seconds();
  const auto plan = planner.build();
  const double spent = thread_cpu_seconds() - begin;
  CHECK(plan->in_place.size() == 1);
  CHECK(plan->steps.size() == 100000);
  CHECK(spent < 12);
  MESSAGE("the plan: " << spent << " s");
}
