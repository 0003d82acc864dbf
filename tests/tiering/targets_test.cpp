// Over all instruction sets of the machine: what the rewrite rules make of a graph gives what f64
// gives for the graph as written, and the code of every region stays small.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <set>

#include "backends/backend.h"
#include "base/cpu_info.h"
#include "formats/format.h"
#include "ops/infer.h"
#include "passes/pipeline.h"
#include "passes/rules/rule_set.h"
#include "plan/planner.h"
#include "support.h"
#include "support/evaluate.h"
#include "support/golden.h"
#include "support/paths.h"
#include "tier/engine_factory.h"

#if XC_HAVE_JIT

namespace {

using namespace xc;
using namespace xc::testing;

int64_t targets() {
  return static_cast<int64_t>(cpu_info().isa) + 1;  // Config::isa: 1 = baseline, ...
}

/// The input graphs of tests/golden/passes/rules_*.txt by file name.
std::vector<std::pair<std::string, std::string>> rule_graphs() {
  std::vector<std::pair<std::string, std::string>> out;
  const std::string folder = test::source_dir() + "/tests/golden/passes";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name.rfind("rules_", 0) != 0) continue;
    const std::string text = test::read_text(file.path().string());
    out.emplace_back(name, text.substr(0, text.find("--------\n")));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string in_f64(std::string text) {
  for (const std::string type : {"bf16", "f16", "f32"})
    for (size_t at = 0; (at = text.find(type, at)) != std::string::npos;)
      text.replace(at, type.size(), "f64");
  return text;
}
/// Of results that went through values of the type.
double tolerance(DType type) {
  return type == DType::kBF16 ? 3e-2 : type == DType::kF16 ? 1e-2 : 1e-4;
}

Tensor converted(const Tensor& from, DType type) {
  Tensor out(type, from.dims());
  const std::vector<double> values = from.to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    store_double(out.data(), type, static_cast<int64_t>(i), values[i]);
  return out;
}

/// `slack`: times the tolerance of the result's type.
void check_against_f64(Session& session, const Graph& exact, const std::vector<Tensor>& inputs,
                       double slack = 1) {
  const auto in_f64 = [](const Tensor& t) {
    return is_float(t.dtype()) ? converted(t, DType::kF64) : t;
  };
  std::vector<Tensor> wide;
  for (const Tensor& t : inputs) wide.push_back(in_f64(t));
  const auto want = test::evaluate(exact, wide);
  const auto have = run(session, inputs);
  REQUIRE(have.size() == want.size());
  for (size_t k = 0; k < want.size(); ++k)
    CHECK(test::difference({in_f64(have[k])}, {want[k]}, slack * tolerance(have[k].dtype())) == "");
}

/// Code bytes of the largest region that a graph's base plan leaves to fuse; how many there are.
std::pair<int64_t, int> largest_code(Graph model, int64_t isa) {
  infer_types(model);
  optimise(model, {});
  const auto graph = std::make_shared<const Graph>(std::move(model));
  Planner planner(graph, cpu_backend(), {});
  FusionOptions options;
  const auto base = planner.build();
  options.taken = absorbed_nodes(*base);
  options.in_place = base->in_place;
  const auto compiler = create_jit_compiler(isa, 64 << 20, false);
  int64_t largest = 0;
  int count = 0;
  for (const Region& region : find_regions(*graph, options)) {
    RegionCode code;
    if (!lower_region(*graph, region, planner.region_spec(region), compiler->target(), code).yes())
      continue;
    int64_t bytes = 0;
    for (const RegionPhase& phase : code.phases)
      bytes += static_cast<int64_t>(compiler->compile(phase.kernel)->image().code.size());
    CHECK(bytes > 0);
    largest = std::max(largest, bytes);
    ++count;
  }
  return {largest, count};
}

constexpr int64_t kMostCode = 16 << 10;

}  // namespace

TEST_CASE("tiering/targets: what every rule makes of a graph agrees with f64 on every target") {
  std::set<std::string> fired;
  for (const auto& [name, text] : rule_graphs()) {
    CAPTURE(name);
    const Graph exact = parse_graph(in_f64(text));
    const Graph graph = parse_graph(text);
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(isa);
      Config config;
      config.set_jit(JitMode::kSync);
      config.isa = isa;
      config.threads = 1;
      const auto session = session_of(text, config);
      const Graph& rewritten = session->program().graph();
      for (NodeId n : rewritten.order()) fired.insert(std::string(rewritten.node(n).made_by));
      for (const int64_t extent : {3, 16, 37}) {
        CAPTURE(extent);
        check_against_f64(*session, exact, test::random_inputs(graph, extent, 7));
      }
    }
  }
  for (const Rule& rule : builtin_rules().rules()) {
    const bool found = std::any_of(fired.begin(), fired.end(), [&](const std::string& label) {
      return label.find(rule.name) != std::string::npos;
    });
    CHECK_MESSAGE(found, "no graph of tests/golden/passes/rules_* keeps what rule ", rule.name,
                  " makes");
  }
}

