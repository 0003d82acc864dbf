// Quantised networks through whole sessions, compared with what onnxruntime made of them
// (make_quantised.py).
// Labels: tsan

#include <doctest/doctest.h>

#include <map>

#include "ir/text.h"
#include "ops/op_case.h"
#include "support/paths.h"
#include "support/sessions.h"

namespace xc::test {
namespace {

/// The case's graph as a model: inputs named x... stay, of any number of rows, the others become
/// weights. `fed`: the inputs that stay.
std::string model_text(const OpCase& problem, std::vector<Tensor>& fed) {
  const Graph& from = problem.graph;
  Graph out;
  std::map<ValueId, ValueId> ids{{kNone, kNone}};
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    const std::string& name = from.value(from.inputs[i]).name;
    const Tensor& actual = problem.inputs[i];
    if (name != "x" && name != "x2") {
      ids[from.inputs[i]] = out.add_constant(name, actual);
      continue;
    }
    SymDims dims = to_symbolic(actual.dims());
    dims[0] = Dim::symbol("n");
    ids[from.inputs[i]] = out.add_input(name, Type::tensor(actual.dtype(), dims));
    fed.push_back(actual);
  }
  for (NodeId id : from.order()) {
    Node node = from.node(id);
    for (ValueId& v : node.inputs) v = ids.at(v);
    for (ValueId& v : node.outputs)
      if (v != kNone) v = ids[v] = out.add_value(from.value(v).name);
    out.add_node(std::move(node));
  }
  for (ValueId v : from.outputs) out.outputs.push_back(ids.at(v));
  PrintOptions everything;
  everything.max_elements = INT64_MAX;
  return print(out, everything);
}

/// Bytes within a quantum, floats within the rounding of their sums.
void check_close(const Tensor& got, const Tensor& want) {
  REQUIRE(got.dtype() == want.dtype());
  REQUIRE(got.dims() == want.dims());
  const auto a = got.to_doubles(), b = want.to_doubles();
  const bool bytes = !is_float(got.dtype());
  int64_t apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::fabs(a[i] - b[i]) <= (bytes ? 1 : 2e-5 * (1 + std::fabs(b[i]))));
    apart += a[i] != b[i];
  }
  // A quantum now and then, not everywhere.
  if (bytes) CHECK(apart * 50 <= static_cast<int64_t>(a.size()));
}

TEST_CASE("ops/quantised: networks agree with onnxruntime and run on integer kernels") {
  for (OpCase& problem : load_cases(source_dir() + "/tests/ops/quantised/models.json")) {
    CAPTURE(problem.name);
    std::vector<Tensor> fed, first;
    const std::string text = model_text(problem, fed);
    for (const JitMode mode : {JitMode::kOff, JitMode::kSync})
      for (const int64_t threads : {1, 2}) {
        Config config;
        config.jit = static_cast<int64_t>(mode);
        config.threads = threads;
        const auto session = testing::session_of(text, config);
        for (int repeat = 0; repeat < 3; ++repeat) {
          const auto got = testing::run(*session, fed);
          check_close(got[0], problem.expected[0]);
          if (is_float(got[0].dtype())) continue;
          if (first.empty()) first = got;
          CHECK(std::memcmp(first[0].data(), got[0].data(),
                            static_cast<size_t>(got[0].byte_size())) == 0);
        }
        const std::string plan = session->explain({}, false);
        CAPTURE(plan);
        const char* const kernel = problem.name.starts_with("blocked") ? "xc.block_matmul"
                                   : problem.name == "activation"      ? "xc.byte_table"
                                                                       : ".integer_";
        CHECK(plan.find(kernel) != std::string::npos);
        CHECK(plan.find(" Conv ") == std::string::npos);
      }
  }
}

}  // namespace
}  // namespace xc::test
