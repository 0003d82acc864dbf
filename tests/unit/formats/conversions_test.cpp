// Old operator versions against values worked out from the text of the standard.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

#include "ops/op.h"
#include "support/evaluate.h"
#include "unit/formats/model_text.h"

using namespace xc;
using namespace xc::test;

namespace {

/// A model of one node; `input` and `output` are short value infos.
std::string one_node(int opset, const std::string& inputs, const std::string& node,
                     const std::string& outputs) {
  return "ir_version: 8 opset_import { version: " + std::to_string(opset) +
         " } graph { name: \"g\" " + inputs + " node { " + node + " } " + outputs + " }";
}

std::vector<double> run(const std::string& model, const Tensor& x) {
  return evaluate(load_text(model), {x})[0].to_doubles();
}

using Values = std::vector<double>;

}  // namespace

TEST_CASE("formats/onnx: Softmax 11 works on rows of the flattened input") {
  const std::string model =
      one_node(11, R"(input { "x": f32[1, 2, 2] })", R"(op_type: "Softmax" input: "x" output: "y")",
               R"(output { "y": f32[1, 2, 2] })");
  CHECK(run(model, Tensor::of<float>({0, 0, 0, 0}, {1, 2, 2})) == Values{0.25, 0.25, 0.25, 0.25});
  const Graph last = load_text(one_node(11, R"(input { "x": f32[1, 2, 2] })",
                                        R"(op_type: "Softmax" input: "x" output: "y"
                                           attribute { name: "axis" i: 2 type: 2 })",
                                        R"(output { "y": f32[1, 2, 2] })"));
  CHECK(op_names(last) == "Softmax");
}

TEST_CASE("formats/onnx: a domain may be imported again in the same version") {
  const std::string model =
      R"(ir_version: 8 opset_import { version: 17 } opset_import { domain: "ai.onnx" version: 17 }
         graph { name: "g" input { "x": f32[2] } node { op_type: "Relu" input: "x" output: "y" }
                 output { "y": f32[2] } })";
  CHECK(run(model, Tensor::of<float>({-1, 2})) == Values{0, 2});
}

TEST_CASE("formats/onnx: broadcasting along an axis, also where ranks are not known") {
  const char* node = R"(op_type: "Add" input: "x" input: "b" output: "y"
                        attribute { name: "broadcast" i: 1 type: 2 } attribute { name: "axis" i: 0 type: 2 })";
  const std::string bias =
      R"(initializer { name: "b" dims: [2] data_type: 1 float_data: [10.0, 20.0] })";
  const Tensor x = Tensor::of<float>({0, 1, 2, 3}, {2, 2});
  const Values want{10, 11, 22, 23};
  CHECK(run(one_node(6, R"(input { "x": f32[2, 2] })" + bias, node, R"(output { name: "y" })"),
            x) == want);
  CHECK(run(one_node(6, R"(input { "x": f32 })" + bias, node, R"(output { name: "y" })"), x) ==
        want);
}

TEST_CASE("formats/onnx: Upsample repeats elements") {
  const std::string model = one_node(7, R"(input { "x": f32[1, 1, 1, 2] })",
                                     R"(op_type: "Upsample" input: "x" output: "y"
                                        attribute { name: "scales" floats: [1.0, 1.0, 2.0, 3.0] type: 6 })",
                                     R"(output { "y": f32[1, 1, 2, 6] })");
  CHECK(run(model, Tensor::of<float>({1, 2}, {1, 1, 1, 2})) ==
        Values{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
}

TEST_CASE("formats/onnx: Resize 10 takes the next element along axes that shrink") {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 4});
  const auto resized = [&](const std::string& scales, bool constant) {
    const std::string given =
        constant ? "initializer { name: \"s\" dims: [4] data_type: 1 float_data: [" + scales + "] }"
                 : R"(input { "s": f32[4] })";
    const Graph g = load_text(one_node(10, R"(input { "x": f32[1, 1, 2, 4] })" + given,
                                       R"(op_type: "Resize" input: "x" input: "s" output: "y")",
                                       R"(output { name: "y" })"));
    std::vector<Tensor> inputs{x};
    std::vector<float> numbers;
    std::istringstream list(scales);
    for (std::string number; std::getline(list, number, ',');) numbers.push_back(std::stof(number));
    if (!constant) inputs.push_back(Tensor::of(numbers));
    return evaluate(g, inputs)[0].to_doubles();
  };
  for (const bool constant : {true, false}) {
    CAPTURE(constant);
    CHECK(resized("1.0, 1.0, 0.6, 0.6", constant) == Values{1, 3});  // the standard's own test
    CHECK(resized("1.0, 1.0, 2.0, 1.5", constant) ==
          Values{1, 1, 2, 3, 3, 4, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 5, 5, 6, 7, 7, 8});
    CHECK(resized("1.0, 1.0, 2.0, 0.6", constant) == Values{1, 3, 1, 3, 5, 7, 5, 7});
  }
}

