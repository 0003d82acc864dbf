// Between two passes of a round a value may have no type: what was just added and could not be
// inferred on the spot. Every pass takes graphs as they then are, without the types of some values,
// or of all that nodes give.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.h"
#include "formats/format.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "support/golden.h"
#include "support/paths.h"

using namespace xc;

namespace {

/// What is forgotten of the values that nodes give.
struct Forgotten {
  const char* name;
  uint32_t one_in;  ///< of so many values, by their number
  uint32_t first;
  bool dims_only;
};
constexpr Forgotten kForgotten[] = {
    {"all types", 1, 0, false},       {"every second type", 2, 0, false},
    {"the other types", 2, 1, false}, {"every third type", 3, 1, false},
    {"all dims", 1, 0, true},         {"every second value's dims", 2, 1, true},
};

void forget(Graph& graph, const Forgotten& what) {
  for (NodeId id : graph.order()) {
    for (ValueId v : graph.node(id).outputs) {
      if (v == kNone || v % what.one_in != what.first) continue;
      Value& value = graph.value(v);
      value.elements.reset();
      if (what.dims_only)
        value.type.dims.reset();
      else
        value.type = Type{};
    }
    for (const auto& body : graph.node(id).subgraphs) forget(*body, what);
  }
}

/// As the runner does it, innermost bodies first, but for inference.
bool run_untyped(Graph& graph, const Pass& pass, PassContext& context) {
  bool changed = false;
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order)
    for (const auto& body : graph.node(id).subgraphs) changed |= run_untyped(*body, pass, context);
  return pass.run(graph, context) || changed;
}

std::vector<const Pass*> all_passes() {
  std::vector<const Pass*> out;
  for (const Stage& stage : portable_pipeline())
    for (const Pass& pass : stage.passes)
      if (!pass.whole_model && std::none_of(out.begin(), out.end(), [&](const Pass* other) {
            return other->run == pass.run;
          }))
        out.push_back(&pass);
  return out;
}

PassOptions options_of(bool tolerant) {
  PassOptions options;
  options.tolerant = tolerant;
  options.reads_bf16 = [](const Graph&, const Node& node) {
    return node.op->name == "MatMul" || node.op->name == "Gemm" || node.op->name == "Conv";
  };
  return options;
}

/// What rounds, or no longer rounds, to halves or bytes between products.
double tolerance_of(const Pass& pass) {
  constexpr std::array<std::string_view, 4> kRounding = {"apply-rules", "fuse-weights",
                                                         "narrow-values", "widen-halves"};
  return std::find(kRounding.begin(), kRounding.end(), pass.name) != kRounding.end() ? 5e-2 : 1e-4;
}

/// `wanted`: what the graph gives for `inputs`; empty: nothing is computed.
void check_pass(const Graph& graph, const Pass& pass, const Forgotten& what, bool tolerant,
                const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted) {
  const std::string where = fmt::format("{} without {}: ", pass.name, what.name);
  Graph now = graph.clone();
  forget(now, what);
  const PassOptions options = options_of(tolerant);
  PassContext context(options);
  try {
    if (!run_untyped(now, pass, context)) return;
    verify(now);
    infer_types(now);
    if (wanted.empty()) return;
    const std::string difference =
        test::difference(wanted, test::evaluate(now, inputs), tolerance_of(pass));
    CHECK_MESSAGE(difference.empty(), where, difference);
  } catch (const Error& error) {
    FAIL_CHECK(where << error.message() << " (" << error.where() << ")");
  }
}

void check_graph(const Graph& graph, bool computes) {
  std::vector<Tensor> inputs, wanted;
  if (computes) try {
      inputs = test::random_inputs(graph, 3, 11);
      wanted = test::evaluate(graph, inputs);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.status() == Status::kUnsupported, error.message());
    }
  for (const Pass* pass : all_passes())
    for (const Forgotten& what : kForgotten)
      for (const bool tolerant : {true, false})
        check_pass(graph, *pass, what, tolerant, inputs, wanted);
}

}  // namespace

TEST_CASE("passes/untyped: the graphs of the goldens, each by all passes") {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/golden/passes")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    const std::string text = test::read_text(entry.path().string());
    Graph graph = parse_graph(text.substr(0, text.find("--------\n")));
    infer_types(graph);
    check_graph(graph, true);
    ++count;
  }
  CHECK(count > 10);
}

TEST_CASE("passes/untyped: networks") {
  const std::string folder = "bench/small";
  if (!test::have_shared(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(test::shared_dir() + "/" + folder)) {
    const std::string path = entry.path().string() + "/model.onnx";
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(path);
    Graph graph = load_model(path);
    infer_types(graph);
    check_graph(graph, false);
  }
}
