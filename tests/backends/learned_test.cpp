// Kernels of ai.onnx.ml against the references: random forests, tables and support vectors.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;
using Texts = std::vector<std::string>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Problem problem(const char* op, Tensor x, size_t outputs = 1) {
  Problem p;
  p.op = &get_op(op, "ai.onnx.ml");
  p.inputs = {std::move(x)};
  p.outputs = outputs;
  return p;
}

/// Numbers among which splits and features meet: zeros of both signs, infinities, NaN.
double odd_number(Generator& g) {
  constexpr double kOdd[] = {0.0, -0.0, 1, -1, 0.5, kInf, -kInf, kNaN, -kNaN, 1e-45, 2};
  return kOdd[g.integer(0, 10)];
}
Tensor odd_rows(Generator& g, DType type, const Dims& dims) {
  Tensor x = g.tensor(type, dims);
  if (is_float(type))
    for (int64_t i = 0; i < x.count(); ++i)
      if (g.integer(0, 1) == 0) store_double(x.data(), type, i, odd_number(g));
  return x;
}

/// Attributes of the older operators for random trees, some a single leaf, with every mode.
Attrs random_trees(Generator& g, const std::string& prefix, int64_t trees, int64_t features,
                   int64_t targets, bool one_mode, bool missing) {
  const Texts modes{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                    "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  Ints tree_ids, node_ids, feature_ids, true_ids, false_ids, tracks, vote_trees, vote_nodes, ids;
  Floats values, weights;
  Texts mode;
  for (int64_t t = 0; t < trees; ++t) {
    const int64_t inner = g.integer(0, 12), nodes = 2 * inner + 1;
    // Node i < inner has the children 2i+1 and 2i+2, which come later: no cycles, any shape of
    // heap.
    for (int64_t i = 0; i < nodes; ++i) {
      tree_ids.push_back(t);
      node_ids.push_back(i);
      feature_ids.push_back(g.integer(0, features - 1));
      values.push_back(g.integer(0, 2) == 0 ? odd_number(g) : g.real(-2, 2));
      values.back() = static_cast<float>(values.back());
      tracks.push_back(missing ? g.integer(0, 1) : 0);
      const bool leaf = i >= inner;
      mode.push_back(leaf       ? "LEAF"
                     : one_mode ? modes[0]
                                : modes[static_cast<size_t>(g.integer(0, 5))]);
      true_ids.push_back(leaf ? 0 : 2 * i + 1);
      false_ids.push_back(leaf ? 0 : 2 * i + 2);
      if (!leaf) continue;
      for (int64_t votes = g.integer(0, 2); votes-- > 0;) {
        vote_trees.push_back(t);
        vote_nodes.push_back(i);
        ids.push_back(g.integer(0, targets - 1));
        weights.push_back(g.real(-1, 1));
      }
    }
  }
  Attrs out;
  out.set("nodes_treeids", tree_ids);
  out.set("nodes_nodeids", node_ids);
  out.set("nodes_featureids", feature_ids);
  out.set("nodes_values", values);
  out.set("nodes_modes", mode);
  out.set("nodes_truenodeids", true_ids);
  out.set("nodes_falsenodeids", false_ids);
  if (missing) out.set("nodes_missing_value_tracks_true", tracks);
  out.set(prefix + "_treeids", vote_trees);
  out.set(prefix + "_nodeids", vote_nodes);
  out.set(prefix + "_ids", ids);
  out.set(prefix + "_weights", weights);
  return out;
}

TEST_CASE("backends/trees: regressors of every mode, aggregate, type and number of rows") {
  Generator g(81);
  for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"})
    for (const DType type : {DType::kF32, DType::kF64, DType::kI64, DType::kI32})
      for (const int64_t rows : {0, 1, 7, 70}) {
        const int64_t targets = g.integer(1, 3);
        Problem p = problem("TreeEnsembleRegressor", odd_rows(g, type, {rows, 5}));
        p.attrs = random_trees(g, "target", g.integer(1, 20), 5, targets, false, rows % 2 == 1);
        p.attrs.set("n_targets", targets);
        p.attrs.set("aggregate_function", std::string(aggregate));
        if (rows == 7) {
          p.attrs.set("base_values", Floats(static_cast<size_t>(targets), 0.25));
          p.attrs.set("post_transform", std::string("LOGISTIC"));
        }
        check_row("xc.trees", p, {});
      }
}

TEST_CASE("backends/trees: many trees of one mode, one row without a batch") {
  Generator g(82);
  for (const bool missing : {false, true})
    for (const Dims& dims : {Dims{5}, Dims{1, 5}, Dims{200, 5}}) {
      Problem p = problem("TreeEnsembleRegressor", odd_rows(g, DType::kF32, dims));
      p.attrs = random_trees(g, "target", 100, 5, 1, true, missing);
      check_row("xc.trees", p, {});
    }
}

TEST_CASE("backends/trees: classifiers") {
  Generator g(83);
  for (const int64_t classes : {1, 2, 4})
    for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}) {
      Problem p = problem("TreeEnsembleClassifier", odd_rows(g, DType::kF32, {19, 4}), 2);
      // With two classes, all leaves vote for the first, or for the second.
      p.attrs = random_trees(g, "class", 9, 4, classes == 2 ? 1 : classes, false, true);
      Ints labels;
      for (int64_t k = 0; k < classes; ++k) labels.push_back(10 - k);
      p.attrs.set("classlabels_int64s", labels);
      p.attrs.set("post_transform", std::string(transform));
      check_row("xc.trees", p, {});
      if (classes != 2) continue;
      p.attrs.set("class_ids", Ints(p.attrs.get_ints("class_ids").size(), 1));
      check_row("xc.trees", p, {});
    }
}

