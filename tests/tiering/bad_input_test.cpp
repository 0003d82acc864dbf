// Graphs and data at the edge of what is reasonable: they run, agree with the references and take
// sane time.
#include <doctest/doctest.h>

#include <array>
#include <chrono>

#include "ir/text.h"
#include "ops/infer.h"
#include "support.h"
#include "support/evaluate.h"
#include "support/graph_fuzz.h"
#include "tier/engine_factory.h"

namespace {

using namespace xc;
using namespace xc::test;

void check_everywhere(GraphFuzzer& fuzzer, const char* what, const std::string& text,
                      const std::vector<std::map<std::string, int64_t>>& sizes, bool specials) {
  Problem problem{parse_graph(text), {}};
  infer_types(problem.graph);
  for (const auto& symbols : sizes)
    problem.runs.push_back(problem_inputs(problem.graph, symbols, 3, specials));
  std::vector<std::string> names;
  for (const Way& way : fuzzer.ways()) names.push_back(way.name);
  if (const Failure failure = fuzzer.check(problem, names))
    FAIL_CHECK(fuzzer.report(problem, failure, what));
}

/// Elementwise work on either side of a turned space, with a broadcast in every other axis, and
/// rows. Axes but the first have `size` elements, or one where `every` does not divide their
/// number.
std::string of_rank(size_t rank, int size, size_t every) {
  std::string dims, other, perm;
  for (size_t k = 0; k < rank; ++k) {
    const size_t from = rank - 1 - k;
    const char* comma = k ? ", " : "";
    dims += comma + (k == 0 ? "n" : std::to_string(k % every ? 1 : size));
    other += comma + std::to_string(k % 2 && from != 0 && from % every == 0 ? size : 1);
    perm += comma + std::to_string(from);
  }
  return fmt::format(R"(graph g(%x: f32[{}], %b: f32[{}]) -> (%y, %z) {{
  const %axes: i64[2] = [-1, -2]
  %t = Sigmoid(%x)
  %u = Mul(%t, %x)
  %p = Transpose(%u) {{perm = [{}]}}
  %q = Tanh(%p)
  %w = Mul(%q, %p)
  %y = Add(%w, %b)
  %m = ReduceMax(%y, %axes)
  %d = Sub(%y, %m)
  %z = Exp(%d)
}})",
                     dims, other, perm);
}

/// `length` operators one after another; every third one reads the input too.
std::string chain(int64_t length) {
  std::string out = "graph chain(%x: f32[n, 64]) -> (%y) {\n", last = "x";
  constexpr std::array<const char*, 4> kOps{"Sigmoid", "Neg", "Tanh", "Abs"};
  for (int64_t k = 0; k < length; ++k) {
    const std::string name = k + 1 == length ? "y" : fmt::format("v{}", k);
    out += k % 3 == 2
               ? fmt::format("  %{} = Add(%{}, %x)\n", name, last)
               : fmt::format("  %{} = {}(%{})\n", name, kOps[static_cast<size_t>(k % 4)], last);
    last = name;
  }
  return out + "}\n";
}

}  // namespace

TEST_CASE("tiering/bad_input: ranks up to the limit") {
  GraphFuzzer fuzzer(all_ways());
  check_everywhere(fuzzer, "rank 7", of_rank(7, 3, 1), {{{"n", 2}}, {{"n", 0}}}, false);
  check_everywhere(fuzzer, "rank 12", of_rank(12, 2, 1), {{{"n", 1}}}, false);
  check_everywhere(fuzzer, "rank 16", of_rank(16, 3, 4), {{{"n", 5}}, {{"n", 1}}}, true);
  // Handles end at 16 dims; a graph may have more.
  check_everywhere(fuzzer, "rank 40", of_rank(40, 2, 13), {{{"n", 3}}}, false);
}

