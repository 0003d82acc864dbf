// Results that lie where an operand of their step lay: which do, and what is left of the arena.
#include "plan/in_place_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ir/text.h"
#include "ops/infer.h"
#include "plan/bound.h"
#include "plan/planner.h"

using namespace xc;

namespace {

struct Planned {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Bound> bound;

  /// "input > output" for each pair that may lie in one memory.
  std::string shared() const {
    std::string out;
    for (const SharedPort& port : bound->shared_ports)
      out += graph->value(graph->inputs[port.input]).name + " > " +
             graph->value(graph->outputs[port.output]).name + ", ";
    return out;
  }

  /// Where value `name` lies: "out k" or "arena offset".
  std::string place(std::string_view name) const {
    for (const PlanValue& v : plan->values) {
      if (v.id == kNone || graph->value(v.id).name != name) continue;
      for (const ArenaSlot& slot : bound->arena)
        if (slot.buffer == v.buffer) return "arena " + std::to_string(slot.offset);
      std::set<uint32_t> ports;
      for (const PointerPatch& patch : bound->output_patches)
        if (bound->pointers[patch.pointer].buffer == v.buffer) ports.insert(patch.port);
      if (ports.size() == 1) return "out " + std::to_string(*ports.begin());
    }
    return "nowhere";
  }
};

/// Bound with every symbol 64.
Planned bound(Graph model, PlannerOptions options = {}) {
  infer_types(model);
  Planned out;
  out.graph = std::make_shared<const Graph>(std::move(model));
  out.plan = Planner(out.graph, cpu_backend(), options).build();
  out.bound = bind_segment(out.plan, 0, std::vector<int64_t>(out.plan->symbols.size(), 64), {});
  return out;
}

/// The same; elementwise operators stay apart.
Planned planned(const char* text) {
  PlannerOptions options;
  options.post_ops = false;
  return bound(parse_graph(text), options);
}

constexpr int64_t kMatrix = 64 * 64 * 4;

}  // namespace

TEST_CASE("plan/in_place_steps: attention holds its scores once") {
  const Planned p = planned(R"(graph g(%q: f32[n, 64], %k: f32[64, n], %v: f32[n, 64]) -> (%r) {
  const %c: f32[] = 0.125
  %a = MatMul(%q, %k)
  %s = Mul(%a, %c)
  %e = Softmax(%s) {axis = -1}
  %r = MatMul(%e, %v)
})");
  CHECK(p.place("a") == "arena 0");
  CHECK(p.place("s") == "arena 0");
  CHECK(p.place("e") == "arena 0");
  CHECK(p.place("r") == "out 0");
  CHECK(p.bound->arena_bytes == kMatrix);
}

TEST_CASE("plan/in_place_steps: a chain that ends in an output lies there") {
  const Planned p = planned(R"(graph g(%x: f32[n, 64], %w: f32[64, 64]) -> (%r) {
  %a = MatMul(%x, %w)
  %b = Add(%a, %x)
  %r = Softmax(%b) {axis = -1}
})");
  CHECK(p.place("a") == "out 0");
  CHECK(p.place("b") == "out 0");
  CHECK(p.bound->arena_bytes == 0);
}

TEST_CASE("plan/in_place_steps: what is read later, is an input or an output stays") {
  const Planned p = planned(R"(graph g(%x: f32[n, 64], %w: f32[64, 64]) -> (%r, %b) {
  %a = MatMul(%x, %w)
  %b = Exp(%a)
  %c = Tanh(%a)
  %d = Add(%b, %c)
  %y = Sigmoid(%x)
  %r = MatMul(%d, %y)
})");
  // a is read by c behind b, b is an output, x is the caller's.
  CHECK(p.place("b") == "out 1");
  CHECK(p.place("a").starts_with("arena"));
  CHECK(p.place("c") == p.place("a"));
  CHECK(p.place("d") == p.place("a"));
  CHECK(p.place("y") != p.place("a"));
  CHECK(p.bound->arena_bytes == 2 * kMatrix);
}

TEST_CASE("plan/in_place_steps: nothing where operand and result lie otherwise") {
  // Broadcast, another type, the same memory read crosswise, a part of it.
  for (const std::string step :
       {"%b = Add(%row, %x)", "%b = Cast(%a) {to = 6}", "%b = Add(%a, %t)", "%b = Exp(%part)"}) {
    CAPTURE(step);
    const std::string text = std::string(R"(graph g(%x: f32[n, 64], %w: f32[64, 64]) -> (%r) {
  %a = MatMul(%w, %w)
  %t = Transpose(%a) {perm = [1, 0]}
  const %from: i64[1] = [0]
  const %to: i64[1] = [1]
  %row = Slice(%a, %from, %to)
  const %half: i64[1] = [32]
  const %end: i64[1] = [64]
  %part = Slice(%a, %half, %end)
  )") + step + R"(
  %f = Cast(%b) {to = 1}
  %r = ReduceSum(%f) {keepdims = 0}
})";
    const Planned p = planned(text.c_str());
    CHECK(p.place("a").starts_with("arena"));
    CHECK(p.place("b").starts_with("arena"));
    CHECK(p.place("b") != p.place("a"));
  }
}

