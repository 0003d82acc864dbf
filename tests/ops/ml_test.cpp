// Models of ai.onnx.ml whose attributes contradict each other: refused at load, with node and
// attribute.
#include <doctest/doctest.h>

#include "ops/infer.h"
#include "ops/registry.h"

using namespace xc;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Strings = std::vector<std::string>;
using List = std::vector<std::pair<std::string, Attr>>;

/// A stump: feature 1 of at least 2, two leaves that vote for one target each.
List stump(const std::string& prefix) {
  return {
      {"nodes_treeids", Ints{0, 0, 0}},      {"nodes_nodeids", Ints{0, 1, 2}},
      {"nodes_featureids", Ints{1, 0, 0}},   {"nodes_modes", Strings{"BRANCH_LEQ", "LEAF", "LEAF"}},
      {"nodes_values", Floats{0.5, 0, 0}},   {"nodes_truenodeids", Ints{1, 0, 0}},
      {"nodes_falsenodeids", Ints{2, 0, 0}}, {prefix + "_treeids", Ints{0, 0}},
      {prefix + "_nodeids", Ints{1, 2}},     {prefix + "_ids", Ints{0, 0}},
      {prefix + "_weights", Floats{1, 2}}};
}
List regressor() {
  return stump("target");
}
/// Two splits, the lower one with one leaf for both answers.
List deep() {
  List out = regressor();
  for (const auto& [name, value] :
       List{{"nodes_treeids", Ints{0, 0, 0, 0}},
            {"nodes_nodeids", Ints{0, 1, 2, 3}},
            {"nodes_featureids", Ints{1, 0, 0, 0}},
            {"nodes_modes", Strings{"BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF"}},
            {"nodes_values", Floats{0.5, 0, 0, 0}},
            {"nodes_truenodeids", Ints{1, 3, 0, 0}},
            {"nodes_falsenodeids", Ints{2, 3, 0, 0}},
            {"target_nodeids", Ints{2, 3}}})
    out.emplace_back(name, value);
  return out;
}
List linear() {
  return {{"classlabels_ints", Ints{1, 2}},
          {"coefficients", Floats{1, 2, 3, 4}},
          {"intercepts", Floats{0, 0}}};
}
List machine() {
  return {{"classlabels_ints", Ints{1, 2}},
          {"coefficients", Floats{1, -1}},
          {"rho", Floats{0}},
          {"vectors_per_class", Ints{1, 1}},
          {"support_vectors", Floats{1, 0, 0, 1}}};
}

struct Wrong {
  const char* op;
  List attrs;
  const char* changed;
  Attr value;
  const char* told;  ///< in the message
};