TEST_CASE("formats/onnx: a negative index of OneHot 9 is out of range") {
  const auto one_hot = [](int opset, const char* type) {
    return load_text(one_node(opset,
                              fmt::format(R"(input {{ "x": {}[4] }}
            initializer {{ name: "d" dims: [1] data_type: 1 float_data: [3.0] }}
            initializer {{ name: "v" dims: [2] data_type: 1 float_data: [0.0, 1.0] }})",
                                          type),
                              R"(op_type: "OneHot" input: "x" input: "d" input: "v" output: "y")",
                              R"(output { "y": f32[4, 3] })"));
  };
  const Values without{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
      with{0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0};
  const std::vector<Tensor> whole{Tensor::of<int64_t>({-1, -4, 2, 3})};
  const std::vector<Tensor> real{Tensor::of<float>({-1, -4, 2, 3})};
  const std::vector<Tensor> bytes{Tensor::of<int8_t>({-1, -4, 2, 3})};
  CHECK(evaluate(one_hot(10, "i64"), whole)[0].to_doubles() == without);
  CHECK(evaluate(one_hot(9, "f32"), real)[0].to_doubles() == without);
  CHECK(evaluate(one_hot(9, "i8"), bytes)[0].to_doubles() == without);
  CHECK(evaluate(one_hot(11, "i64"), whole)[0].to_doubles() == with);
}

TEST_CASE("formats/onnx: Slice 1, TopK 1, Split 2 take attributes") {
  const Tensor x = Tensor::of<float>({5, 1, 4, 2}, {4});
  CHECK(run(one_node(9, R"(input { "x": f32[4] })",
                     R"(op_type: "Slice" input: "x" output: "y"
                        attribute { name: "starts" ints: [1] type: 7 } attribute { name: "ends" ints: [-1] type: 7 })",
                     R"(output { "y": f32[2] })"),
            x) == Values{1, 4});
  CHECK(
      run(one_node(
              9, R"(input { "x": f32[4] })",
              R"(op_type: "TopK" input: "x" output: "y" output: "i" attribute { name: "k" i: 2 type: 2 })",
              R"(output { "y": f32[2] })"),
          x) == Values{5, 4});
  CHECK(
      run(one_node(
              11, R"(input { "x": f32[4] })",
              R"(op_type: "Split" input: "x" output: "a" output: "y" attribute { name: "split" ints: [1, 3] type: 7 })",
              R"(output { "y": f32[3] })"),
          x) == Values{1, 4, 2});
  CHECK(run(one_node(13, R"(input { "x": f32[4] })",
                     R"(op_type: "Split" input: "x" output: "a" output: "y")",
                     R"(output { "y": f32[2] })"),
            x) == Values{4, 2});
  CHECK(run(one_node(13, R"(input { "x": f32[4] })",  // parts nobody wants count
                     R"(op_type: "Split" input: "x" output: "" output: "y" output: "" output: "")",
                     R"(output { "y": f32[1] })"),
            x) == Values{1});
}

TEST_CASE("formats/onnx: Split without sizes has equal parts before version 18") {
  const auto split = [](int opset, const char* dims) {
    return one_node(
        opset, fmt::format(R"(input {{ "x": f32[{}] }})", dims),
        R"(op_type: "Split" input: "x" output: "a" output: "y"
                       attribute { name: "axis" i: 0 type: 2 })" +
            std::string(opset < 18 ? "" : R"( attribute { name: "num_outputs" i: 2 type: 2 })"),
        R"(output { "y": f32[k] })");
  };
  const Tensor seven = Tensor::of<float>({0, 1, 2, 3, 4, 5, 6});
  const Tensor six = Tensor::of<float>({0, 1, 2, 3, 4, 5});
  CHECK(run(split(18, "7"), seven) == Values{4, 5, 6});
  CHECK(run(split(18, "n"), seven) == Values{4, 5, 6});
  for (const int opset : {2, 11, 13}) {
    CHECK(run(split(opset, "6"), six) == Values{3, 4, 5});
    CHECK(run(split(opset, "n"), six) == Values{3, 4, 5});
    CHECK_THROWS_WITH(run(split(opset, "7"), seven),
                      doctest::Contains("an axis of 7 cannot be split into 2 equal parts"));
    CHECK_THROWS(run(split(opset, "n"), seven));
  }
}