TEST_CASE("tiering/targets: reductions over any neighbouring axes agree with f64 on every target") {
  // T: the type. Behind each graph how many regions it is.
  const struct {
    const char* text;
    int regions;
  } cases[] = {
      {R"(graph softmax(%x: T[n, 21, s, 5], %c: T[21, 1, 1]) -> (%y) {
  %a = Mul(%x, %c)
  %y = Softmax(%a) {axis = 1}
})",
       1},
      {R"(graph pooled(%x: T[n, s, 70], %w: T[n, s, 1], %b: T[70]) -> (%y, %z, %m) {
  const %axes: i64[1] = [1]
  %a = Mul(%x, %w)
  %y = ReduceSum(%a, %axes) {keepdims = 0}
  %z = ReduceMax(%a, %axes) {keepdims = 1}
  %d = Sub(%a, %z)
  %m = Add(%d, %b)
})",
       1},
      {R"(graph first(%x: T[s, n, 3], %y: T[s, n, 3]) -> (%l, %q) {
  const %axes: i64[1] = [0]
  %d = Sub(%x, %y)
  %l = ReduceL2(%d, %axes) {keepdims = 0}
  %q = ReduceProd(%d, %axes) {keepdims = 0}
})",
       1},
      {R"(graph norm(%x: T[2, n, s, 16], %g: T[16]) -> (%y) {
  const %axes: i64[2] = [1, 2]
  const %eps: T[] = 0.01
  %m = ReduceMean(%x, %axes) {keepdims = 1}
  %d = Sub(%x, %m)
  %q = Mul(%d, %d)
  %v = ReduceMean(%q, %axes) {keepdims = 1}
  %e = Add(%v, %eps)
  %r = Sqrt(%e)
  %z = Div(%d, %r)
  %y = Mul(%z, %g)
})",
       1},
      // The memory of what is reduced lies the other way round.
      {R"(graph turned(%x: T[n, s, 40]) -> (%y) {
  %e = Exp(%x)
  %t = Transpose(%e) {perm = [0, 2, 1]}
  %y = Softmax(%t) {axis = -1}
})",
       1},
  };
  const int64_t sizes[] = {1, 3, 17, 70};
  for (const auto& [text, regions] : cases)
    for (const std::string type : {"f32", "f64", "f16", "bf16"}) {
      const auto typed = [&](std::string out) {
        for (size_t at = 0; (at = out.find("T[", at)) != std::string::npos; at += type.size())
          out.replace(at, 1, type);
        return out;
      };
      CAPTURE(typed(text));
      const Graph graph = parse_graph(typed(text)), exact = parse_graph(in_f64(typed(text)));
      for (int64_t isa = 1; isa <= targets(); ++isa)
        for (const int64_t threads : {1, 2}) {
          CAPTURE(isa);
          Config config;
          config.set_jit(JitMode::kSync);
          config.isa = isa;
          config.threads = threads;
          const auto session = session_of(typed(text), config);
          for (const int64_t extent : sizes) {
            CAPTURE(extent);
            check_against_f64(*session, exact, test::random_inputs(graph, extent, 11), 4);
          }
          INFO(session->explain({}, false));
          CHECK(session->profile().compiled_regions >= regions);
        }
    }
}