TEST_CASE("tiering/bad_input: every kind of region over no elements") {
  GraphFuzzer fuzzer(all_ways());
  const std::vector<std::map<std::string, int64_t>> sizes{
      {{"n", 0}, {"s", 5}}, {{"n", 3}, {"s", 0}}, {{"n", 0}, {"s", 0}}, {{"n", 3}, {"s", 5}}};
  check_everywhere(fuzzer, "cell", R"(graph g(%x: f32[n, s], %b: f32[s]) -> (%y, %z) {
  %t = Tanh(%x)
  %y = Add(%t, %b)
  %z = Mul(%y, %x)
})",
                   sizes, true);
  check_everywhere(fuzzer, "row", R"(graph g(%x: f32[n, s], %r: f16[n, s]) -> (%y, %v, %h, %p) {
  const %axes: i64[1] = [-1]
  %e = Exp(%x)
  %v = ReduceSum(%e, %axes) {keepdims = 0}
  %m = ReduceMean(%e, %axes)
  %y = Sub(%e, %m)
  %h = Softmax(%r) {axis = -1}
  %p = ReduceProd(%r, %axes)
})",
                   sizes, false);
  check_everywhere(fuzzer, "aggregate",
                   R"(graph g(%x: f32[n, s], %k: i32[n, s]) -> (%a, %b, %c, %d) {
  %e = Mul(%x, %x)
  %a = ReduceSum(%e) {keepdims = 0}
  %b = ReduceMean(%e)
  %t = Neg(%k)
  %c = ReduceSum(%t) {keepdims = 0}
  %d = ReduceProd(%t) {keepdims = 0}
})",
                   sizes, false);
  check_everywhere(fuzzer, "product", R"(graph g(%x: f32[n, s], %w: f32[s, 4], %b: f32[4]) -> (%y) {
  %p = MatMul(%x, %w)
  %q = Add(%p, %b)
  %y = Gelu(%q)
})",
                   sizes, false);
}

TEST_CASE("tiering/bad_input: a long dim beside one of no elements costs nothing") {
  for (const char* last : {"%y = Exp(%u)", "%y = Softmax(%u) {axis = -1}"}) {
    const std::string text = fmt::format(
        "graph g(%x: f32[n, m], %w: f32[m]) -> (%y) {{\n  %t = Mul(%x, %w)\n  %u = Neg(%t)\n"
        "  {}\n}}",
        last);
    Config config;
    config.set_jit(JitMode::kSync);
    testing::Fixture fixture(text, config, {}, create_interpreting_compiler());
    (void)fixture.run({testing::ramp({3, 5}, 1, 0), testing::ramp({5}, 1, 0)});
    CHECK(fixture.session->profile().swapped == 1);
    const int64_t start = steady_ns();
    const Dims dims{int64_t{1} << 40, 0};
    CHECK(fixture.run({Tensor(DType::kF32, dims), Tensor(DType::kF32, {0})})[0].dims() == dims);
    CHECK(steady_ns() - start < 1'000'000'000);
  }
}

TEST_CASE("tiering/bad_input: a chain of twenty thousand operators loads and runs in sane time") {
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = parse_graph(chain(20'000));
  const Tensor x = testing::ramp({3, 64}, 2, 0.3);
  const std::vector<Tensor> want = evaluate(graph, {x});
  std::vector<JitMode> modes{JitMode::kOff};
#if XC_HAVE_JIT
  modes.push_back(JitMode::kSync);
#endif
  for (const JitMode mode : modes) {
    Config config;
    config.threads = 1;
    config.jit = static_cast<int64_t>(mode);
    Session session(Model::create(create_engine(config, {}), graph.clone()), {});
    CHECK(compare_outputs(graph, want, testing::run(session, {x})) == "");
    if (mode != JitMode::kSync) continue;
    // Cut at the cap of a region, and every part compiled.
    const ProfileSummary profile = session.profile();
    int64_t places = 0;
    for (const RegionSummary& region : profile.regions) {
      CHECK(region.state == "live");
      places += region.uses;
    }
    CHECK(places >= 20'000 / 256);
    CHECK(places <= 20'000 / 16);  // at the cap of nodes, or of code before that
  }
  // Two seconds on an idle machine; a step of quadratic cost takes minutes.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(120));
}
