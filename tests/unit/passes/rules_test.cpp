#include "passes/rules/rule_set.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/infer.h"
#include "passes/pipeline.h"

using namespace xc;

namespace {

RuleSet rules_of(std::string_view text) {
  RuleSet out;
  out.add(text);
  return out;
}

Error load_error(const std::string& text) {
  try {
    rules_of(text);
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::kOk, "loaded");
}

/// The operators of a graph after the rules of `text`, in order.
std::string rewritten(const std::string& rules, const std::string& graph_text,
                      std::vector<std::string> disabled = {}) {
  const RuleSet set = rules_of(rules);
  PassOptions options;
  options.extra_rules = &set;
  options.verify_each = true;
  options.disabled = std::move(disabled);
  Graph graph = parse_graph(graph_text);
  run_pass(graph, find_pass("apply-rules"), options);
  run_pass(graph, find_pass("remove-dead"), options);
  verify(graph);
  std::string out;
  for (NodeId id : graph.order())
    out += (out.empty() ? "" : " ") + std::string(graph.node(id).op->name);
  return out;
}

std::string unary_chain(const std::string& first, const std::string& second) {
  return "graph(%x: f32[n, 4]) -> (%y) {\n%a = " + first + "\n%y = " + second + "\n}";
}

}  // namespace

TEST_CASE("passes/rules: the built-in rules load and every operator of theirs exists") {
  CHECK(builtin_rules().rules().size() > 12);
  for (const std::string& note : builtin_rules().notes()) FAIL_CHECK(note);
}

TEST_CASE("passes/rules: errors name line and column") {
  struct Case {
    const char *text, *message, *where;
  };
  for (const Case& c : {
           Case{"rul a", "expected 'rule'", "line 1, column 1"},
           Case{"rule a: ?x => ?x", "a pattern is an operator or alternatives of them",
                "line 1, column 12"},
           Case{"rule a: Relu(?x) =>\n Relu(?y)", "?y does not occur in the pattern",
                "line 2, column 9"},
           Case{"rule a: Relu(?x, ?y) => ?x", "Relu does not take 2 inputs", "line 1, column 9"},
           Case{"rule a: Relu(?x) {alpha = 1} => ?x", "Relu has no attribute 'alpha'",
                "line 1, column 9"},
           Case{"rule a: Softmax(?x) {axis = 1.5} => ?x",
                "Softmax attribute 'axis' is of kind int, not float", "line 1, column 9"},
           Case{"rule a: Relu(?x) => 1", "a replacement is an operator or a variable",
                "line 1, column 22"},
           Case{"rule a: Relu(?x:thing) => ?x", "expected 'const' or 'scalar'",
                "line 1, column 17"},
           Case{"rule a: Relu(?x) => ?x where rank(?x) = 3", "expected a comparison",
                "line 1, column 39"},
           Case{"rule a: Relu(?x) => ?x where size(?x) == 3",
                "expected rank, dim, count, value, dtype, sqrt, a number or an element type",
                "line 1, column 30"},
           Case{"rule a: Relu(?x) => Cast(?x)", "Cast needs attribute 'to'", "line 1, column 21"},
           Case{"rule a: Relu(?x) => ?x\nrule a: Relu(?x) => ?x", "rule a is given twice",
                "line 2, column 7"},
           Case{"rule a: If(?x) => ?x", "If has bodies: not for rules", "line 1, column 9"},
       }) {
    const Error error = load_error(c.text);
    CHECK(error.status() == Status::kFormat);
    CHECK(error.message() == c.message);
    CHECK(error.where() == c.where);
  }
}

TEST_CASE("passes/rules: size and nesting are bounded") {
  std::string deep = "rule a: ";
  for (int i = 0; i < 1000; ++i) deep += "Relu(";
  CHECK(load_error(deep).status() == Status::kFormat);
  std::string wide = "rule a: Concat(?x";
  for (int i = 0; i < 1000; ++i) wide += ", ?x";
  CHECK(load_error(wide + ") {axis = 0} => ?x").status() == Status::kFormat);
}

TEST_CASE("passes/rules: a rule of an unknown operator is left out with a note") {
  const RuleSet set = rules_of("rule a: Relu(?x) => acme::Magic(?x)\nrule b: Relu(?x) => Abs(?x)");
  CHECK(set.rules().size() == 1);
  REQUIRE(set.notes().size() == 1);
  CHECK(set.notes()[0] == "rule a: no operator acme::Magic");
}

