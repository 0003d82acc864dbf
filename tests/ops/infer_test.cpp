// The inference driver: elements of shapes, control flow, declared types, places of errors.

#include "ops/infer.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

Graph inferred(std::string_view text) {
  Graph graph = parse_graph(text);
  infer_types(graph);
  return graph;
}

std::string type_of(const Graph& graph, std::string_view value) {
  return graph.value(*graph.find_value(value)).type.text();
}

std::string elements_of(const Graph& graph, std::string_view value) {
  const auto& elements = graph.value(*graph.find_value(value)).elements;
  return elements ? to_text(*elements) : "unknown";
}

Error error_of(std::string_view text) {
  try {
    inferred(text);
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::kOk, "no error");
}

}  // namespace

TEST_CASE("ops/infer: shapes are followed through integer arithmetic") {
  const Graph g = inferred(R"(graph main(%x: f32[n, 3, h]) -> (%y) {
    const %zero: i64[] = 0
    const %two: i64[] = 2
    const %axis: i64[1] = [0]
    const %minus: i64[1] = [-1]
    const %from: i64[1] = [1]
    const %far: i64[1] = [9223372036854775807]
    %shape = Shape(%x)
    %batch = Gather(%shape, %zero)
    %height = Gather(%shape, %two)
    %double = Mul(%height, %two)
    %half = Div(%double, %two)
    %more = Add(%half, %two)
    %b1 = Unsqueeze(%batch, %axis)
    %m1 = Unsqueeze(%more, %axis)
    %target = Concat(%b1, %minus, %m1) {axis = 0}
    %rest = Slice(%shape, %from, %far)
    %size = ReduceProd(%rest) {keepdims = 0}
    %float = Cast(%shape) {to = 1}
    %back = Cast(%float) {to = 7}
    %y = ConstantOfShape(%back)
  })");
  CHECK(elements_of(g, "shape") == "[n, 3, h]");
  CHECK(elements_of(g, "half") == "[h]");
  CHECK(elements_of(g, "target") == "[n, -1, 2+h]");
  CHECK(elements_of(g, "rest") == "[3, h]");
  CHECK(elements_of(g, "size") == "[3*h]");
  CHECK(type_of(g, "y") == "f32[n, 3, h]");
}

TEST_CASE("ops/infer: the exporters' guard around -1 is decided") {
  const Graph g = inferred(R"(graph main(%x: f32[n, 4], %like: f32[1, n, 4]) -> (%y) {
    const %wanted: i64[3] = [-1, 2, 4]
    const %minus: i64[3] = [-1, -1, -1]
    %shape = Shape(%like)
    const %three: i64[1] = [3]
    %one = ConstantOfShape(%three) {value = i64[1] [1]}
    %is = Equal(%wanted, %minus)
    %chosen = Where(%is, %one, %wanted)
    %y = Expand(%x, %shape)
  })");
  CHECK(elements_of(g, "is") == "[1, 0, 0]");
  CHECK(elements_of(g, "chosen") == "[1, 2, 4]");
  CHECK(type_of(g, "y") == "f32[1, n, 4]");
}

TEST_CASE("ops/infer: elements of a small integer input become symbols") {
  const Graph g = inferred(R"(graph main(%x: f32[n, 6], %k: i64[], %shape: i64[2]) -> (%y, %z, %w) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %y = Range(%zero, %k, %one)
    %z = Expand(%x, %shape)
    %w = Reshape(%x, %shape)
  })");
  CHECK(elements_of(g, "k") == "[k[0]]");
  CHECK(type_of(g, "y") == "i64[max(0,k[0])]");
  // -1 and 0 are possible at run time: 2 x 6 as [-1, 4] and [0, 6].
  const SymDims& dims = *g.value(*g.find_value("w")).type.dims;
  const auto at = [&](int64_t a, int64_t b) {
    Dims out;
    for (const Dim& d : dims)
      out.push_back(*d.evaluate([&](const std::string& s) -> std::optional<int64_t> {
        return s == "n" ? 2 : s == "shape[0]" ? a : s == "shape[1]" ? b : 0;
      }));
    return out;
  };
  CHECK(at(3, 4) == Dims{3, 4});
  CHECK(at(-1, 4) == Dims{3, 4});
  CHECK(at(4, -1) == Dims{4, 3});
  CHECK(at(0, 6) == Dims{2, 6});
  CHECK(at(0, -1) == Dims{2, 6});
}