TEST_CASE("formats/onnx: what cannot be converted names the version and domain that can") {
  const auto message = [](const std::string& model) {
    try {
      load_text(model);
    } catch (const Error& error) {
      CHECK(error.status() == Status::kUnsupported);
      return error.message();
    }
    return std::string("loaded");
  };
  CHECK(message(one_node(4, R"(input { "x": f32[4] })",
                         R"(op_type: "Reshape" input: "x" output: "y")",
                         R"(output { "y": f32[4] })")) ==
        "Reshape version 1: Reshape without shape; re-export the model with opset 5 of ai.onnx or "
        "newer");
  CHECK(
      message(
          R"(ir_version: 8 opset_import { domain: "ai.onnx.ml" version: 1 } opset_import { version: 17 }
                   graph { name: "g" input { "x": i64[4] }
                     node { op_type: "LabelEncoder" domain: "ai.onnx.ml" input: "x" output: "y" }
                     output { name: "y" } })") ==
      "LabelEncoder version 1: LabelEncoder without classes_strings; re-export the model with "
      "opset 2 "
      "of ai.onnx.ml or newer");
}

TEST_CASE("formats/onnx: LayerNormalization in versions before it, as onnxruntime writes it") {
  const std::string model =
      one_node(13, R"(input { "x": f32[1, 2] }
                      initializer { name: "s" dims: [2] data_type: 1 float_data: [1.0, 3.0] })",
               R"(op_type: "LayerNormalization" input: "x" input: "s" output: "y"
                  attribute { name: "epsilon" f: 0.0 type: 1 })",
               R"(output { "y": f32[1, 2] })");
  CHECK(run(model, Tensor::of<float>({2, 6}, {1, 2})) == Values{-1, 3});
}

TEST_CASE("formats/onnx: a mask of Dropout 7 has the type of its input") {
  const std::string model = one_node(7, R"(input { "x": f64[2] })",
                                     R"(op_type: "Dropout" input: "x" output: "y" output: "mask")",
                                     R"(output { "mask": f64[2] })");
  CHECK(run(model, Tensor::of<double>({3, 4})) == Values{1, 1});
}

TEST_CASE("formats/onnx: GroupNormalization 18 scales by group") {
  const std::string model =
      one_node(18, R"(input { "x": f32[1, 4, 1] }
             initializer { name: "s" dims: [2] data_type: 1 float_data: [1.0, 10.0] }
             initializer { name: "b" dims: [2] data_type: 1 float_data: [0.0, 1.0] })",
               R"(op_type: "GroupNormalization" input: "x" input: "s" input: "b" output: "y"
         attribute { name: "num_groups" i: 2 type: 2 } attribute { name: "epsilon" f: 0.0 type: 1 })",
               R"(output { "y": f32[1, 4, 1] })");
  CHECK(run(model, Tensor::of<float>({1, 3, 5, 9}, {1, 4, 1})) == Values{-1, 1, -9, 11});
}

TEST_CASE("formats/onnx: PRelu 6 has a slope per channel") {
  const std::string model = one_node(6, R"(input { "x": f32[1, 2, 1, 2] }
            initializer { name: "s" dims: [2] data_type: 1 float_data: [2.0, 3.0] })",
                                     R"(op_type: "PRelu" input: "x" input: "s" output: "y")",
                                     R"(output { "y": f32[1, 2, 1, 2] })");
  CHECK(run(model, Tensor::of<float>({-1, 1, -1, 1}, {1, 2, 1, 2})) == Values{-2, 1, -3, 1});
}

TEST_CASE("formats/onnx: empty inputs of Resize are absent ones") {
  const Graph g = load_text(
      one_node(11, R"(input { "x": f32[1, 1, 2, 2] }
             initializer { name: "e" dims: [0] data_type: 1 }
             initializer { name: "z" dims: [4] data_type: 7 int64_data: [1, 1, 4, 4] })",
               R"(op_type: "Resize" input: "x" input: "e" input: "e" input: "z" output: "y")",
               R"(output { "y": f32[1, 1, 4, 4] })"));
  const Node& node = g.node(g.order()[0]);
  REQUIRE(node.inputs.size() == 4);
  CHECK(node.inputs[1] == kNone);
  CHECK(node.inputs[2] == kNone);
}

TEST_CASE("formats/onnx: a batched Scan becomes two nested ones") {
  const Graph g = load_text(
      one_node(8, R"(input { "s": f32[2, 3] } input { "x": f32[2, 5, 3] })",
               R"(op_type: "Scan" input: "" input: "s" input: "x" output: "last" output: "y"
         attribute { name: "num_scan_inputs" i: 1 type: 2 }
         attribute { name: "body" type: 5 g { name: "body" input { "a": f32[3] } input { "b": f32[3] }
           node { op_type: "Add" input: "a" input: "b" output: "n" }
           node { op_type: "Identity" input: "n" output: "o" }
           output { "n": f32[3] } output { "o": f32[3] } } })",
               R"(output { "last": f32[2, 3] } output { "y": f32[2, 5, 3] })"));
  CHECK(g.value(g.outputs[0]).type.text() == "f32[2, 3]");
  CHECK(g.value(g.outputs[1]).type.text() == "f32[2, 5, 3]");
}
