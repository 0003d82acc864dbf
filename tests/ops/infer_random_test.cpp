// Symbolic inference against concrete inference of the same node at other sizes.

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "ops/infer.h"
#include "ops/op_case.h"

namespace xc::test {

TEST_CASE("ops/infer: symbolic dims are those of concrete inference at random sizes") {
  std::mt19937 random(5);
  int compared = 0;
  for_each_case([&](OpCase& problem) {
    if (problem.graph.order().size() != 1) return;
    Sizes sizes;
    Graph graph = generalised(problem, sizes);
    if (sizes.empty()) return;
    try {
      infer_types(graph);
    } catch (const Error&) {
      return;  // a size that this problem needs to be a number
    }
    const Node& node = graph.node(graph.order()[0]);
    for (int round = 0; round < 4; ++round) {
      for (auto& [symbol, size] : sizes) size = static_cast<int64_t>(random() % 9);
      const auto lookup = [&](const std::string& s) {
        const auto it = sizes.find(s);
        return it == sizes.end() ? std::nullopt : std::optional(it->second);
      };
      std::vector<Tensor> inputs;
      for (ValueId v : node.inputs) {
        if (v == kNone || graph.value(v).is_constant()) {
          inputs.push_back(v == kNone ? Tensor{} : graph.value(v).constant);
          continue;
        }
        Dims dims;
        for (const Dim& d : *graph.value(v).type.dims) dims.push_back(*d.evaluate(lookup));
        inputs.emplace_back(graph.value(v).type.dtype, dims);
        std::fill_n(static_cast<char*>(inputs.back().data()), inputs.back().byte_size(), '\0');
      }
      std::vector<Type> concrete;
      try {
        concrete = infer_concrete(node, inputs);
      } catch (const Error&) {
        continue;  // these sizes do not go together
      }
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        if (node.outputs[k] == kNone) continue;
        const Type& symbolic = graph.value(node.outputs[k]).type;
        CHECK(symbolic.dtype == concrete[k].dtype);
        if (!symbolic.dims) continue;
        REQUIRE(symbolic.dims->size() == concrete[k].dims->size());
        for (size_t axis = 0; axis < symbolic.dims->size(); ++axis) {
          CAPTURE(symbolic.text());
          CAPTURE(concrete[k].text());
          const auto size = (*symbolic.dims)[axis].evaluate(lookup);
          if (!size) continue;  // only a run can tell
          CHECK(*size == (*concrete[k].dims)[axis].value());
          ++compared;
        }
      }
    }
  });
  CHECK(compared > 1000);
}

}  // namespace xc::test