std::string refusal(const char* op, const List& attrs) {
  Graph graph;
  Node node;
  node.op = &get_op(op, "ai.onnx.ml");
  node.name = "here";
  node.inputs = {graph.add_input("x", Type::tensor(DType::kF32, SymDims{Dim::symbol("n"), 2}))};
  for (int k = 0; k < node.op->min_outputs; ++k)
    node.outputs.push_back(graph.add_value(fmt::format("y{}", k)));
  for (const auto& [name, value] : attrs) node.attrs.set(name, value);
  graph.add_node(std::move(node));
  try {
    infer_types(graph);
  } catch (const Error& error) {
    CHECK(error.status() == Status::kInvalidModel);
    CHECK(error.where().find("here") != std::string::npos);
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("ops/ml: attributes that contradict each other are named") {
  CHECK(refusal("LinearClassifier", linear()) == "");
  CHECK(refusal("SVMClassifier", machine()) == "");
  CHECK(refusal("TreeEnsembleRegressor", regressor()) == "");
  CHECK(refusal("TreeEnsembleRegressor", deep()) == "");
  const std::vector<Wrong> all{
      {"LinearClassifier", linear(), "classlabels_strings", Strings{"a", "b"}, "classlabels_ints"},
      {"LinearClassifier", linear(), "classlabels_ints", Ints{}, "classlabels_ints"},
      {"LinearClassifier", linear(), "intercepts", Floats{1, 2, 3}, "intercepts"},
      {"LinearClassifier", linear(), "coefficients", Floats{1, 2, 3}, "coefficients"},
      {"LinearClassifier", linear(), "post_transform", std::string("SOFT"), "post_transform"},
      {"SVMClassifier", machine(), "rho", Floats{}, "rho"},
      {"SVMClassifier", machine(), "rho", Floats{1, 2}, "rho"},
      {"SVMClassifier", machine(), "prob_a", Floats{1}, "prob_a"},
      {"SVMClassifier", machine(), "kernel_params", Floats{1, 2}, "kernel_params"},
      {"SVMClassifier", machine(), "kernel_type", std::string("rbf"), "kernel_type"},
      {"SVMClassifier", machine(), "vectors_per_class", Ints{3, -1}, "vectors_per_class"},
      {"SVMClassifier", machine(), "vectors_per_class", Ints{2}, "vectors_per_class"},
      {"SVMClassifier", machine(), "support_vectors", Floats{1, 2, 3}, "support_vectors"},
      {"SVMClassifier", machine(), "coefficients", Floats{1, 2, 3}, "coefficients"},
      {"TreeEnsembleRegressor", regressor(), "nodes_values", Floats{1}, "nodes_values"},
      {"TreeEnsembleRegressor", regressor(), "nodes_modes", Strings{"LEAF", "LEAF", "IF"},
       "nodes_modes"},
      {"TreeEnsembleRegressor", regressor(), "nodes_nodeids", Ints{0, 1, 1}, "given twice"},
      {"TreeEnsembleRegressor", regressor(), "nodes_truenodeids", Ints{7, 0, 0},
       "nodes_truenodeids"},
      {"TreeEnsembleRegressor", regressor(), "nodes_falsenodeids", Ints{1, 0, 0}, "2 roots"},
      {"TreeEnsembleRegressor", regressor(), "nodes_falsenodeids", Ints{0, 0, 0}, "cycle"},
      {"TreeEnsembleRegressor", deep(), "nodes_falsenodeids", Ints{2, 1, 0, 0}, "cycle"},
      {"TreeEnsembleRegressor", regressor(), "nodes_featureids", Ints{2, 0, 0}, "nodes_featureids"},
      {"TreeEnsembleRegressor", regressor(), "target_ids", Ints{0, 1}, "target_ids"},
      {"TreeEnsembleRegressor", regressor(), "target_nodeids", Ints{0, 1}, "no leaf"},
      {"TreeEnsembleRegressor", regressor(), "target_weights", Floats{1}, "target"},
      {"TreeEnsembleRegressor", regressor(), "base_values", Floats{1, 2}, "base_values"},
      {"TreeEnsembleRegressor", regressor(), "nodes_values_as_tensor",
       Tensor::of<double>({1, 2, 3}), "nodes_values_as_tensor"},
      {"TreeEnsembleClassifier", stump("class"), "classlabels_int64s", Ints{},
       "classlabels_int64s"},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.op);
    CAPTURE(wrong.changed);
    List attrs = wrong.attrs;
    attrs.emplace_back(wrong.changed, wrong.value);
    const std::string message = refusal(wrong.op, attrs);
    CHECK_MESSAGE(message.find(wrong.told) != std::string::npos, message);
  }
}

namespace {

/// The scores of a row of two features, at its actual sizes.
double score(const List& attrs, const Floats& row) {
  Node node;
  node.op = &get_op("TreeEnsembleRegressor", "ai.onnx.ml");
  node.inputs = {0};
  node.outputs = {1};
  for (const auto& [name, value] : attrs) node.attrs.set(name, value);
  const auto features = static_cast<int64_t>(row.size());
  const Tensor x = Tensor::of<double>(row).reshaped({1, features});
  return run_reference(node, {x})[0].to_doubles()[0];
}

}  // namespace

TEST_CASE("ops/ml: nodes of trees are found by number, in whatever order they are listed") {
  // Tree 7: x0 <= 1 ? (x1 > 2 ? 10 : 20) : 40 + 2. Tree -2: x1 < 0 ? 300 : 100. A child stands
  // before its parent, numbers have gaps, tree 7 comes in two parts.
  const List attrs{{"nodes_treeids", Ints{7, 7, -2, -2, 7, 7, -2, 7}},
                   {"nodes_nodeids", Ints{9, -4, 5, 2, 100, 6, 3, 1}},
                   {"nodes_featureids", Ints{0, 0, 0, 1, 0, 1, 0, 0}},
                   {"nodes_modes", Strings{"LEAF", "LEAF", "LEAF", "BRANCH_LT", "BRANCH_LEQ",
                                           "BRANCH_GT", "LEAF", "LEAF"}},
                   {"nodes_values", Floats{0, 0, 0, 0, 1, 2, 0, 0}},
                   {"nodes_truenodeids", Ints{0, 0, 0, 5, 6, 9, 0, 0}},
                   {"nodes_falsenodeids", Ints{0, 0, 0, 3, -4, 1, 0, 0}},
                   {"target_treeids", Ints{7, -2, 7, 7, -2, 7}},
                   {"target_nodeids", Ints{-4, 3, 9, 1, 5, -4}},
                   {"target_ids", Ints{0, 0, 0, 0, 0, 0}},
                   {"target_weights", Floats{40, 100, 10, 20, 300, 2}}};
  CHECK(score(attrs, {1, 3}) == 110);
  CHECK(score(attrs, {0, 2}) == 120);
  CHECK(score(attrs, {1, -1}) == 320);
  CHECK(score(attrs, {1.5, 0}) == 142);
  CHECK(score(attrs, {2, -0.5}) == 342);
}

TEST_CASE("ops/ml: at the sizes of a run too few features and trees with cycles are refused") {
  CHECK_THROWS_WITH_AS(score(regressor(), {1}),
                       doctest::Contains("'nodes_featureids' reads feature 1 of 1"), Error);
  List cyclic = regressor();
  cyclic.emplace_back("nodes_falsenodeids", Ints{0, 0, 0});
  CHECK_THROWS_WITH_AS(score(cyclic, {1, 2}), doctest::Contains("cycle"), Error);
}