TEST_CASE(
    "backends/trees: TreeEnsemble with sets of members, nodes with two parents, splits in f64") {
  Generator g(84);
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16})
    for (int round = 0; round < 12; ++round) {
      const int64_t nodes = g.integer(1, 9), leaves = 4;
      Ints features, true_leafs, true_ids, false_leafs, false_ids, tracks;
      Floats splits, members;
      Tensor modes(DType::kU8, {nodes});
      for (int64_t i = 0; i < nodes; ++i) {
        features.push_back(g.integer(0, 2));
        tracks.push_back(g.integer(0, 1));
        splits.push_back(g.real(-1, 1));
        const int64_t mode = g.integer(0, 6);
        store_int64(modes.data(), DType::kU8, i, mode);
        if (mode == 6) {
          for (int64_t k = g.integer(0, 6); k-- > 0;) {
            const double member = odd_number(g);
            if (!std::isnan(member)) members.push_back(member);
          }
          members.push_back(kNaN);
        }
        for (auto [leafs, ids] : {std::pair(&true_leafs, &true_ids), {&false_leafs, &false_ids}}) {
          const bool leaf = i + 1 >= nodes || g.integer(0, 2) == 0;
          leafs->push_back(leaf);
          ids->push_back(leaf ? g.integer(0, leaves - 1) : g.integer(i + 1, nodes - 1));
        }
      }
      const auto floats = [&](const Floats& values) {
        Tensor out(type, {static_cast<int64_t>(values.size())});
        for (size_t i = 0; i < values.size(); ++i)
          store_double(out.data(), type, static_cast<int64_t>(i), values[i]);
        return out;
      };
      Problem p = problem("TreeEnsemble", odd_rows(g, type, {21, 3}));
      p.attrs.set("nodes_featureids", features);
      p.attrs.set("nodes_splits", floats(splits));
      p.attrs.set("nodes_modes", modes);
      p.attrs.set("nodes_truenodeids", true_ids);
      p.attrs.set("nodes_trueleafs", true_leafs);
      p.attrs.set("nodes_falsenodeids", false_ids);
      p.attrs.set("nodes_falseleafs", false_leafs);
      p.attrs.set("nodes_missing_value_tracks_true", tracks);
      p.attrs.set("membership_values", floats(members));
      p.attrs.set("leaf_weights", floats({1, 2, 4, 8}));
      p.attrs.set("leaf_targetids", Ints{0, 1, 0, 1});
      p.attrs.set("n_targets", int64_t{2});
      p.attrs.set("tree_roots", Ints{0, g.integer(0, nodes - 1)});
      check_row("xc.trees", p, {});
    }
}

