#include "ir/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/registry.h"
#include "support/golden.h"

using namespace xc;

namespace {

Error parse_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::kOk, "parsed");
}

/// Prints, parses and prints again.
std::string round_trip(const std::string& text, const PrintOptions& options = {}) {
  const std::string once = print(parse_graph(text), options);
  CHECK(print(parse_graph(once), options) == once);
  return once;
}

std::string with_constant(const std::string& constant) {
  return "graph(%x: f32[n]) -> (%x) {\n  const %c: " + constant + "\n}\n";
}

}  // namespace

TEST_CASE("ir/text: nodes, types and attributes read back as printed") {
  const std::string text = R"(graph main(%x: f32[n, 3072], %"odd name\n") -> (%y, %x) {
  const %w: f32[2] = [1, 2.5]
  %t: f32[n, 3072] = Softmax(%x) {axis = -1}
  %y: f32[n, 3072] = Softmax(%t) {a = 1.0, axis = -1, b = [1, 2], c = [1.0, 2.5], d = ["x", "\"y\""], e = "s\x01", f = ints [], g = floats [], h = strings [], i = i64[2] [1, 2], j = f32[] nan}
}
)";
  CHECK(round_trip(text) == text);
}

TEST_CASE("ir/text: absent inputs and outputs, node names and origins") {
  PrintOptions options;
  options.origins = true;
  const std::string text = R"(graph(%x: f32[n, 8], %w: f32[8]) -> (%y) {
  %y: f32[n, 8], _, %s: f32[n, 1] = LayerNormalization(%x, %w, _) {axis = -1} "layer/ln" by "rule:layer_norm"
}
)";
  CHECK(round_trip(text, options) == text);
  options = {};
  options.types = false;
  CHECK(round_trip(text, options) == R"(graph(%x: f32[n, 8], %w: f32[8]) -> (%y) {
  %y, _, %s = LayerNormalization(%x, %w, _) {axis = -1}
}
)");
}

TEST_CASE("ir/text: types of every kind read back") {
  for (const char* type :
       {"f32[]", "?[2]", "f16[1+2*n, floordiv(h,2)]", "i64[pos[0]]", "seq(f32[*])",
        "opt(seq(string[n]))", "map(i64, map(string, f32[]))", "f8e4m3fn[0]", "i4[4]",
        "f32[\"batch, size]\", 3]", "c128[*]", "bf16[max(a,b), mod(n,8)]"}) {
    const std::string text = "graph(%x: " + std::string(type) + ") -> (%x) {\n}\n";
    CHECK(round_trip(text) == text);
  }
}

TEST_CASE("ir/text: constants of every element type read back with equal bits") {
  for (const char* constant :
       {"f32[4] = [nan, inf, -inf, -0]", "f64[2] = [0.1, 1e+300]",
        "f16[3] = [0.099975586, inf, 65504]", "bf16[2] = [0.100097656, -3]", "i8[2] = [-128, 127]",
        "u8[1] = [255]", "i64[2] = [-9223372036854775808, 9223372036854775807]",
        "u64[1] = [18446744073709551615]", "bool[2] = [true, false]",
        "string[2] = [\"\", \"a\\nb\"]", "c64[1] = [(1, -2.5)]", "i4[2] = [-8, 7]",
        "f8e5m2[1] = [124]", "f32[] = 1.5", "string[] = \"x\"", "f32[0, 5] = []",
        "f32[2, 2] = [1, 2, 3, 4]", "f32[64, 64] = splat 0.5", "i64[100] = splat -1"}) {
    CAPTURE(constant);
    CHECK(round_trip(with_constant(constant)) == with_constant(constant));
  }
  const Graph g = parse_graph(with_constant("f32[3] = [0.1, 3.4028235e38, 1e-45]"));
  const float* values = g.value(*g.find_value("c")).constant.as<float>();
  CHECK(values[0] == 0.1f);
  CHECK(values[1] == std::numeric_limits<float>::max());
  CHECK(values[2] == std::numeric_limits<float>::denorm_min());
}