TEST_CASE("tiering/targets: softmax of NaN, infinities and what vanishes, on every target") {
  // Maxima pass NaN over, and powers are of numbers to 0: of a row with a NaN all must be NaN
  // still.
  const std::vector<std::string> texts{
      R"(graph rows(%x: f32[6, s], %m: f32[s]) -> (%y) {
  %a = Add(%x, %m)
  %y = Softmax(%a) {axis = -1}
})",
      R"(graph abreast(%x: f32[s, 6], %m: f32[s, 1]) -> (%y) {
  %a = Add(%x, %m)
  %y = Softmax(%a) {axis = 0}
})",
      R"(graph wide(%x: f32[s, 64], %m: f32[s, 1]) -> (%y) {
  %a = Add(%x, %m)
  %y = Softmax(%a) {axis = 0}
})",
      R"(graph logarithms(%x: f32[6, s], %m: f32[s]) -> (%y, %z) {
  const %axes: i64[1] = [1]
  %a = Add(%x, %m)
  %y = LogSoftmax(%a) {axis = -1}
  %z = ReduceLogSumExp(%a, %axes) {keepdims = 0}
})",
      R"(graph attention(%x: f32[6, s], %m: f32[s], %v: f32[s, 8]) -> (%y) {
  const %i: f32[6, 6] = [1, 0, 0, 0, 0, 0,  0, 1, 0, 0, 0, 0,  0, 0, 1, 0, 0, 0,
                         0, 0, 0, 1, 0, 0,  0, 0, 0, 0, 1, 0,  0, 0, 0, 0, 0, 1]
  %a = MatMul(%i, %x)
  %b = Add(%a, %m)
  %p = Softmax(%b) {axis = -1}
  %y = MatMul(%p, %v)
})"};
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::string& text : texts) {
    const Graph graph = parse_graph(text), exact = parse_graph(in_f64(text));
    const bool attention = text.find("attention") != std::string::npos;
    for (int64_t isa = 1; isa <= targets(); ++isa)
      for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
        for (const int64_t extent : {1, 5, 16, 37, 130}) {
          CAPTURE(text);
          CAPTURE(isa);
          CAPTURE(extent);
          Config config;
          config.jit = static_cast<int64_t>(mode);
          config.isa = isa;
          config.threads = 1;
          const auto session = session_of(text, config);
          std::vector<Tensor> inputs = test::random_inputs(graph, extent, 13);
          const int64_t step = inputs[0].dims()[0] == 6 ? extent : 1;  // of the six, to the next
          const int64_t along = step == 1 ? inputs[0].dims()[1] : 1;
          const auto set = [&](int64_t which, int64_t at, float value) {
            inputs[0].as<float>()[which * step + at * along] = value;
          };
          set(0, extent - 1, -95);  // a denormal power, beside numbers of some 1
          set(1, extent / 2, -3e38f);
          // A product with them would be NaN in all rows.
          if (attention) {
            inputs[1].as<float>()[extent / 3] = -inf;
          } else {
            set(2, extent / 2, -inf);
            set(3, 0, NAN);
            set(4, extent - 1, NAN), set(4, 0, inf);
            for (int64_t k = 0; k < extent; ++k) set(5, k, k % 2 ? NAN : -inf);
          }
          check_against_f64(*session, exact, inputs);
          if (mode == JitMode::kSync) CHECK(session->profile().compiled_regions >= 1);
        }
  }
}

TEST_CASE("tiering/targets: the code of every region stays under 16 KB with AVX2 or better") {
  // Long chains, norms, and products with a middle, in all types that products have.
  std::vector<std::string> texts;
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    std::string chain = fmt::format("graph c(%x: {0}[n, 96], %y: {0}[96]) -> (%v99) {{\n", type);
    for (int k = 0; k < 100; ++k)
      chain += fmt::format("  %v{} = {}({}{})\n", k,
                           k % 9 == 4 ? "Tanh"
                           : k % 2    ? "Mul"
                                      : "Add",
                           k ? "%v" + std::to_string(k - 1) : "%x", k % 9 == 4 ? "" : ", %y");
    texts.push_back(chain + "}");
    texts.push_back(fmt::format(R"(graph a(%q: {0}[b, 12, s, 64], %k: {0}[b, 12, s, 64],
    %v: {0}[b, 12, s, 64], %m: {0}[b, 1, 1, s]) -> (%y) {{
  const %c: {0}[] = 0.125
  %t = Transpose(%k) {{perm = [0, 1, 3, 2]}}
  %a = MatMul(%q, %t)
  %d = Mul(%a, %c)
  %e = Add(%d, %m)
  %p = Softmax(%e) {{axis = -1}}
  %y = MatMul(%p, %v)
}})",
                                type));
  }
  for (const std::string& text : texts)
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(text);
      CAPTURE(isa);
      const auto [bytes, count] = largest_code(parse_graph(text), isa);
      CHECK(count >= 1);
      // Without fma every step of a polynomial is two: no bound there.
      if (isa > 1) CHECK(bytes < kMostCode);
    }
}

TEST_CASE("tiering/targets: halves are converted by one function where no instruction does it") {
  const auto bytes_of = [](const char* type) {
    return largest_code(parse_graph(fmt::format(R"(graph g(%x: {0}[m, n], %y: {0}[m, n]) -> (%z) {{
  %a = Mul(%x, %y)
  %b = Add(%a, %x)
  %c = Sub(%b, %y)
  %d = Mul(%c, %b)
  %z = Softmax(%d) {{axis = -1}}
}})",
                                                type)),
                        1)
        .first;
  };
  CHECK(bytes_of("f16") < 2 * bytes_of("f32"));
}

TEST_CASE("tiering/targets: regions of the small networks stay under 16 KB on every target") {
  if (!test::have_shared("bench/small")) return;
  int regions = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(test::shared_dir() + "/bench/small")) {
    const std::string path = folder.path().string() + "/model.onnx";
    if (!std::filesystem::exists(path)) continue;
    for (int64_t isa = 1; isa <= targets(); ++isa) {
      CAPTURE(path);
      CAPTURE(isa);
      const auto [bytes, count] = largest_code(load_model(path), isa);
      CHECK(bytes < kMostCode);
      regions += count;
    }
  }
  CHECK(regions > 0);
}

#endif