TEST_CASE("backends/trees: rows that are too short are refused") {
  Generator g(85);
  Problem p = problem("TreeEnsemble", g.tensor(DType::kF32, {2, 1}));
  p.attrs.set("nodes_featureids", Ints{1});
  p.attrs.set("nodes_splits", Tensor::of<float>({0}));
  p.attrs.set("nodes_modes", Tensor::of<uint8_t>({0}));
  for (const char* name : {"nodes_trueleafs", "nodes_falseleafs"}) p.attrs.set(name, Ints{1});
  for (const char* name : {"nodes_truenodeids", "nodes_falsenodeids"}) p.attrs.set(name, Ints{0});
  p.attrs.set("leaf_weights", Tensor::of<float>({1}));
  p.attrs.set("leaf_targetids", Ints{0});
  p.attrs.set("n_targets", int64_t{1});
  p.attrs.set("tree_roots", Ints{0});
  CHECK_THROWS_AS(run_row(find_row("xc.trees", "TreeEnsemble"), p), Error);
  p.inputs = {g.tensor(DType::kF32, {2, 2})};
  check_row("xc.trees", p, {});
}

TEST_CASE("backends/lookup: near and far numbers, floats, texts; keys that occur twice") {
  Generator g(86);
  const auto check = [&](const Tensor& x, const std::string& suffix, const Attr& keys) {
    for (const bool floats : {false, true}) {
      Problem p = problem("LabelEncoder", x);
      p.attrs.set("keys_" + suffix, keys);
      const size_t count = std::visit(
          [](const auto& list) -> size_t {
            if constexpr (requires { list.size(); })
              return list.size();
            else if constexpr (requires { list.count(); })
              return static_cast<size_t>(list.count());
            else
              return 0;
          },
          keys);
      Ints ints;
      Floats reals;
      for (size_t i = 0; i < count; ++i) {
        ints.push_back(g.integer(-99, 99));
        reals.push_back(static_cast<double>(ints.back()) / 4);
      }
      if (floats)
        p.attrs.set("values_floats", reals);
      else
        p.attrs.set("values_int64s", ints);
      if (x.dtype() != DType::kString) {
        check_row("xc.lookup", p, {});
        continue;
      }
      const auto got = run_row(find_row("xc.lookup", "LabelEncoder"), p);  // texts have no strides
      CHECK(same_bits(got[0], run_reference(node_of(p), p.inputs)[0]));
    }
  };
  for (const Dims& dims : {Dims{}, Dims{0}, Dims{5, 40}, Dims{40000}}) {
    check(g.tensor(DType::kI64, dims, -9, 9), "int64s", Ints{3, -9, 5, 3, 0, 7, 8});
    check(g.tensor(DType::kI64, dims, -9, 9), "int64s", Ints{3, INT64_MAX, 5, INT64_MIN, 0, 3});
    check(g.tensor(DType::kI64, dims, -9, 9), "int64s", Ints{});
    check(g.tensor(DType::kI32, dims, -9, 9), "tensor", Tensor::of<int32_t>({3, INT32_MIN, 4}));
    check(g.tensor(DType::kI16, dims, -9, 9), "tensor", Tensor::of<int16_t>({3, -8, 4}));
    check(odd_rows(g, DType::kF32, dims), "floats", Floats{0, 1, kNaN, -kInf, 0.5, 1});
    check(odd_rows(g, DType::kF64, dims), "tensor", Tensor::of<double>({-0.0, 2, kNaN}));
  }
  check(Tensor::of(Texts{"b", "", "c", "a", "a"}), "strings", Texts{"a", "b", "", "a"});
}