TEST_CASE("ops/infer: behind a part whose size only a run knows no part has known elements") {
  const Graph g = inferred(R"(graph main(%n: i64[1]) -> (%a, %b, %c) {
    const %x: i64[6] = [10, 11, 12, 13, 14, 15]
    const %two: i64[1] = [2]
    const %one: i64[1] = [1]
    %sizes = Concat(%two, %n, %one) {axis = 0}
    %a, %b, %c = Split(%x, %sizes)
  })");
  CHECK(elements_of(g, "a") == "[10, 11]");
  CHECK(elements_of(g, "b") == "unknown");
  CHECK(elements_of(g, "c") == "unknown");
}

TEST_CASE("ops/infer: comparisons of sizes and elements are numbers of 0 and 1") {
  const Graph g = inferred(R"(graph main(%x: f32[n, m], %k: i64[], %b: bool[]) -> (%less) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    const %three: i64[] = 3
    %shape = Shape(%x)
    %n = Gather(%shape, %zero)
    %m = Gather(%shape, %one)
    %less = Less(%n, %m)
    %equal = Equal(%n, %m)
    %most = LessOrEqual(%n, %three)
    %least = GreaterOrEqual(%three, %m)
    %three_k = Equal(%k, %three)
    %more_k = Greater(%k, %three)
    %either = Xor(%less, %three_k)
    %any = Or(%equal, %more_k)
    %both = And(%most, %b)
    %not = Not(%both)
    %some = Cast(%n) {to = 9}
    %some_k = Cast(%k) {to = 9}
  })");
  const auto value = [&](std::string_view name, int64_t n, int64_t m, int64_t k, bool b) {
    const auto& elements = g.value(*g.find_value(name)).elements;
    REQUIRE(elements);
    CHECK(elements->front().lower_bound() == 0);
    CHECK(elements->front().upper_bound() == 1);
    return elements->front().evaluate([&](const std::string& symbol) -> std::optional<int64_t> {
      return symbol == "n" ? n : symbol == "m" ? m : symbol == "k[0]" ? k : int64_t{b};
    });
  };
  for (const int64_t k :
       {INT64_MIN + 1, int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{3}, int64_t{4}, INT64_MAX})
    for (int64_t n = 0; n < 5; ++n)
      for (int64_t m = 0; m < 5; ++m)
        for (const bool b : {false, true}) {
          const auto is = [&](std::string_view name) { return value(name, n, m, k, b); };
          CHECK(is("less") == (n < m));
          CHECK(is("equal") == (n == m));
          CHECK(is("most") == (n <= 3));
          CHECK(is("least") == (3 >= m));
          CHECK(is("three_k") == (k == 3));
          CHECK(is("more_k") == (k > 3));
          CHECK(is("either") == ((n < m) != (k == 3)));
          CHECK(is("any") == (n == m || k > 3));
          CHECK(is("not") == !(n <= 3 && b));
          CHECK(is("some") == (n != 0));
          CHECK(is("some_k") == (k != 0));
        }
}

TEST_CASE("ops/infer: elements are followed as numbers their type has") {
  const Graph g = inferred(R"(graph main(%x: f32[n, m], %k: i64[1], %i: i32[2]) -> (%y) {
    const %large: i64[1] = [4294967301]
    const %odd: i64[1] = [16777217]
    const %two: i32[1] = [2]
    const %seven: i32[1] = [7]
    const %top: i32[1] = [2147483647]
    const %zero: f32[1] = [0]
    const %minus: f32[1] = [-1]
    const %minus_zero: f32[1] = [-0.0]
    const %one: i64[1] = [1]
    const %factor: i32[] = 1048576
    const %pixels: i32[] = 50176
    const %prime: i64[] = 8193
    %wrapped = Cast(%large) {to = 6}
    %sum = Add(%top, %two)
    %rounded = Cast(%odd) {to = 1}
    %negated = Neg(%zero)
    %product = Mul(%zero, %minus)
    %copied = Reshape(%minus_zero, %one)
    %narrow = Cast(%k) {to = 6}
    %real = Cast(%k) {to = 1}
    %wide = Cast(%i) {to = 7}
    %twice = Mul(%i, %two)
    %rest = Mod(%i, %seven)
    %least = Max(%i, %two)
    %shape = Shape(%x)
    %small = Cast(%shape) {to = 6}
    %doubled = Mul(%small, %two)
    %float = Cast(%shape) {to = 1}
    %below = Mul(%float, %minus)
    %size = Size(%x)
    %elements = Cast(%size) {to = 6}
    %mega = Mul(%elements, %factor)
    %area = Mul(%elements, %pixels)
    %beyond = Add(%small, %top)
    %end = Min(%beyond, %small)
    %many = Mul(%size, %prime)
    %inexact = Cast(%many) {to = 1}
    %y = Identity(%x)
  })");
  CHECK(elements_of(g, "wrapped") == "[5]");
  CHECK(elements_of(g, "sum") == "[-2147483647]");
  for (const char* value : {"rounded", "negated", "product", "copied", "narrow", "real", "twice",
                            "below", "mega", "beyond", "end", "inexact"}) {
    CAPTURE(value);
    CHECK(elements_of(g, value) == "unknown");
  }
  CHECK(elements_of(g, "wide") == "[i[0], i[1]]");
  CHECK(elements_of(g, "least") == "[max(2,i[0]), max(2,i[1])]");
  CHECK(elements_of(g, "rest") == "[mod(i[0],7), mod(i[1],7)]");
  CHECK(elements_of(g, "doubled") == "[2*n, 2*m]");
  CHECK(elements_of(g, "float") == "[n, m]");
}

