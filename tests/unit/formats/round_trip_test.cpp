#include <doctest/doctest.h>

#include <cstring>

#include "formats/xcg/xcg.h"
#include "ir/fingerprint.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "unit/formats/model_text.h"

using namespace xc;
using namespace xc::test;

TEST_CASE("formats: every model keeps its meaning through .xcg, ONNX and text") {
  for (const std::string& name : model_names()) {
    CAPTURE(name);
    const Graph first = load_bytes(model_bytes(name));
    for (const Format format : {Format::kXcg, Format::kOnnx, Format::kText}) {
      CAPTURE(xc::name(format));
      const std::string bytes = serialize_model(first, format);
      const Graph second = load_bytes(bytes);
      CHECK(fingerprint(first) == fingerprint(second));
      // Names of the outside survive.
      REQUIRE(first.inputs.size() == second.inputs.size());
      for (size_t i = 0; i < first.inputs.size(); ++i)
        CHECK(first.value(first.inputs[i]).name == second.value(second.inputs[i]).name);
      // A second trip changes nothing more.
      CHECK(serialize_model(second, format) == bytes);
    }
  }
}

TEST_CASE("formats: dims of any name become size symbols that every format keeps") {
  for (const std::string name : {"n//-1", "n/0", "n%0", "2n", "batch size", "a[0]", "x.y:z", "?0",
                                 "\xce\xb1", "(", "n!", "max(n,m)"}) {
    CAPTURE(name);
    const Graph first = load_text(
        "ir_version: 8 opset_import { version: 17 } graph { name: \"g\" input { name: \"x\" "
        "type { tensor_type { elem_type: 1 shape { dim { dim_param: \"" +
        name +
        "\" } dim { dim_value: 3 } } } } } node { op_type: \"Relu\" input: \"x\" output: "
        "\"y\" } output { name: \"y\" } }");
    const std::string type = first.value(first.inputs[0]).type.text();
    CHECK(Dim::parse(symbol_name(name)).as_symbol() == symbol_name(name));
    for (const Format format : {Format::kXcg, Format::kOnnx, Format::kText}) {
      const Graph second = load_bytes(serialize_model(first, format));
      CHECK(second.value(second.inputs[0]).type.text() == type);
    }
  }
}

TEST_CASE("formats: ONNX to .xcg to ONNX is the same graph") {
  for (const std::string& name : model_names()) {
    CAPTURE(name);
    const Graph first = load_bytes(model_bytes(name));
    const Graph second = load_bytes(serialize_model(first, Format::kXcg));
    const Graph third = load_bytes(serialize_model(second, Format::kOnnx));
    CHECK(fingerprint(first) == fingerprint(third));
  }
}

TEST_CASE("formats/onnx: no two nodes of a file have one name") {
  Graph first = parse_graph("graph g(%x: f32[n]) -> (%z) { %y = Neg(%x)\n %z = Exp(%y) }");
  infer_types(first);
  for (const NodeId id : first.order()) first.node(id).name = "same";
  const Graph second = load_bytes(serialize_model(first, Format::kOnnx));
  std::vector<std::string> names;
  for (const NodeId id : second.order()) names.push_back(second.node(id).name);
  CHECK(names == std::vector<std::string>{"same", "same.1"});
}

