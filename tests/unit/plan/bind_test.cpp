// What a Bound takes over from one of the same plan for other sizes.
#include <doctest/doctest.h>

#include <map>

#include "ir/text.h"
#include "ops/infer.h"
#include "plan/bound.h"
#include "plan/planner.h"

using namespace xc;

namespace {

struct Binding {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const Bound> to(int64_t n, int64_t m, const Bound* like = nullptr) const {
    std::vector<int64_t> symbols;
    for (const PlanSymbol& symbol : plan->symbols) symbols.push_back(symbol.name == "n" ? n : m);
    return bind_segment(plan, 0, symbols, {.like = like});
  }
};

Binding planned(const char* text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  PlannerOptions options;
  options.post_ops = false;
  return {Planner(std::make_shared<const Graph>(std::move(graph)), cpu_backend(), options).build()};
}

/// The operators whose kernels both have.
std::string shared(const Bound& a, const Bound& b) {
  std::string out;
  REQUIRE(a.steps.size() == b.steps.size());
  for (size_t k = 0; k < a.steps.size(); ++k)
    if (a.steps[k].kernel == b.steps[k].kernel)
      out += std::string(a.plan->steps[a.steps[k].step]->spec.op->name) + " ";
  return out;
}

constexpr const char* kText = R"(graph g(%x: f32[n, 8], %k: f32[m, 8]) -> (%y, %z) {
  %e = Exp(%x)
  %t = Transpose(%k) {perm = [1, 0]}
  %s = MatMul(%e, %t)
  %y = Softmax(%s) {axis = -1}
  %z = Tanh(%e)
})";

}  // namespace

TEST_CASE("plan/bind: kernels of steps whose sizes are the same serve both") {
  const Binding binding = planned(kText);
  const auto first = binding.to(3, 5);
  CHECK(shared(*first, *binding.to(3, 6)) == "");
  CHECK(shared(*first, *binding.to(3, 6, first.get())) == "Exp Tanh ");
  CHECK(shared(*first, *binding.to(4, 5, first.get())) == "");
  CHECK(shared(*first, *binding.to(3, 5, first.get())) == "Exp MatMul Softmax Tanh ");
}

TEST_CASE("plan/bind: a Bound of another plan is like none") {
  const Binding binding = planned(kText), other = planned(kText);
  const auto first = binding.to(3, 5);
  CHECK(shared(*first, *other.to(3, 5, first.get())) == "");
}

TEST_CASE("plan/bind: sizes that do not fit are refused whatever else is like them") {
  // Elements of an input are sizes: the dims of both steps' operands stay.
  const Binding binding = planned(R"(graph g(%x: f32[n, 8], %s: i64[2]) -> (%y) {
  %e = Exp(%x)
  %y = Reshape(%e, %s)
})");
  const auto bind = [&](int64_t n, int64_t rows, int64_t columns, const Bound* like) {
    const std::map<uint32_t, int64_t> elements{{0, rows}, {1, columns}};
    std::vector<int64_t> symbols;
    for (const PlanSymbol& symbol : binding.plan->symbols)
      symbols.push_back(
          symbol.source == PlanSymbol::Source::kInputElement ? elements.at(symbol.index) : n);
    return bind_segment(binding.plan, 0, symbols, {.like = like});
  };
  const auto first = bind(4, 2, 16, nullptr);
  CHECK_NOTHROW(bind(4, 16, 2, first.get()));
  CHECK_THROWS_AS(bind(4, 3, 16, first.get()), Error);
}

TEST_CASE("plan/bind: what a segment keeps per value is about those that it uses") {
  constexpr int kSegments = 120;
  std::string text = "graph g(%x0: i64[n]) -> (%last, %x0s) {\n  const %one: i64[] = 1\n";
  for (int k = 0; k < kSegments; ++k)
    text += fmt::format(
        "  %where{0} = NonZero(%x{0})\n  const %axes{0}: i64[1] = [0]\n"
        "  %some{0} = Squeeze(%where{0}, %axes{0})\n  %x{1} = Add(%some{0}, %one)\n",
        k, k + 1);
  text += fmt::format("  %last = Neg(%x{})\n  %x0s = Neg(%x0)\n}}", kSegments);
  const Binding binding = planned(text.c_str());
  const auto& plan = binding.plan;
  REQUIRE(plan->segments.size() == kSegments + 1);
  size_t all = 0;
  for (uint32_t s = 0; s < plan->segments.size(); ++s) {
    const std::vector<int64_t> symbols(plan->segments[s].symbol_end, 7);
    const auto bound = bind_segment(plan, s, symbols, {});
    all += bound->operands.size();
    for (uint32_t k = plan->segments[s].first_step; k < plan->segments[s].end_step; ++k)
      for (const uint32_t v : plan->steps[k]->inputs)
        if (plan->values[v].rank_known) CHECK(bound->dims(v).size() == plan->values[v].dims.size());
    // What another segment makes.
    const uint32_t other = s == 0 ? plan->outputs[0] : plan->steps[0]->outputs[0];
    if (s != 1 && s + 1 != plan->segments.size()) CHECK(bound->dims(other).data() == nullptr);
  }
  CHECK(all <= 2 * plan->values.size());
}