TEST_CASE("ops/infer: a size is neither a -1 nor a 0 of a shape") {
  // Heads split off behind a convolution, as exporters write x.view(b, n, -1, 8).
  const std::string_view text = R"(graph main(%x: f32[B, 3, H, W], %w: f32[16, 3, 7, 7]) -> (%y) {
    const %flat: i64[3] = [0, 16, -1]
    const %zero: i64[] = 0
    const %one: i64[] = 1
    const %axis: i64[1] = [0]
    const %minus: i64[1] = [-1]
    const %eight: i64[1] = [8]
    %c = Conv(%x, %w) {strides = [4, 4], pads = [3, 3, 3, 3]}
    %r = Reshape(%c, %flat)
    %t = Transpose(%r) {perm = [0, 2, 1]}
    %shape = Shape(%t)
    %b = Gather(%shape, %zero)
    %n = Gather(%shape, %one)
    %b1 = Unsqueeze(%b, %axis)
    %n1 = Unsqueeze(%n, %axis)
    %wanted = Concat(%b1, %n1, %minus, %eight) {axis = 0}
    %y = Reshape(%t, %wanted)
  })";
  const std::string area = "1+floordiv(-1+H,4)+floordiv(-1+H,4)*floordiv(-1+W,4)+floordiv(-1+W,4)";
  CHECK(type_of(inferred(text), "y") == "f32[B, " + area + ", 2, 8]");
}

TEST_CASE("ops/infer: lengths behind windows without padding stay short") {
  std::string text = "graph main(%x: f32[1, 1, T], %w: f32[4, 1, 10]";
  for (int i = 1; i < 7; ++i) text += ", %w" + std::to_string(i) + ": f32[4, 4, 3]";
  text += R"() -> (%y) {
    const %group: i64[3] = [0, 1, -1]
    %v0 = Conv(%x, %w) {strides = [5]}
)";
  for (int i = 1; i < 7; ++i) {  // a norm over groups between two, as exporters write it
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    text += "    %s" + before + " = Shape(%v" + before + ")\n";
    text += "    %g" + before + " = Reshape(%v" + before + ", %group)\n";
    text += "    %h" + before + " = Reshape(%g" + before + ", %s" + before + ")\n";
    text += "    %v" + n + " = Conv(%h" + before + ", %w" + n + ") {strides = [2]}\n";
  }
  text += "    %y = Relu(%v6)\n  }";
  const Graph g = inferred(text);
  CHECK(type_of(g, "h0") == "f32[1, 4, -1+floordiv(T,5)]");
  // 16000 samples are 49 frames: of wav2vec 2.0.
  const Dim frames = g.value(*g.find_value("y")).type.dims->back();
  CHECK(frames.text().size() < 64);
  CHECK(frames.evaluate([](const std::string&) { return std::optional<int64_t>(16000); }) == 49);
}

