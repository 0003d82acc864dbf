#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/custom.h"
#include "support/evaluate.h"
#include "unit/formats/model_text.h"

using namespace xc;
using namespace xc::test;

namespace {

Graph load(const std::string& name) {
  return load_bytes(model_bytes(name));
}

const Node& node_of(const Graph& graph, std::string_view op) {
  for (const NodeId id : graph.order())
    if (graph.node(id).op->name == op) return graph.node(id);
  FAIL("no node " << op);
  return graph.node(0);
}

}  // namespace

TEST_CASE("formats/onnx: typed and raw weights, named dims") {
  const Graph g = load("dense");
  CHECK(g.name == "dense");
  CHECK(g.value(g.inputs[0]).type.text() == "f32[batch, 2]");
  CHECK(g.value(g.outputs[0]).type.text() == "f32[batch, 3]");
  CHECK(g.value(*g.find_value("b")).constant.to_doubles() == std::vector<double>{1, 2, 3});
  CHECK(g.value(*g.find_value("w")).constant.to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(g.node(0).name == "mm");
}

TEST_CASE("formats/onnx: captures come last, in one order for every branch; constants are shared") {
  const Graph g = load("branches");
  const Node& node = node_of(g, "If");
  REQUIRE(node.capture_count == 2);
  REQUIRE(node.inputs.size() == 3);
  CHECK(g.value(node.inputs[1]).name == "r");
  CHECK(g.value(node.inputs[2]).name == "x");
  const Graph &then = *node.subgraphs[0], &other = *node.subgraphs[1];
  REQUIRE(then.inputs.size() == 2);
  REQUIRE(other.inputs.size() == 2);
  CHECK(then.value(then.inputs[0]).name == "r");
  CHECK(other.value(other.inputs[0]).name == "r");
  CHECK(other.value(other.inputs[1]).name == "x");
  const Value& inner = then.value(*then.find_value("two"));
  CHECK(inner.is_constant());
  CHECK(inner.constant.data() == g.value(*g.find_value("two")).constant.data());
}

TEST_CASE("formats/onnx: a loop body keeps its own inputs before its captures") {
  const Graph g = load("loop");
  const Node& node = node_of(g, "Loop");
  CHECK(node.inputs[1] == kNone);
  CHECK(node.capture_count == 1);
  const Graph& body = *node.subgraphs[0];
  REQUIRE(body.inputs.size() == 4);
  CHECK(body.value(body.inputs[2]).name == "state");
  CHECK(body.value(body.inputs[3]).name == "x");
  CHECK(body.outputs.size() == 3);
}

TEST_CASE("formats/onnx: a loop without a condition, states and captures keeps its places") {
  const Graph g = load("loop_counted");
  CHECK(node_of(g, "Loop").inputs == std::vector<ValueId>{g.inputs[0], kNone});
  CHECK(g.value(g.outputs[0]).type.text().starts_with("i64["));
}

TEST_CASE("formats/onnx: an input of a body hides what has its name around it") {
  const Graph g = load("shadow");
  const Node& node = node_of(g, "Scan");
  CHECK(node.capture_count == 1);
  const Graph& body = *node.subgraphs[0];
  REQUIRE(body.inputs.size() == 3);
  CHECK(body.value(body.inputs[1]).name == "x");
  CHECK(body.value(body.inputs[2]).name == "r");
  // The node that makes the outer value stands behind: the body does not read it.
  CHECK(op_names(g) == "Relu Scan Neg");
}

TEST_CASE("formats/onnx: values of branches hide what nodes around them give later") {
  const Graph g = load("shadow_later");
  CHECK(op_names(g) == "If Exp Add If Neg");
  const Node& node = node_of(g, "If");
  CHECK(node.capture_count == 1);
  CHECK(op_names(*node.subgraphs[0]) == "Relu Neg");
  CHECK(op_names(*node.subgraphs[1]) == "Abs");
  CHECK(g.node(g.value(*g.find_value("a")).producer).op->name == "Exp");
}

TEST_CASE("formats/onnx: maps as inputs and within sequences") {
  const Graph g = load("maps");
  CHECK(g.value(g.inputs[1]).type.text() == "map(i64, f32[*])");
  CHECK(g.value(g.outputs[0]).type.text() == "seq(map(i64, f32[]))");
  CHECK(g.value(g.outputs[2]).type.text() == "f32[1, 3]");
}

TEST_CASE("formats/onnx: one name in two domains; the host's operators go before ours") {
  const Graph g = load("microsoft");
  CHECK(op_names(g) == "Gelu com.microsoft::Gelu com.microsoft::FusedMatMul");
  const Tensor x = Tensor::of<float>({0.5f, -1, 2, 0}, {1, 4});
  // numpy, in f64: gelu by tanh, gelu by erf, half of the product.
  const auto y = evaluate(g, {x})[0].to_doubles();
  CHECK(y[0] == doctest::Approx(2.89809235).epsilon(1e-5));
  CHECK(y[1] == doctest::Approx(-2.89809235).epsilon(1e-5));
  CHECK(y[2] == doctest::Approx(0.04622811).epsilon(1e-5));

  OpLibrary library;
  library.add("\"com.microsoft\"::Gelu(x: f32[n, m]) -> y: f32[n, m]", {});
  const Graph own = load_bytes(model_bytes("microsoft"), {.operators = &library});
  CHECK(as_custom(*node_of(own, "com.microsoft::Gelu").op));
  CHECK(!as_custom(*node_of(own, "com.microsoft::FusedMatMul").op));
}

TEST_CASE("formats/onnx: functions are written out with their attributes and defaults") {
  const Graph g = load("functions");
  const Tensor x = Tensor::of<float>({-4, -1, 0, 2});
  // LeakyRelu by 0.25, times 3; then LeakyRelu by 0.5, times 3.
  CHECK(evaluate(g, {x})[0].to_doubles() == std::vector<double>{-4.5, -1.125, 0, 18});
  CHECK(g.find_value("b1/s/k"));
  CHECK(op_names(g).find("Block") == std::string::npos);
}

TEST_CASE("formats/onnx: a function goes before the operator of com.microsoft with its name") {
  CHECK(op_names(load("function_microsoft")) == "Neg");
}

TEST_CASE("formats/onnx: initializers among the inputs are constants; old versions are converted") {
  const Graph g = load("old_opset");
  CHECK(g.inputs.size() == 1);
  CHECK(op_names(g) == "Unsqueeze Mul Pad Clip Identity ReduceMean Softmax");
  std::vector<float> values(32, 1.0f);
  values[0] = -16;
  const Tensor y = evaluate(g, {Tensor::of<float>(values, {1, 2, 4, 4})})[0];
  // Padded by one ring of 1.5 to 6x6, clipped to [0, 6]: means (15 * 1 + 0 + 20 * 1.5) / 36 and
  // (16 * 2 + 20 * 1.5) / 36.
  const double a = 45.0 / 36, b = 62.0 / 36;
  CHECK(y.to_doubles()[0] == doctest::Approx(1 / (1 + std::exp(b - a))));
}

TEST_CASE("formats/onnx: sparse initializers may be listed as inputs too") {
  const Graph g = load_text(R"(ir_version: 3 opset_import { version: 11 } graph { name: "g"
    input { "x": f32[4] } input { "w": f32[4] } output { "y": f32[4] }
    sparse_initializer { values { name: "w" dims: [2] data_type: 1 float_data: [5.0, 7.0] }
                         indices { dims: [2] data_type: 7 int64_data: [1, 2] } dims: [4] }
    node { op_type: "Add" input: "x" input: "w" output: "y" } })");
  CHECK(g.inputs.size() == 1);
  CHECK(evaluate(g, {Tensor::of<float>({1, 1, 1, 1})})[0].to_doubles() ==
        std::vector<double>{1, 6, 8, 1});
}