TEST_CASE("passes/rules: an f64 has all digits of a rule's number where numerics are strict") {
  const auto op_of = [](const std::string& root, const char* type, bool tolerant) {
    PassOptions options;
    options.tolerant = tolerant;
    options.verify_each = true;
    Graph graph = parse_graph(fmt::format(R"(graph(%x: {0}[n, 4]) -> (%y) {{
  const %root: {0}[] = {1}
  const %one: {0}[] = 1
  const %half: {0}[] = 0.5
  %a = Div(%x, %root)
  %b = Erf(%a)
  %c = Add(%b, %one)
  %d = Mul(%x, %c)
  %y = Mul(%d, %half)
}})",
                                          type, root));
    run_pass(graph, find_pass("apply-rules"), options);
    return std::string(graph.node(graph.value(graph.outputs[0]).producer).op->name);
  };
  for (const bool tolerant : {true, false}) {
    CHECK(op_of("1.4142135623730951", "f64", tolerant) == "Gelu");
    CHECK(op_of("1.414213562373095", "f64", tolerant) == "Gelu");
    CHECK(op_of("1.41421356", "f32", tolerant) == "Gelu");
    CHECK(op_of("1.41421356", "f64", tolerant) == (tolerant ? "Gelu" : "Mul"));
    CHECK(op_of("1.41421353", "f64", tolerant) == (tolerant ? "Gelu" : "Mul"));
  }
  // Attributes are f32, and a sixth of those no sixth.
  const std::string swish = "HardSigmoid(%x) {alpha = 0.1666666716337204, beta = 0.5}";
  for (const char* type : {"f32", "f64"}) {
    Graph graph = parse_graph(
        fmt::format("graph(%x: {}[n]) -> (%y) {{\n%a = {}\n%y = Mul(%x, %a)\n}}", type, swish));
    run_pass(graph, find_pass("apply-rules"), {});
    const Node& last = graph.node(graph.value(graph.outputs[0]).producer);
    CHECK(last.op->name == (std::string(type) == "f32" ? "HardSwish" : "Mul"));
  }
}

TEST_CASE("passes/rules: attributes match by value, by absence and by variable") {
  const std::string wanted = unary_chain("Softmax(%x) {axis = 1}", "Relu(%a)");
  const std::string minus = unary_chain("Softmax(%x) {axis = -1}", "Relu(%a)");
  const std::string absent = unary_chain("Softmax(%x)", "Relu(%a)");
  const std::string zero = unary_chain("Softmax(%x) {axis = 0}", "Relu(%a)");
  const std::string equal = "rule r: Relu(Softmax(?x) {axis = -1}) => Softmax(?x) {axis = -1}";
  CHECK(rewritten(equal, wanted) == "Softmax");
  CHECK(rewritten(equal, minus) == "Softmax");
  CHECK(rewritten(equal, absent) == "Softmax Relu");
  CHECK(rewritten(equal, zero) == "Softmax Relu");
  const std::string defaulted = "rule r: Relu(Softmax(?x) {axis ?= -1}) => Softmax(?x)";
  CHECK(rewritten(defaulted, absent) == "Softmax");
  CHECK(rewritten(defaulted, zero) == "Softmax Relu");
  const std::string plain = "rule r: Relu(Softmax(?x)) => Softmax(?x)";
  CHECK(rewritten(plain, absent) == "Softmax");
  CHECK(rewritten(plain, minus) == "Softmax Relu");
  CHECK(rewritten("rule r: Relu(Softmax(?x) {...}) => Softmax(?x)", zero) == "Softmax");
  CHECK(rewritten("rule r: Relu(Softmax(?x) {axis = ?a}) => LogSoftmax(?x) {axis = ?a} "
                  "where value(?a) == 0",
                  zero) == "LogSoftmax");
}