TEST_CASE("ops/infer: sizes that are too long to compute with follow from a run") {
  // Four sums of six lengths each: 1,296 products.
  std::string inputs, nodes;
  for (int k = 0; k < 4; ++k) {
    std::string parts, dims = "1, 1, 1, 1";
    for (int i = 0; i < 6; ++i) {
      const std::string name = std::to_string(k) + std::to_string(i);
      std::string shape = dims;
      shape.replace(static_cast<size_t>(3 * k), 1, "n" + name);
      inputs += (inputs.empty() ? "%x" : ", %x") + name + ": f32[" + shape + "]";
      parts += (parts.empty() ? "%x" : ", %x") + name;
    }
    const std::string n = std::to_string(k);
    nodes += "  %s" + n + " = Concat(" + parts + ") {axis = " + n + "}\n";
  }
  const Graph g = inferred("graph main(" + inputs + ") -> (%y) {\n" + nodes + R"(
    %a = Add(%s0, %s1)
    %b = Add(%a, %s2)
    %c = Add(%b, %s3)
    %y = Flatten(%c) {axis = 4}
  })");
  const SymDims& dims = *g.value(*g.find_value("c")).type.dims;
  CHECK(dims.size() == 4);
  CHECK(std::count_if(dims.begin(), dims.end(), [](const Dim& d) {
          return d.as_symbol().value_or("").starts_with("u");
        }) == 1);
  CHECK(element_count(dims).text().size() < 32 << 10);
  CHECK(g.value(*g.find_value("y")).type.dims->front() == element_count(dims));
}

TEST_CASE("ops/infer: sizes that only a run can tell are fresh symbols") {
  const Graph g = inferred(R"(graph main(%x: f32[u0, 4]) -> (%a, %b) {
    %a = NonZero(%x)
    %b = Transpose(%a)
  })");
  CHECK(type_of(g, "a") == "i64[2, u1]");
  CHECK(type_of(g, "b") == "i64[u1, 2]");
}

TEST_CASE("ops/infer: branches of an If are merged") {
  const std::string_view text = R"(graph main(%c: bool[], %x: f32[n, 4]) -> (%y, %z) {
    %y, %z = If(%c, %x) {} captures 1 (
      graph then(%t: f32[n, 4]) -> (%a, %b) {
        %a = Relu(%t)
        %b = Shape(%t)
      }, graph else(%e: f32[n, 4]) -> (%a, %b) {
        const %twice: i64[2] = [2, 1]
        %a = Tile(%e, %twice)
        %b = Shape(%a)
      })
  })";
  const Graph g = inferred(text);
  CHECK(type_of(g, "y") == "f32[u0, 4]");
  CHECK(type_of(g, "z") == "i64[2]");
}

TEST_CASE("ops/infer: a loop widens the dims its body changes") {
  const Graph g =
      inferred(R"(graph main(%m: i64[], %x: f32[n, 4], %w: f32[4, 4]) -> (%y, %s, %trace) {
    const %yes: bool[] = true
    %y, %s, %trace = Loop(%m, %yes, %x, %x, %w) {} captures 1 (
      graph body(%i: i64[], %go: bool[], %grow: f32[*], %same: f32[*], %cw: f32[*]) -> (%go, %more, %next, %row) {
        %next = MatMul(%same, %cw)
        %more = Concat(%grow, %next) {axis = 0}
        %row = ReduceSum(%next)
      })
  })");
  CHECK(type_of(g, "y") == "f32[u1, 4]");
  CHECK(type_of(g, "s") == "f32[n, 4]");
  CHECK(type_of(g, "trace") == "f32[max(0,m[0]), 1, 1]");
  const Graph& body = *g.node(g.order()[0]).subgraphs[0];
  CHECK(type_of(body, "grow") == "f32[u0, 4]");
  CHECK(type_of(body, "more") == "f32[n+u0, 4]");
}

TEST_CASE("ops/infer: a scan takes slices and stacks results") {
  const Graph g = inferred(R"(graph main(%s: f32[8], %x: f32[t, b, 8]) -> (%last, %all) {
    %last, %all = Scan(%s, %x) {num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1]} captures 0 (
      graph body(%h: f32[8], %v: f32[*]) -> (%next, %out) {
        const %axis: i64[1] = [0]
        %sum = ReduceSum(%v, %axis) {keepdims = 0}
        %next = Add(%h, %sum)
        %out = Tanh(%v)
      })
  })");
  CHECK(type_of(g, "last") == "f32[8]");
  CHECK(type_of(g, "all") == "f32[t, 8, b]");
}

