// What operators of ai.onnx.ml expand to against their references, on random numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/infer.h"
#include "ops/op_case.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Texts = std::vector<std::string>;
using List = std::vector<std::pair<std::string, Attr>>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI32};

struct Expanded {
  const char* op;
  List attrs;
  std::vector<Tensor> inputs;
};

/// Small whole numbers and halves, among which every constant of the problems occurs.
Tensor random(DType type, const Dims& dims) {
  static std::mt19937 engine(5);
  Tensor out(type, dims);
  for (int64_t i = 0; i < out.count(); ++i) {
    const auto half = static_cast<double>(static_cast<int64_t>(engine() % 13) - 6) / 2;
    if (is_float(type))
      store_double(out.data(), type, i, engine() % 10 == 0 ? kNaN : half);
    else
      store_int64(out.data(), type, i, static_cast<int64_t>(half));
  }
  return out;
}
/// The same without NaN.
Tensor numbers(DType type, const Dims& dims) {
  Tensor out = random(type, dims);
  for (int64_t i = 0; i < out.count(); ++i)
    if (std::isnan(load_double(out.data(), type, i))) store_double(out.data(), type, i, 1.5);
  return out;
}
Tensor texts(const Dims& dims) {
  Tensor out(DType::kString, dims);
  for (int64_t i = 0; i < out.count(); ++i)
    out.as<std::string>()[i] = std::string(1, "abcd"[i % 4]);
  return out;
}

/// Replaces what expands until nothing does; returns how often.
int expand_all(Graph& graph) {
  for (int count = 0;; ++count) {
    infer_types(graph);
    Patch patch(graph, "expand");
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (!node.op->expand || node.op->domain != "ai.onnx.ml") continue;
      const auto results = node.op->expand(graph, node, patch);
      if (results.empty()) continue;
      for (size_t k = 0; k < results.size(); ++k) patch.replace(node.outputs[k], results[k]);
      patch.remove(id);
    }
    if (patch.empty()) return count;
    patch.apply();
  }
}

void check(const Expanded& problem) {
  CAPTURE(problem.op);
  OpCase each;
  Node node;
  node.op = &get_op(problem.op, "ai.onnx.ml");
  node.name = "here";
  each.tolerance = node.op->tolerance;
  each.inputs = problem.inputs;
  for (const Tensor& input : problem.inputs) {
    SymDims dims = to_symbolic(input.dims());
    if (dims.size() == 2) dims[0] = Dim::symbol("n");
    node.inputs.push_back(each.graph.add_input(fmt::format("x{}", node.inputs.size()),
                                               Type::tensor(input.dtype(), dims)));
  }
  for (int k = 0; k < node.op->min_outputs; ++k)
    node.outputs.push_back(each.graph.add_value(fmt::format("y{}", k)));
  each.graph.outputs = node.outputs;
  for (const auto& [name, value] : problem.attrs) node.attrs.set(name, value);
  each.graph.add_node(std::move(node));
  infer_types(each.graph);
  each.expected = run_references(each.graph, each.inputs);
  CHECK(expand_all(each.graph) > 0);
  const auto got = run_references(each.graph, each.inputs);
  for (size_t k = 0; k < got.size(); ++k) CHECK(difference(each, k, got[k]) == "");
}

}  // namespace

TEST_CASE("ops/ml_expand: features") {
  for (const DType type : kTypes)
    for (const Dims& dims : {Dims{4}, Dims{0, 4}, Dims{1, 4}, Dims{30, 4}}) {
      const Tensor x = random(type, dims);
      for (const double replaced : {1.0, kNaN})
        for (const bool one : {false, true})
          check({"Imputer",
                 {{"imputed_value_floats", one ? Floats{7} : Floats{7, -8, 9, 0.5}},
                  {"imputed_value_int64s", one ? Ints{7} : Ints{7, -8, 9, 5}},
                  {"replaced_value_float", replaced},
                  {"replaced_value_int64", int64_t{1}}},
                 {x}});
      check({"Binarizer", {{"threshold", 0.5}}, {x}});
      check({"Binarizer", {}, {x}});
      check({"Scaler", {{"offset", Floats{0.5, 1, 2, -3}}, {"scale", Floats{3}}}, {x}});
      check({"Scaler", {{"scale", Floats{0.5, 1, 2, -3}}}, {x}});
      for (const char* norm : {"MAX", "L1", "L2"})
        check({"Normalizer", {{"norm", std::string(norm)}}, {numbers(type, dims)}});
      check({"OneHotEncoder", {{"cats_int64s", Ints{2, 0, 2, -1}}}, {x}});
    }
  check({"Normalizer", {{"norm", std::string("L1")}}, {Tensor(DType::kF32, {3, 2})}});
  check({"OneHotEncoder", {{"cats_strings", Texts{"d", "a", "d"}}}, {texts({3, 3})}});
  check({"FeatureVectorizer",
         {{"inputdimensions", Ints{4, 2}}},
         {random(DType::kI64, {5, 4}), random(DType::kF64, {5, 2})}});
  check({"FeatureVectorizer",
         {{"inputdimensions", Ints{4, 1}}},
         {random(DType::kF32, {4}), random(DType::kI32, {1})}});
  for (const Dims& dims : {Dims{4}, Dims{3, 4}, Dims{2, 3, 4}})
    for (const Tensor& picks :
         {Tensor::of<int64_t>({3, 0, 3}), Tensor::of<int64_t>({1, 2}, {1, 2})}) {
      check({"ArrayFeatureExtractor", {}, {random(DType::kF32, dims), picks}});
      check({"ArrayFeatureExtractor", {}, {texts(dims), picks}});
    }
}