TEST_CASE("formats/onnx: sparse initializers of a graph that is written out") {
  const Graph g = load_text(R"(ir_version: 8 opset_import { version: 21 }
    opset_import { domain: "ai.onnx.preview" version: 1 } graph { name: "g"
    input { "q": f32[1, 1, 1, 1] } output { "y": f32[1, 1, 1, 1] }
    node { op_type: "FlexAttention" domain: "ai.onnx.preview" input: "q" input: "q" input: "q" output: "y"
      attribute { name: "prob_mod" type: 5 g { name: "m" input { "p": f32 } output { "r": f32 }
        sparse_initializer { values { name: "w" dims: [1] data_type: 1 float_data: [3.0] }
                             indices { dims: [1] data_type: 7 int64_data: [0] } dims: [1] }
        node { op_type: "Mul" input: "p" input: "w" output: "r" } } } } })");
  // The one probability is 1, times 3.
  CHECK(evaluate(g, {Tensor::of<float>({5}, {1, 1, 1, 1})})[0].to_doubles()[0] == 15);
}

TEST_CASE("formats/onnx: nodes are sorted, names become symbols") {
  const Graph g = load("unsorted");
  CHECK(op_names(g) == "Abs Exp If");
  CHECK(g.value(g.inputs[0]).name == "x-1");
  CHECK(g.value(g.inputs[0]).type.text() == "f32[2, x_1_d1]");
}