TEST_CASE("ir/text: large constants are elided and refused when read") {
  Graph g;
  Tensor t(DType::kF32, {17});
  for (int i = 0; i < 17; ++i) t.as<float>()[i] = static_cast<float>(i);
  g.outputs = {g.add_constant("c", t)};
  const std::string text = print(g);
  CHECK(text.find("= <elided xxh3 ") != std::string::npos);
  const Error error = parse_error(text);
  CHECK(error.status() == Status::kFormat);
  CHECK(error.message() == "elided elements cannot be read back");
  CHECK(error.where() == "line 2, column 23");
  PrintOptions all;
  all.max_elements = 17;
  CHECK(print(parse_graph(print(g, all)), all) == print(g, all));
}

TEST_CASE("ir/text: strided constants print in row-major order") {
  Graph g;
  const Tensor t = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  g.outputs = {g.add_constant("c", Tensor(t.buffer(), 0, DType::kF32, {2, 2}, {1, 2}))};
  CHECK(print(g).find("[1, 3, 2, 4]") != std::string::npos);
}

TEST_CASE("ir/text: errors name line and column") {
  struct Case {
    const char *text, *message, *where;
  };
  for (const Case& c : {
           Case{"", "expected 'graph'", "line 1, column 1"},
           Case{"graph(%x) -> (%y) {\n}", "value %y is not defined before", "line 1, column 15"},
           Case{"graph(%x: f32[n]) -> (%x) {\n  %y = Softmax(%z)\n}",
                "value %z is not defined before", "line 2, column 16"},
           Case{"graph(%x: f99[n]) -> (%x) {}", "'f99' is no element type", "line 1, column 11"},
           Case{"graph(%x: f32[n*]) -> (%x) {}",
                "expected a number or a name at column 3 of dim \"n*\"", "line 1, column 15"},
           Case{"graph(%x, %x) -> () {}", "value %x is defined twice", "line 1, column 13"},
           Case{"graph(%x) -> (%x) {", "expected '}'", "line 1, column 20"},
           Case{"graph() -> () {} x", "unexpected text after the graph", "line 1, column 18"},
           Case{"graph() -> () {\n const %c: i8[1] = [200]\n}", "200 is out of range of i8",
                "line 2, column 24"},
           Case{"graph() -> () {\n const %c: f32[2] = [1]\n}", "1 elements for 2 places",
                "line 2, column 21"},
           Case{"graph() -> () {\n const %c: f32[n] = [1]\n}", "a constant needs constant dims",
                "line 2, column 20"},
           Case{"graph() -> () {\n const %c: string[] = \"x\n}", "unterminated string",
                "line 3, column 2"},
       }) {
    const Error error = parse_error(c.text);
    CHECK(error.status() == Status::kFormat);
    CHECK(error.message() == c.message);
    CHECK(error.where() == c.where);
  }
  CHECK(parse_error("graph(%x) -> (%x) {\n%y = Nonsense(%x)\n}").status() == Status::kUnsupported);
}

TEST_CASE("ir/text: a few characters cannot ask for much memory, depth or time") {
  CHECK(parse_error(with_constant("f32[1000000000] = splat 0")).status() == Status::kFormat);
  CHECK(parse_error(with_constant("f32[9223372036854775807, 16] = splat 0")).status() ==
        Status::kLimit);
  std::string types;
  for (int i = 0; i < 10000; ++i) types += "seq(";
  CHECK(parse_error("graph(%x: " + types).status() == Status::kFormat);
  std::string product = "(a+b)";
  for (char c = 'c'; c < 'z'; ++c) product += std::string("*(") + c + "0+" + c + "1)";
  CHECK(parse_error("graph(%x: f32[" + product + "]) -> (%x) {}").status() == Status::kLimit);
}