TEST_CASE("plan/in_place_steps: an update of what nobody else reads copies nothing") {
  const Planned p =
      planned(R"(graph g(%x: f32[n, 64], %i: i64[3, 1], %u: f32[3, 64], %y: f32[n, 64]) -> (%r) {
  %a = Exp(%x)
  %b = ScatterND(%a, %i, %u)
  %c = ScatterND(%y, %i, %u)
  %r = MatMul(%b, %c)
})");
  CHECK(p.place("a").starts_with("arena"));
  CHECK(p.place("b") == p.place("a"));
  CHECK(p.place("c") != p.place("a"));
}

TEST_CASE("plan/in_place_steps: outputs in the memory of an input, which nobody reads any more") {
  const auto shared = [](const std::string& inputs, const std::string& outputs,
                         const std::string& steps) {
    return planned(("graph g(" + inputs + ") -> (" + outputs + ") {\n" + steps + "\n}").c_str())
        .shared();
  };
  const std::string cache = "%c: f32[4, 64], %i: i64[3, 1], %u: f32[3, 64]";
  const std::string update = "%d = ScatterND(%c, %i, %u)\n";
  CHECK(shared(cache, "%d", update) == "c > d, ");
  // Whoever reads the new cache may.
  CHECK(shared(cache, "%d, %y", update + "%y = ReduceSum(%d) {keepdims = 0}") == "c > d, ");
  // The old one is read before, by the step itself, or later.
  CHECK(shared(cache, "%d, %y", "%y = ReduceSum(%c) {keepdims = 0}\n" + update) == "c > d, ");
  CHECK(shared("%c: f32[4, 64], %i: i64[4, 1]", "%d", "%d = ScatterND(%c, %i, %c)").empty());
  // Its last reader may, and then nobody before.
  CHECK(shared(cache, "%y, %d", update + "%e = Exp(%c)\n%y = Mul(%e, %d)") == "c > y, ");
  // Through a chain of steps and views; not where a result has another size or order.
  CHECK(shared(cache, "%f",
               update + "%e = Exp(%d)\n const %s: i64[1] = [-1]\n%r = Reshape(%e, %s)\n" +
                   "%f = Neg(%r)") == "c > f, ");
  CHECK(shared("%x: f32[n, 64], %r: f32[64]", "%y", "%y = Add(%x, %r)") == "x > y, ");
  // What is added lies in the output before the state is read.
  CHECK(shared("%q: f32[], %x: f32[8, 8]", "%y",
               "%p = ReduceSum(%x) {keepdims = 0}\n%y = Add(%q, %p)")
            .empty());
  CHECK(shared("%x: f32[64, 64]", "%y", "%y = Transpose(%x) {perm = [1, 0]}").empty());
  CHECK(shared("%x: f32[64, 64]", "%y", "%t = Transpose(%x) {perm = [1, 0]}\n%y = Add(%x, %t)")
            .empty());
  // A result that lies in a part of the output.
  CHECK(shared("%x: f32[4, 64], %z: f32[4, 64]", "%y",
               "%a = Exp(%x)\n%b = Exp(%z)\n%y = Concat(%a, %b) {axis = 0}")
            .find("z") == std::string::npos);
}

TEST_CASE("plan/in_place_steps: the sum of a residual block takes the place of what skips it") {
  const auto block = [](const std::string& tail) {
    Graph model = parse_graph(R"(graph g(%x: f32[1, 32, 28, 28]) -> (%r) {
  const %k: f32[64, 32, 1, 1] = splat 0.5
  const %v: f32[64, 64, 1, 1] = splat 0.25
  %a = Conv(%x, %k)
  %m = Conv(%a, %v)
  %b = Conv(%m, %v)
  %s = Add(%b, %a)
)" + tail + "\n}");
    return bound(std::move(model));
  };
  const Planned dies = block("  %r = GlobalAveragePool(%s)");
  REQUIRE(dies.plan->steps.size() == 4);
  CHECK(dies.place("a").starts_with("arena"));
  CHECK(dies.place("s") == dies.place("a"));
  CHECK(dies.place("m") != dies.place("a"));
  const Planned lives = block("  %t = Mul(%s, %a)\n  %r = GlobalAveragePool(%t)");
  CHECK(lives.place("s") != lives.place("a"));
}

TEST_CASE("plan/in_place_steps: nothing takes the place of what its own step multiplies") {
  Graph model = parse_graph(R"(graph g(%x: f32[1, 32, 28, 28]) -> (%r) {
  const %k: f32[64, 32, 1, 1] = splat 0.5
  const %v: f32[64, 64, 1, 1] = splat 0.25
  %a = Conv(%x, %k)
  %b = Conv(%a, %v)
  %s = Add(%b, %a)
  %r = GlobalAveragePool(%s)
})");
  const Planned p = bound(std::move(model));
  REQUIRE(p.plan->steps.size() == 3);
  CHECK(p.place("s") != p.place("a"));
}