Floats reals(Generator& g, int64_t count) {
  Floats out;
  while (count-- > 0) out.push_back(static_cast<float>(g.real(-1, 1)));
  return out;
}

TEST_CASE("backends/svm: regressors of every kernel, type and number of rows") {
  Generator g(87);
  for (const char* kernel : {"LINEAR", "POLY", "RBF", "SIGMOID"})
    for (const DType type : {DType::kF32, DType::kF64, DType::kI64, DType::kI32})
      for (const auto& [dims, vectors] : {std::pair(Dims{0, 5}, 3),
                                          {Dims{5}, 1},
                                          {Dims{1, 5}, 0},
                                          {Dims{9, 5}, 70},
                                          {Dims{300, 5}, 64}}) {
        Problem p = problem("SVMRegressor", g.tensor(type, dims));
        p.attrs.set("kernel_type", std::string(kernel));
        p.attrs.set("kernel_params", Floats{0.25, 0.5, type == DType::kI32 ? -1.5 : 3});
        p.attrs.set("n_supports", int64_t{vectors});
        p.attrs.set("support_vectors", reals(g, vectors * 5));
        p.attrs.set("coefficients", reals(g, vectors == 0 ? 5 : vectors));
        p.attrs.set("rho", Floats{0.25});
        check_row("xc.svm", p, {1e-5, 3e-5});
        p.attrs.set("one_class", int64_t{1});
        check_row("xc.svm", p, {});
      }
}

TEST_CASE("backends/svm: classifiers by decisions, probabilities and linear models") {
  Generator g(88);
  for (const int64_t classes : {2, 3, 5})
    for (const bool probabilities : {false, true})
      for (const int64_t each : {0, 1, 30}) {
        const int64_t vectors = each * classes, pairs = classes * (classes - 1) / 2;
        Problem p = problem("SVMClassifier", g.tensor(DType::kF32, {40, 6}), 2);
        p.attrs.set("kernel_type", std::string("RBF"));
        p.attrs.set("kernel_params", Floats{0.25, 0, 0});
        Ints labels;
        for (int64_t k = 0; k < classes; ++k) labels.push_back(7 * k);
        p.attrs.set("classlabels_ints", labels);
        p.attrs.set("rho", reals(g, pairs));
        if (each == 0) {
          p.attrs.set("coefficients", reals(g, classes * 6));
        } else {
          p.attrs.set("coefficients", reals(g, vectors * (classes - 1)));
          p.attrs.set("support_vectors", reals(g, vectors * 6));
          p.attrs.set("vectors_per_class", Ints(static_cast<size_t>(classes), each));
          if (probabilities) {
            p.attrs.set("prob_a", reals(g, pairs));
            p.attrs.set("prob_b", reals(g, pairs));
          }
        }
        // The iteration for probabilities ends a step earlier or later.
        check_row("xc.svm", p, {1e-4, probabilities ? 5e-3 : 1e-4});
      }
}

TEST_CASE("backends/svm: NaN and another number of features") {
  Generator g(89);
  Problem p = problem("SVMRegressor", odd_rows(g, DType::kF32, {12, 3}));
  p.attrs.set("kernel_type", std::string("RBF"));
  p.attrs.set("kernel_params", Floats{0.5, 0, 0});
  p.attrs.set("n_supports", int64_t{2});
  p.attrs.set("support_vectors", reals(g, 6));
  p.attrs.set("coefficients", reals(g, 2));
  p.attrs.set("rho", Floats{0});
  check_row("xc.svm", p, {1e-5, 1e-5});
  const Node node = node_of(p);
  const auto kernel = find_row("xc.svm", "SVMRegressor").create(spec_of(p, node, {}));
  const Dims wrong{12, 4}, wrong_strides{4, 1}, y{12, 1}, y_strides{1, 1};
  const std::vector<BoundOperand> in{{wrong, wrong_strides}}, out{{y, y_strides}};
  CHECK_THROWS_AS(kernel->bind({in, out}), Error);
}

}  // namespace
}  // namespace xc
