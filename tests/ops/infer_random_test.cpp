// Symbolic inference against concrete inference of the same node at other sizes.

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "ir/text.h"
#include "ops/infer.h"
#include "ops/op_case.h"

namespace xc::test {

namespace {

/// Every case of one node whose inputs' sizes may be symbols, inferred with these.
template <class Body>
void for_each_symbolic(Body&& body) {
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
    body(graph, graph.node(graph.order()[0]), sizes);
  });
}

/// Other numbers for all symbols, of [least, least + count), and what looks them up.
Dim::Lookup at_random(Sizes& sizes, std::mt19937& random, unsigned count, int64_t least = 0) {
  for (auto& [symbol, size] : sizes) size = least + static_cast<int64_t>(random() % count);
  return [&sizes](const std::string& s) {
    const auto it = sizes.find(s);
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  };
}

}  // namespace

TEST_CASE("ops/infer: symbolic dims are those of concrete inference at random sizes") {
  std::mt19937 random(5);
  int compared = 0;
  for_each_symbolic([&](const Graph& graph, const Node& node, Sizes& sizes) {
    for (int round = 0; round < 4; ++round) {
      const Dim::Lookup lookup = at_random(sizes, random, 9);
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

TEST_CASE("ops/infer: what is proven of sizes holds for all of them") {
  std::mt19937 random(11);
  int proven = 0, above_zero = 0, asked = 0;
  for_each_symbolic([&](const Graph& graph, const Node& node, Sizes& sizes) {
    if (node.op->control_flow) return;
    ++asked;
    const SizeProof proof = proof_of_sizes(graph, node);
    if (proof == SizeProof::kNone) return;
    ++(proof == SizeProof::kAll ? proven : above_zero);
    for (int round = 0; round < 40; ++round) {
      const Dim::Lookup lookup = at_random(sizes, random, 14, proof == SizeProof::kAll ? 0 : 1);
      CAPTURE(node.op->name);
      std::optional<std::vector<Type>> types;
      REQUIRE_NOTHROW(types = infer_for_sizes(graph, node, lookup));
      for (size_t k = 0; types && k < node.outputs.size(); ++k) {
        if (node.outputs[k] == kNone) continue;
        const auto& planned = graph.value(node.outputs[k]).type.dims;
        if (!planned || !(*types)[k].dims) continue;
        REQUIRE(planned->size() == (*types)[k].dims->size());
        for (size_t axis = 0; axis < planned->size(); ++axis) {
          const auto size = (*planned)[axis].evaluate(lookup);
          const auto inferred = (*types)[k].dims->at(axis).evaluate(lookup);
          if (size && inferred) CHECK(*size == *inferred);
        }
      }
    }
  });
  MESSAGE(proven, " and ", above_zero, " of ", asked);
  CHECK(proven > 200);
  CHECK(above_zero > 10);
  CHECK(asked - proven - above_zero > 20);
}

TEST_CASE("ops/infer: sizes that have to go together are not proven") {
  const auto proven = [](const std::string& text) {
    Graph graph = parse_graph(text);
    infer_types(graph);
    return sizes_are_proven(graph, graph.node(graph.order().back()));
  };
  const auto reshape = [&](const std::string& dims, const std::string& to) {
    return proven("graph g(%x: f32" + dims + ") -> (%y) {\n  const %s: i64[2] = " + to +
                  "\n  %y = Reshape(%x, %s)\n}");
  };
  CHECK(reshape("[n, 6]", "[-1, 3]"));
  CHECK(reshape("[n, 6]", "[0, -1]"));
  for (const char* to : {"[-1, 4]", "[-1, 7]", "[-1, 41]", "[-1, 1009]", "[2, 3]"}) {
    CAPTURE(to);
    CHECK_FALSE(reshape("[n, 6]", to));
    CHECK_FALSE(reshape("[m, n]", to));
  }
  const auto product = [&](const std::string& b) {
    return proven("graph g(%x: f32[n, m], %w: f32" + b + ") -> (%y) {\n  %y = MatMul(%x, %w)\n}");
  };
  CHECK(product("[m, n]"));
  CHECK(product("[m, k]"));
  CHECK_FALSE(product("[k, m]"));
  CHECK_FALSE(product("[n, m]"));
  CHECK_FALSE(product("[8, m]"));
}

TEST_CASE("ops/infer: windows as large as padding allows are proven for sizes above zero") {
  const auto proof = [](const std::string& text) {
    Graph graph = parse_graph(text);
    infer_types(graph);
    return proof_of_sizes(graph, graph.node(graph.order().back()));
  };
  const auto window = [&](const std::string& attrs) {
    return proof("graph g(%x: f32[n, 3, h, w]) -> (%y) {\n  %y = MaxPool(%x) {" + attrs + "}\n}");
  };
  CHECK(window("kernel_shape = [3, 3]") == SizeProof::kNone);
  CHECK(window("kernel_shape = [3, 3], pads = [1, 1, 1, 0]") == SizeProof::kNone);
  for (const char* attrs : {"", ", strides = [2, 2]", ", strides = [2, 3]"}) {
    CAPTURE(attrs);
    CHECK(window("kernel_shape = [3, 3], pads = [1, 1, 1, 1]" + std::string(attrs)) ==
          SizeProof::kAboveZero);
  }
  // Behind others: sizes that are at least so many where all are at least 1, and that are not.
  const auto behind = [&](const std::string& first, const std::string& attrs) {
    return proof("graph g(%x: f32[n, 3, h, w]) -> (%y) {\n" + first + "\n  %y = MaxPool(%p) {" +
                 attrs + "}\n}");
  };
  const std::string halved =
      "  %p = MaxPool(%x) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}";
  CHECK(behind(halved, "kernel_shape = [3, 3], pads = [1, 1, 1, 1]") == SizeProof::kAboveZero);
  CHECK(behind(halved, "kernel_shape = [5, 5], pads = [1, 1, 1, 1]") == SizeProof::kNone);
  const std::string padded = "  const %e: i64[8] = [0, 0, 1, 1, 0, 0, 1, 1]\n  %p = Pad(%x, %e)";
  CHECK(behind(padded, "kernel_shape = [3, 3]") == SizeProof::kAboveZero);
  // Two operands may be alike at some sizes.
  const auto both = proof(
      "graph g(%x: f32[1, 3, h, w], %k: f32[8, 3, 3, 3], %b: f32[m]) -> (%y) {\n"
      "  %y = Conv(%x, %k, %b) {pads = [1, 1, 1, 1]}\n}");
  CHECK(both == SizeProof::kNone);
}

}  // namespace xc::test