TEST_CASE("ops/infer: an unknown rank passes through with its dtype") {
  const Graph g = inferred(R"(graph main(%x: f32[n, m], %axes: i64[k]) -> (%y) {
    %s = Squeeze(%x, %axes)
    %t = Relu(%s)
    %y = Cast(%t) {to = 7}
  })");
  CHECK(type_of(g, "s") == "f32[*]");
  CHECK(type_of(g, "t") == "f32[*]");
  CHECK(type_of(g, "y") == "i64[*]");
}

TEST_CASE("ops/infer: several unknown ranks need not be the same") {
  const Graph g =
      inferred(R"(graph main(%a: f32[*], %b: f32[*], %i: i64[*], %s: f32[*]) -> (%y, %z) {
    %c = Conv(%a, %b, %s)
    %y = Cast(%c) {to = 7}
    %d = ScatterND(%a, %i, %b)
    %z = Gemm(%d, %b, %s)
  })");
  CHECK(type_of(g, "c") == "f32[*]");
  CHECK(type_of(g, "y") == "i64[*]");
  CHECK(type_of(g, "z") == "f32[*]");
  const Error wrong = error_of(R"(graph main(%a: f32[*], %b: i64[*]) -> (%y) {
    %y = MatMul(%a, %b) "product"
  })");
  CHECK(wrong.where().find("product") != std::string::npos);
}

TEST_CASE("ops/infer: what has to be one number is refused without an element") {
  const Error error = error_of(R"(graph main(%x: f32[1, 4, 1]) -> (%y) {
    const %none: i64[0] = []
    %y = DFT(%x, _, %none)
  })");
  CHECK(error.status() == Status::kInvalidModel);
  CHECK(error.message().find("expected one element") != std::string::npos);
}

TEST_CASE("ops/infer: errors name the node") {
  const Error shapes = error_of(R"(graph main(%x: f32[2, 3], %y: f32[2, 4]) -> (%z) {
    %z = Add(%x, %y) "layer/add"
  })");
  CHECK(shapes.status() == Status::kInvalidModel);
  CHECK(shapes.where().find("layer/add") != std::string::npos);
  CHECK(shapes.message() == "shapes [2, 3] and [2, 4] do not broadcast: 3 against 4");
  CHECK(error_of(R"(graph main(%x: f32[2]) -> (%z) { %z = Not(%x) })").message() ==
        "input 0 is of type f32, expected one of: bool");
  CHECK(error_of(R"(graph main(%x: f32[2]) -> (%z) { %z = Softmax(%x) {axis = 1} })").status() ==
        Status::kInvalidModel);
  // A declared graph output that contradicts what follows from the inputs in type.
  CHECK(error_of(R"(graph main(%x: f32[2]) -> (%z) { %z: i64[2] = Relu(%x) })").status() ==
        Status::kInvalidModel);
}

TEST_CASE("ops/infer: windows in ceil mode may be longer than the input, by less than a stride") {
  const auto pool = [](const char* dims, const char* attributes) {
    return fmt::format("graph main(%x: f32[1, 2, {}]) -> (%y) {{ %y = MaxPool(%x) {{{}}} }}", dims,
                       attributes);
  };
  const char* ceil = "kernel_shape = [3], strides = [2], ceil_mode = 1";
  CHECK(type_of(inferred(pool("2", ceil)), "y") == "f32[1, 2, 1]");
  CHECK(error_of(pool("1", ceil)).status() == Status::kInvalidModel);
  CHECK(error_of(pool("2", "kernel_shape = [3], strides = [2]")).status() == Status::kInvalidModel);
  const Graph g = inferred(pool("n", ceil));
  const Dim y = (*g.value(*g.find_value("y")).type.dims)[2];
  // As onnxruntime has them.
  const int64_t sizes[] = {1, 1, 2, 2, 3, 3};
  for (int64_t n = 2; n < 8; ++n)
    CHECK(y.evaluate([&](const std::string&) { return n; }) == sizes[n - 2]);
}

