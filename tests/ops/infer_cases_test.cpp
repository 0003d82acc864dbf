// What inference and expansions say, against the problems that suite_test.cpp runs.

#include <doctest/doctest.h>

#include <map>

#include "ir/patch.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "ops/op_case.h"

using namespace xc;
using namespace xc::test;

namespace {

void check_outputs(const OpCase& each, const std::vector<Tensor>& actual) {
  REQUIRE(actual.size() == each.expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(each, i, actual[i]) == "");
  }
}

}  // namespace

// Every dim becomes a symbol; the inferred expressions must give the sizes the run had.
TEST_CASE("ops/infer: symbolic sizes agree with those of a run") {
  for_each_case([](OpCase& each) {
    Graph& graph = each.graph;
    std::map<std::string, int64_t> values;
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Tensor& actual = each.inputs[i];
      Value& value = graph.value(graph.inputs[i]);
      if (is_integer(actual.dtype()) && actual.rank() <= 1) {  // may choose shapes: by value
        int64_t k = 0;
        for (int64_t v : actual.to_int64s()) values[fmt::format("{}[{}]", value.name, k++)] = v;
        continue;
      }
      SymDims dims;
      for (int64_t size : actual.dims()) {
        const std::string symbol = fmt::format("d{}", values.size());
        values[symbol] = size;
        dims.push_back(Dim::symbol(symbol));
      }
      value.type.dims = dims;
    }
    infer_types(graph);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const Type& type = graph.value(graph.outputs[i]).type;
      CAPTURE(type.text());
      CHECK(type.dtype == each.expected[i].dtype());
      if (!type.dims) continue;  // a rank that follows from a size
      REQUIRE(type.dims->size() == each.expected[i].dims().size());
      for (size_t k = 0; k < type.dims->size(); ++k) {
        const auto size = (*type.dims)[k].evaluate([&](const std::string& s) {
          const auto it = values.find(s);
          return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
        });
        if (size) CHECK(*size == each.expected[i].dims()[k]);  // none: only the run can tell
      }
    }
  });
}

TEST_CASE("ops/expand: simpler ops give the same values") {
  int expanded = 0;
  for_each_case([&](OpCase& each) {
    infer_types(each.graph);
    Patch patch(each.graph, "expand");
    for (NodeId id : each.graph.order()) {
      const Node& node = each.graph.node(id);
      if (!node.op->expand) continue;
      const auto results = node.op->expand(each.graph, node, patch);
      if (results.empty()) continue;
      ++expanded;
      REQUIRE(results.size() == node.outputs.size());
      for (size_t k = 0; k < results.size(); ++k)
        if (node.outputs[k] != kNone) patch.replace(node.outputs[k], results[k]);
      patch.remove(id);
    }
    if (patch.empty()) return;
    const auto types = [&] {
      std::vector<std::string> out;
      for (ValueId id : each.graph.outputs) out.push_back(each.graph.value(id).type.text());
      return out;
    };
    const auto before = types();
    patch.apply();
    infer_types(each.graph);
    CHECK(types() == before);
    check_outputs(each, run_references(each.graph, each.inputs));
  });
  CHECK(expanded > 0);
}

TEST_CASE("ops/expand: LpPool whose last windows hang over the edge") {
  for (const char* window :
       {"kernel_shape = [3, 2], strides = [2, 3], ceil_mode = 1",
        "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 0, 1], ceil_mode = 1, p = 3",
        "kernel_shape = [2, 3], strides = [4, 4], dilations = [1, 2], ceil_mode = 1, p = 1",
        "kernel_shape = [2, 2], strides = [3, 3], auto_pad = \"SAME_UPPER\", ceil_mode = 1",
        "kernel_shape = [2, 2], strides = [3, 2], auto_pad = \"VALID\", ceil_mode = 1"})
    for (const int64_t height : {7, 8, 9, 10}) {
      CAPTURE(window);
      CAPTURE(height);
      Graph graph = parse_graph(
          fmt::format("graph g(%x: f32[2, 3, {}, 11]) -> (%y) {{\n  %y = LpPool(%x) {{{}}}\n}}",
                      height, window));
      infer_types(graph);
      Tensor x(DType::kF32, {2, 3, height, 11});
      for (int64_t i = 0; i < x.count(); ++i)
        x.as<float>()[i] = static_cast<float>(i * 7 % 23) / 8 - 1;
      const Tensor want = run_references(graph, {x})[0];
      Patch patch(graph, "expand");
      const NodeId id = graph.order()[0];
      const Node& node = graph.node(id);
      const auto results = node.op->expand(graph, node, patch);
      REQUIRE(results.size() == 1);
      patch.replace(node.outputs[0], results[0]);
      patch.remove(id);
      patch.apply();
      infer_types(graph);
      const Tensor got = run_references(graph, {x})[0];
      REQUIRE(got.dims() == want.dims());
      for (int64_t i = 0; i < got.count(); ++i)
        CHECK(got.as<float>()[i] == doctest::Approx(want.as<float>()[i]).epsilon(1e-5));
    }
}
