// Every tests/golden/passes/*.txt: `# pass: NAME[, NAME...]`, a graph, a line of dashes, the graph
// those passes make of it. `# pass: all` is the whole pipeline. `# inexact: 0.01` compares values
// within that. XC_BLESS=1 rewrites what stands below the dashes.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "passes/pipeline.h"
#include "support/evaluate.h"
#include "support/golden.h"
#include "support/paths.h"

using namespace xc;

namespace {

constexpr const char* kRuler = "--------\n";

std::string directive(const std::string& text, const std::string& key) {
  const std::string start = "# " + key;
  const size_t at = text.find(start);
  if (at == std::string::npos) return {};
  return text.substr(at + start.size(), text.find('\n', at) - at - start.size());
}

/// `readers`: operators whose kernels read bf16, as a backend would say; empty = none do.
void run_passes(Graph& graph, std::string names, const std::string& readers) {
  std::replace(names.begin(), names.end(), ',', ' ');
  std::istringstream list(names.substr(names.find(':') + 1));
  PassOptions options;
  options.verify_each = true;
  if (!readers.empty())
    options.reads_bf16 = [&](const Graph&, const Node& node) {
      return (readers + " ").find(" " + std::string(node.op->name) + " ") != std::string::npos;
    };
  for (std::string name; list >> name;) {
    if (name == "all")
      optimise(graph, options);
    else
      run_pass(graph, find_pass(name), options);
  }
}

/// What the rewritten graph computes is what the graph computed.
void check_meaning(const Graph& before, const Graph& after, double tolerance) {
  REQUIRE(before.inputs.size() == after.inputs.size());
  for (size_t i = 0; i < before.outputs.size(); ++i)
    CHECK(before.value(before.outputs[i]).name == after.value(after.outputs[i]).name);
  for (int64_t extent : {3, 4, 1, 0}) {
    CAPTURE(extent);
    std::vector<Tensor> inputs, wanted;
    try {
      inputs = test::random_inputs(before, extent, 7);
      wanted = test::evaluate(before, inputs);
    } catch (const Error& error) {  // sizes that do not fit the model, where there is nothing
      CHECK_MESSAGE((extent == 0 || error.status() == Status::kUnsupported),
                    error.message() << " " << error.where());
      continue;
    }
    try {
      const std::string difference =
          test::difference(wanted, test::evaluate(after, inputs), tolerance);
      CHECK_MESSAGE(difference.empty(), difference);
    } catch (const Error& error) {
      FAIL_CHECK(error.message() << " " << error.where());
    }
  }
}

void run_file(const std::string& name) {
  const std::string relative = "passes/" + name;
  const std::string text = test::read_text(test::source_dir() + "/tests/golden/" + relative);
  const std::string input = text.substr(0, text.find(kRuler));
  Graph graph = parse_graph(input);
  infer_types(graph);
  Graph before = graph.clone();
  run_passes(graph, directive(input, "pass"), directive(input, "reads bf16:"));
  verify(graph);
  const std::string inexact = directive(input, "inexact:");
  check_meaning(before, graph, inexact.empty() ? 2e-6 : std::stod(inexact));
  PrintOptions options;
  options.origins = input.find("# origins") != std::string::npos;
  test::check_golden(relative, input + kRuler + print(graph, options));
}

}  // namespace

TEST_CASE("passes/golden: every pass rewrites as reviewed and keeps what the graph computes") {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/golden/passes"))
    if (entry.path().extension() == ".txt") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  CHECK(names.size() > 10);
  for (const std::string& name : names) {
    CAPTURE(name);
    try {
      run_file(name);
    } catch (const Error& error) {
      FAIL_CHECK(name << ": " << error.message() << " (" << error.where() << ")");
    }
  }
}