TEST_CASE("ops/ml_expand: categories and labels of text") {
  const List both{{"cats_strings", Texts{"b", "a", "b", ""}}, {"cats_int64s", Ints{5, 2, 2, 0}}};
  check({"CategoryMapper", both, {texts({3, 3})}});
  check({"CategoryMapper", both, {random(DType::kI64, {7})}});
  const List values{{"values_strings", Texts{"x", "y", "z"}}, {"default_string", std::string("?")}};
  List attrs = values;
  attrs.emplace_back("keys_floats", Floats{1.5, kNaN, 1.5});
  check({"LabelEncoder", attrs, {random(DType::kF32, {4, 5})}});
  attrs = values;
  attrs.emplace_back("keys_strings", Texts{"c", "a", "c"});
  check({"LabelEncoder", attrs, {texts({9})}});
  check({"TreeEnsembleClassifier",
         {{"classlabels_strings", Texts{"no", "yes"}},
          {"nodes_treeids", Ints{0, 0, 0}},
          {"nodes_nodeids", Ints{0, 1, 2}},
          {"nodes_featureids", Ints{1, 0, 0}},
          {"nodes_modes", Texts{"BRANCH_LEQ", "LEAF", "LEAF"}},
          {"nodes_values", Floats{0.5, 0, 0}},
          {"nodes_truenodeids", Ints{1, 0, 0}},
          {"nodes_falsenodeids", Ints{2, 0, 0}},
          {"class_treeids", Ints{0, 0}},
          {"class_nodeids", Ints{1, 2}},
          {"class_ids", Ints{0, 1}},
          {"class_weights", Floats{1, 2}}},
         {random(DType::kF32, {9, 2})}});
  check({"SVMClassifier",
         {{"classlabels_strings", Texts{"no", "yes"}},
          {"coefficients", Floats{1, -1, 2, 3}},
          {"rho", Floats{0.25}}},
         {numbers(DType::kF32, {9, 2})}});
}

TEST_CASE("ops/ml_expand: linear models") {
  for (const DType type : kTypes)
    for (const Dims& dims : {Dims{3}, Dims{0, 3}, Dims{1, 3}, Dims{30, 3}})
      for (const char* transform : {"NONE", "LOGISTIC", "SOFTMAX"}) {
        const Tensor x = numbers(type, dims);
        const Attr post = std::string(transform);
        const Floats weights{0.5, -1, 2, 1, 0.25, -0.5};
        check({"LinearRegressor",
               {{"coefficients", weights}, {"targets", int64_t{2}}, {"post_transform", post}},
               {x}});
        check({"LinearRegressor",
               {{"coefficients", Floats{1, 2, -3}},
                {"intercepts", Floats{3}},
                {"post_transform", post}},
               {x}});
        for (const Ints& labels : {Ints{0, 1}, Ints{7, -3}}) {
          check({"LinearClassifier",
                 {{"coefficients", weights},
                  {"intercepts", Floats{0.125, -0.5}},
                  {"classlabels_ints", labels},
                  {"post_transform", post}},
                 {x}});
          check({"LinearClassifier",
                 {{"coefficients", Floats{1, 2, -3}},
                  {"intercepts", Floats{0.125}},
                  {"classlabels_ints", labels},
                  {"post_transform", post}},
                 {x}});
        }
        check({"LinearClassifier",
               {{"coefficients", weights},
                {"classlabels_strings", Texts{"no", "yes"}},
                {"post_transform", post}},
               {x}});
      }
}

}  // namespace xc::test