TEST_CASE("passes/rules: named patterns are written once and used with other variables") {
  const std::string named = "pattern twice(?p): Relu(Abs(?p))\n";
  CHECK(rewritten(named + "rule r: twice(?x) => Abs(?x)", unary_chain("Abs(%x)", "Relu(%a)")) ==
        "Abs");
  CHECK(rewritten(named + "rule r: Neg(twice(?y)) => Abs(?y)",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Abs Relu");
  CHECK(rewritten(named + "rule r: ?d@twice(?y) => Add(?y, 0)",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Add");
  CHECK(load_error("pattern p(?a): Relu(?a)\npattern p(?a): Abs(?a)").message() ==
        "pattern p is given twice");
  CHECK(load_error("pattern p(?a, ?a): Relu(?a)").message() == "a parameter is given twice");
  // Each doubles the one before.
  std::string bomb = "pattern p0(?x): (Relu(?x) | Abs(?x))\n";
  for (int i = 1; i < 40; ++i)
    bomb += fmt::format("pattern p{}(?x): (p{}(?x) | p{}(?x))\n", i, i - 1, i - 1);
  CHECK(load_error(bomb).message() == "a rule of more than 512 terms");
}

TEST_CASE("passes/rules: conditions on rank, dims and types; what is unknown does not hold") {
  const std::string graph = unary_chain("Abs(%x)", "Relu(%a)");
  const auto holds = [&](const std::string& condition) {
    return rewritten("rule r: Relu(Abs(?x)) => Abs(?x) where " + condition, graph) == "Abs";
  };
  CHECK(holds("rank(?x) == 2"));
  CHECK(!holds("rank(?x) > 2"));
  CHECK(holds("dim(?x, -1) == 4, dtype(?x) == f32"));
  CHECK(!holds("dtype(?x) == f16"));
  CHECK(holds("dtype(?x) != f16"));
  CHECK(holds("dim(?x, 0) == dim(?x, 0)"));
  CHECK(!holds("dim(?x, 0) == 4"));
  CHECK(!holds("dim(?x, 0) != 4"));
  CHECK(holds("sqrt(dim(?x, 1)) * 3 - 1 >= (2 + 8) / 2"));
  CHECK(holds("0.3333 ~= 1 / 3"));
  CHECK(!holds("dim(?x, 5) == 4"));
}

TEST_CASE("passes/rules: binary fractions match exactly, decimals up to their rounding") {
  const auto matches = [](const std::string& written, const std::string& type,
                          const std::string& stored) {
    const std::string rule = "rule r: Relu(Add(?x, " + written + ")) => Abs(?x)";
    const std::string graph = "graph(%x: " + type + "[n, 4]) -> (%y) {\nconst %k: " + type +
                              "[] = " + stored + "\n%a = Add(%x, %k)\n%y = Relu(%a)\n}";
    return rewritten(rule, graph) == "Abs";
  };
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    CAPTURE(type);
    for (const char* number : {"1", "0.5", "6"}) CHECK(matches(number, type, number));
    for (const char* number : {"1.41421356", "0.70710678", "0.79788456", "0.16666667", "0.044715"})
      CHECK(matches(number, type, number));
  }
  CHECK(!matches("1", "f32", "1.0000001"));
  CHECK(!matches("1", "f32", "1.000005"));
  CHECK(!matches("1", "f64", "1.0000000001"));
  CHECK(!matches("1", "f16", "1.0009766"));
  CHECK(!matches("1", "bf16", "1.0078125"));
  CHECK(!matches("3", "f32", "3.00002"));
  CHECK(!matches("0", "f32", "1e-40"));
  CHECK(!matches("1.41421356", "f64", "1.41421"));
  CHECK(!matches("1.41421356", "f32", "1.41421"));
  CHECK(!matches("0.044715", "f32", "0.0447"));
  // sqrt(2 / pi) in full, of f32, and computed in f32 from a rounded quotient; 1 / 6 in seven
  // digits.
  CHECK(matches("0.79788456", "f64", "0.7978845608028654"));
  CHECK(matches("0.79788456", "f64", "0.7978845834732056"));
  CHECK(matches("0.79788456", "f32", "0.79788452"));
  CHECK(matches("0.16666667", "f32", "0.1666667"));
  const auto slope = [](const std::string& stored) {
    return rewritten("rule r: Relu(LeakyRelu(?x) {alpha = 0.25}) => Abs(?x)",
                     unary_chain("LeakyRelu(%x) {alpha = " + stored + "}", "Relu(%a)")) == "Abs";
  };
  CHECK(slope("0.25"));
  CHECK(!slope("0.250001"));
}

TEST_CASE("passes/rules: a replacement of another type is not made") {
  CHECK(rewritten("rule r: Relu(Abs(?x)) => Transpose(?x)", unary_chain("Abs(%x)", "Relu(%a)")) ==
        "Abs Relu");
  CHECK(rewritten("rule r: Relu(Abs(?x)) => Cast(?x) {to = 7}",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Abs Relu");
  // The replacement does not even infer.
  CHECK(rewritten("rule r: Relu(Abs(?x)) => Concat(?x, ?x) {axis = 9}",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Abs Relu");
}

TEST_CASE("passes/rules: numbers and lists in replacements become constants") {
  CHECK(rewritten("rule r: Relu(Abs(?x)) => Add(Mul(?x, 2), 0.5)",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Mul Add");
  CHECK(rewritten("rule r: Relu(Abs(?x)) => Unsqueeze(Squeeze(Unsqueeze(?x, [0]), [0]), [])",
                  unary_chain("Abs(%x)", "Relu(%a)")) == "Unsqueeze Squeeze Unsqueeze");
}

TEST_CASE("passes/rules: a user's rule comes first, may hide a built-in one, and both can be off") {
  const std::string graph = unary_chain("Sigmoid(%x)", "Mul(%x, %a)");
  CHECK(rewritten("", graph) == "Swish");
  CHECK(rewritten("rule mine: Mul(?x, Sigmoid(?x)) => Mish(?x)", graph) == "Mish");
  CHECK(rewritten("rule silu: Mul(?x, Tanh(?x)) => Mish(?x)", graph) == "Sigmoid Mul");
  CHECK(rewritten("", graph, {"rule:silu"}) == "Sigmoid Mul");
}

TEST_CASE("passes/rules: rules that undo each other end") {
  const RuleSet set = rules_of("rule a: Relu(?x) => Abs(?x)\nrule b: Abs(?x) => Relu(?x)");
  PassOptions options;
  options.extra_rules = &set;
  Graph graph = parse_graph(unary_chain("Relu(%x)", "Abs(%a)"));
  const PassReport report = optimise(graph, options);
  CHECK(!report.converged);
  verify(graph);
}