TEST_CASE("ops/infer: pools in ceil mode name their input once where no window can be dropped") {
  std::string text = "graph main(%y0: f32[1, 2, h, w]) -> (%y12) {\n";
  for (int k = 1; k <= 12; ++k)
    text += fmt::format(
        "%y{} = MaxPool(%y{}) {{kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 0], "
        "ceil_mode = 1}}\n",
        k, k - 1);
  const Graph g = inferred(text + "}");
  const auto thousand = [](const std::string&) { return 1000; };
  int64_t h = 1000, w = 1000;
  for (int k = 1; k <= 12; ++k) {
    h = (h - 1 + 1) / 2 + 1;  // ceil((h + 2 - 3) / 2) + 1
    w = (w - 2 + 1) / 2 + 1;
    const SymDims& dims = *g.value(*g.find_value(fmt::format("y{}", k))).type.dims;
    CHECK(dims[2].evaluate(thousand) == h);
    CHECK(dims[3].evaluate(thousand) == w);
  }
}

TEST_CASE("ops/infer: inferred dims count for declared ones, with a warning") {
  // 80 rows times 2.3: 184 in f32, as onnxruntime has it, 183 where shapes are inferred in f64.
  Graph g = parse_graph(R"(graph main(%x: f32[1, 2, 80, 4]) -> (%z) {
    const %scales: f32[4] = [1, 1, 2.3, 1]
    %y: f32[1, 2, 183, 4] = Resize(%x, _, %scales) {mode = "nearest"} "up"
    %z: f32[1, 2, 183, 4] = Relu(%y) "act"
  })");
  std::vector<std::string> warnings;
  infer_types(g, [&](const std::string& text) { warnings.push_back(text); });
  CHECK(type_of(g, "y") == "f32[1, 2, 184, 4]");
  CHECK(type_of(g, "z") == "f32[1, 2, 184, 4]");
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0] ==
        "node 'up' (Resize): 'y' is declared as f32[1, 2, 183, 4], inferred is f32[1, 2, 184, 4], "
        "which counts");
  CHECK(warnings[1].starts_with("node 'act' (Relu): 'z'"));
  // The rank of an output too: onnxruntime runs such a model.
  Graph rank = parse_graph(R"(graph main(%x: f32[n, 1, 4]) -> (%z) {
    %z: f32[1, k] = Relu(%x) "last"
  })");
  infer_types(rank, [&](const std::string& text) { warnings.push_back(text); });
  CHECK(type_of(rank, "z") == "f32[n, 1, 4]");
  REQUIRE(warnings.size() == 3);
  CHECK(warnings.back() ==
        "node 'last' (Relu): 'z' is declared as f32[1, k], inferred is f32[n, 1, 4], which counts");
  // Symbols say nothing, in either.
  Graph quiet = parse_graph(R"(graph main(%x: f32[n, 2]) -> (%z) { %z: f32[3, k] = Relu(%x) })");
  infer_types(quiet, [&](const std::string& text) { warnings.push_back(text); });
  CHECK(warnings.size() == 3);
}

TEST_CASE("ops/check_node: arity, attribute names, kinds and ranges") {
  const auto message = [](std::string_view op, size_t inputs, Attrs attrs) {
    Node node;
    node.op = &get_op(op);
    node.inputs.assign(inputs, 0);
    node.outputs = {1};
    node.attrs = std::move(attrs);
    try {
      check_node(node);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  const auto with = [](const char* name, Attr value) {
    Attrs out;
    out.set(name, std::move(value));
    return out;
  };
  CHECK(message("Add", 2, {}) == "");
  CHECK(message("Add", 3, {}) == "3 inputs, expected 2");
  CHECK(message("Concat", 1, {}) == "required attribute 'axis' is missing");
  CHECK(message("Concat", 1, with("axes", int64_t{0})) == "unknown attribute 'axes'");
  CHECK(message("Concat", 1, with("axis", 0.5)) ==
        "attribute 'axis' is of kind float, expected int");
  CHECK(message("Mod", 2, with("fmod", int64_t{2})) ==
        "attribute 'fmod' is 2, expected a value in [0, 1]");
  CHECK(message("Gelu", 1, with("approximate", std::string("fast"))) ==
        "attribute 'approximate' is 'fast', expected one of none|tanh");
}

TEST_CASE("ops/registry: lookup by domain and name") {
  CHECK(find_op("Add") == &get_op("Add"));
  CHECK(find_op("Add", "com.example") == nullptr);
  CHECK_THROWS_AS(get_op("NoSuchOp"), Error);
  const auto ops = all_ops();
  CHECK(std::is_sorted(ops.begin(), ops.end(), [](const OpDef* a, const OpDef* b) {
    return std::pair(a->domain, a->name) < std::pair(b->domain, b->name);
  }));
}

}  // namespace xc::test