TEST_CASE("formats/onnx: as many values as the standard has") {
  // Absent ones at the end are written where readers count.
  Graph few = parse_graph(R"(graph g(%x: f32[s, b, 2], %w: i8[1, 2, 12], %r: i8[1, 3, 12],
    %ws: f32[1], %wz: i8[1], %rs: f32[1]) -> (%y) {
  %y = com.microsoft::DynamicQuantizeLSTM(%x, %w, %r, _, _, _, _, _, %ws, %wz, %rs) {hidden_size = 3}
})");
  infer_types(few);
  CHECK(fingerprint(load_bytes(serialize_model(few, Format::kOnnx))) == fingerprint(few));
  // A pass that knows a kernel with a bias has no name for it in ONNX.
  Graph many = parse_graph(R"(graph g(%x: i8[n, 3]) -> (%y) {
  const %s: f32[] = 0.25
  const %zero: i8[] = 0
  const %w: i8[3, 2] = [1, 4, -2, -5, 3, 6]
  const %bias: i32[2] = [8, -20]
  %y = QLinearMatMul(%x, %s, %zero, %w, %s, %zero, %s, %zero, %bias)
})");
  infer_types(many);
  CHECK(fingerprint(load_bytes(serialize_model(many, Format::kXcg))) == fingerprint(many));
  try {
    serialize_model(many, Format::kOnnx);
    FAIL_CHECK("a product with a bias was written as one without");
  } catch (const Error& error) {
    CHECK(error.status() == Status::kUnsupported);
    CHECK(error.where().find("QLinearMatMul") != std::string::npos);
    CHECK(error.message().find("9 inputs") != std::string::npos);
  }
}

TEST_CASE("formats/xcg: node names, origins, declared types, sharing and checksums survive") {
  Graph g = load_bytes(model_bytes("branches"));
  g.node(0).made_by = "a rule";
  const std::string bytes = serialize_model(g, Format::kXcg, {.checksum = true});
  const Graph back = load_bytes(bytes, {.infer = false});
  PrintOptions all;
  all.origins = true;
  CHECK(print(g, all) == print(back, all));
  // The constant of the body and the one outside are one tensor in the file.
  CHECK(bytes.find("\"tensor\":1") == std::string::npos);
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  CHECK_THROWS_AS(load_bytes(damaged), Error);
}

TEST_CASE("formats/xcg: weights of a mapped file are views of it") {
  const Graph g = load_bytes(serialize_model(load_bytes(model_bytes("dense")), Format::kXcg));
  const Tensor &w = g.value(*g.find_value("w")).constant, &b = g.value(*g.find_value("b")).constant;
  CHECK(w.buffer() == b.buffer());
  CHECK(reinterpret_cast<uintptr_t>(w.data()) % xcg::kAlignment == 0);
}

TEST_CASE("formats: foreign files are named") {
  const auto message = [](std::string_view bytes) -> std::string {
    try {
      load_bytes(bytes);
    } catch (const Error& error) {
      CHECK(error.status() == Status::kFormat);
      return error.message();
    }
    return "loaded";
  };
  using std::string_view_literals::operator""sv;
  CHECK(message("").find("empty") != std::string::npos);
  CHECK(message("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull") !=
        std::string::npos);
  CHECK(message("\x7f"
                "ELF\x02"sv)
            .find("executable") != std::string::npos);
  CHECK(message("GGUF\x03\0\0\0"sv).find("GGUF") != std::string::npos);
  CHECK(message("PK\x03\x04"sv).find("ZIP") != std::string::npos);
  CHECK(message("{}").find("JSON") != std::string::npos);
  // Wire type 3, an integer where a length is, numbers that no field of a model has.
  for (const std::string_view other :
       {"C++"sv, "*abc"sv, "\x10\x07"sv, "\x78\x07"sv, "\x93NUMPY"sv, "\xa2\x7f"sv})
    CHECK(message(other) == "the file is no ONNX, .xcg or text model");
}

TEST_CASE("formats: numbers of attributes that JSON cannot say") {
  Graph g = load_bytes(model_bytes("functions"));
  NodeId leaky = g.order()[0];
  g.node(leaky).attrs.set("alpha", std::numeric_limits<double>::infinity());
  CHECK(fingerprint(load_bytes(serialize_model(g, Format::kXcg))) == fingerprint(g));
  g.node(leaky).attrs.set("alpha", std::numeric_limits<double>::quiet_NaN());
  const Graph back = load_bytes(serialize_model(g, Format::kXcg));
  CHECK(std::isnan(back.node(back.order()[0]).attrs.get_float("alpha", 0)));
}