TEST_CASE("formats/onnx: placeholders for any size are no names of sizes") {
  // paddle2onnx declares images as [-1, 3, "?", "?"], older converters of Keras as "None".
  for (const std::string any : {"?", "-1", "None", "*"}) {
    CAPTURE(any);
    const std::string dim = "dim { dim_param: \"" + any + "\" } ";
    const Graph g = load_text(
        "ir_version: 8 opset_import { version: 17 } graph { name: \"g\" input { name: \"x\" "
        "type { tensor_type { elem_type: 1 shape { dim { dim_value: -1 } dim { dim_value: 3 } " +
        dim + dim +
        "} } } } node { op_type: \"Relu\" input: \"x\" output: \"y\" } output { name: \"y\" } }");
    CHECK(g.value(g.inputs[0]).type.text() == "f32[x_d0, 3, x_d2, x_d3]");
  }
}

TEST_CASE("formats/onnx: constants in all their forms, inputs and repeated values as outputs") {
  const Graph g = load("constants");
  CHECK(g.order().empty());
  CHECK(g.outputs[0] == g.inputs[0]);
  CHECK(g.outputs[7] == g.outputs[8]);
  const auto constant = [&](const char* name) { return g.value(*g.find_value(name)).constant; };
  CHECK(constant("i").rank() == 0);
  CHECK(constant("i").to_int64s() == std::vector<int64_t>{3});
  CHECK(constant("is").to_int64s() == std::vector<int64_t>{1, -2});
  CHECK(constant("f").dtype() == DType::kF32);
  CHECK(constant("fs").to_doubles() == std::vector<double>{0.5, 2});
  CHECK(constant("s").as<std::string>()[0] == "text");
  CHECK(constant("ss").dims() == Dims{2});
  CHECK(constant("t").to_int64s() == std::vector<int64_t>{9});
}

TEST_CASE("formats/onnx: weights of every element type") {
  const Graph g = load("types");
  const auto constant = [&](const char* name) { return g.value(*g.find_value(name)).constant; };
  const auto ints = [&](const char* name) { return constant(name).to_int64s(); };
  using L = std::vector<int64_t>;
  CHECK(ints("u8") == L{0, 255});
  CHECK(ints("i8") == L{-128, 127});
  CHECK(ints("u16") == L{65535});
  CHECK(ints("i16") == L{-32768});
  CHECK(ints("i32") == L{INT32_MIN});
  CHECK(ints("i64") == L{INT64_MIN});
  CHECK(ints("bool") == L{0, 1, 1});
  CHECK(constant("f16").to_doubles()[0] == 1);
  CHECK(constant("f64").to_doubles()[0] == 1e300);
  CHECK(ints("u32") == L{4294967295});
  CHECK(constant("u64").as<uint64_t>()[0] == UINT64_MAX);
  CHECK(constant("bf16").to_doubles()[0] == 1);
  CHECK(constant("f8").as<uint8_t>()[0] == 0x38);
  CHECK(ints("u4") == L{1, 2, 15});
  CHECK(ints("i4") == L{1, -1, -8});
  CHECK(constant("f4").as<uint8_t>()[0] == 1);
  CHECK(constant("f4").as<uint8_t>()[1] == 2);
  CHECK(ints("u2") == L{0, 1, 2, 3, 3});
  CHECK(ints("i2") == L{0, 1, -2, -1, -1});
  const auto codes = [&](const char* name) {
    const auto* bytes = constant(name).as<uint8_t>();
    return std::vector<int>(bytes, bytes + constant(name).count());
  };
  CHECK(codes("f6") == std::vector<int>{1, 62, 42, 63, 17});
  CHECK(codes("f6_list") == std::vector<int>{1, 63, 32});
  CHECK(constant("f6_list").to_doubles() == std::vector<double>{0.0625, -28, 0});
  CHECK(constant("empty").dims() == Dims{2, 0});
  CHECK(constant("sparse").to_doubles() == std::vector<double>{0, 5, 7, 0});
  CHECK(constant("str").as<std::string>()[1] == std::string("a\0b", 3));
}

TEST_CASE("formats/onnx: limits hold") {
  LoadOptions options;
  options.limits.nodes = 3;
  CHECK_NOTHROW(load_bytes(model_bytes("dense"), options));
  options.limits.nodes = 2;
  CHECK_THROWS_AS(load_bytes(model_bytes("dense"), options), Error);
  options = {};
  options.limits.subgraph_depth = 1;
  CHECK_NOTHROW(load_bytes(model_bytes("branches"), options));
  options.limits.subgraph_depth = 0;
  CHECK_THROWS_AS(load_bytes(model_bytes("branches"), options), Error);
  options = {};
  options.limits.rank = 1;
  CHECK_THROWS_AS(load_bytes(model_bytes("dense"), options), Error);
  for (const std::string& name : model_names()) {
    CAPTURE(name);
    options.limits = Limits::high_security();
    CHECK_NOTHROW(load_bytes(model_bytes(name), options));
  }
}
