// What Einsum expands to against its reference, on random equations.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>

#include "ops/infer.h"
#include "ops/op_case.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

struct Problem {
  std::string equation;
  std::vector<Tensor> inputs;
  std::vector<bool> symbolic;  ///< of the labels, 'a' first: sizes not known before the run
  bool apart = false;          ///< each operand's are its own, and may turn out to be 1
};

class Generator {
 public:
  /// `types`: what operands are of; floats where there are none.
  explicit Generator(unsigned seed, std::vector<DType> types = {})
      : random_(seed), types_(std::move(types)) {}

  Problem make() {
    const size_t labels = 1 + pick(6), operands = 1 + pick(3);
    std::vector<int64_t> sizes(labels);
    for (int64_t& size : sizes) size = pick(20) == 0 ? 0 : 1 + static_cast<int64_t>(pick(4));
    const size_t dots = pick(4) == 0 ? 1 + pick(2) : 0;  // axes under an ellipsis
    std::vector<int64_t> dot_sizes(dots, 3);
    type_ = !types_.empty() ? types_[pick(types_.size())]
            : pick(4) == 0  ? DType::kF16
            : pick(4) == 0  ? DType::kF64
                            : DType::kF32;
    Problem out;
    std::string used;
    bool ellipsis = false;
    for (size_t k = 0; k < operands; ++k) {
      std::string term;
      for (size_t l = 0; l < labels; ++l)
        if (pick(5) < 3) term += static_cast<char>('a' + l);
      while (!term.empty() && term.size() < 7 && pick(6) == 0)
        term += term[pick(term.size())];  // a diagonal
      std::shuffle(term.begin(), term.end(), random_);
      Dims dims;
      // Now and then an axis of size 1 that stands for a larger one.
      for (char c : term) dims.push_back(pick(12) == 0 ? 1 : sizes[static_cast<size_t>(c - 'a')]);
      std::string text = term;
      if (dots > 0 && pick(3) > 0) {
        const size_t at = pick(term.size() + 1), own = pick(dots + 1);
        text.insert(at, "...");
        for (size_t d = 0; d < own; ++d)
          dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at),
                      pick(4) == 0 ? 1 : dot_sizes[dots - 1 - d]);
        ellipsis = true;
      }
      for (char c : term)
        if (used.find(c) == std::string::npos) used += c;
      out.equation += (k ? "," : "") + text;
      out.inputs.push_back(numbers(dims));
    }
    std::shuffle(used.begin(), used.end(), random_);
    used.resize(pick(used.size() + 1));
    out.equation += "->" + std::string(ellipsis ? "..." : "") + used;
    for (size_t l = 0; l < labels; ++l) out.symbolic.push_back(pick(3) == 0);
    out.apart = pick(3) == 0;
    return out;
  }

 private:
  size_t pick(size_t below) { return random_() % below; }

  Tensor numbers(const Dims& dims) {
    Tensor out(type_, dims);
    for (int64_t i = 0; i < out.count(); ++i)
      store_double(out.data(), type_, i,
                   static_cast<double>(pick(9)) - (type_ == DType::kU8 ? 0 : 4));
    return out;
  }

  std::mt19937 random_;
  std::vector<DType> types_;
  DType type_ = DType::kF32;
};

/// A graph of one Einsum; letters that the problem says so have symbolic sizes.
OpCase graph_of(const Problem& problem) {
  OpCase out;
  Node node;
  node.op = &get_op("Einsum");
  node.name = "here";
  out.tolerance = node.op->tolerance;
  out.inputs = problem.inputs;
  size_t at = 0;
  for (const Tensor& input : problem.inputs) {
    SymDims dims = to_symbolic(input.dims());
    const std::string term =
        problem.equation.substr(at, problem.equation.find_first_of(",-", at) - at);
    at += term.size() + 1;
    if (term.find('.') == std::string::npos)
      for (size_t k = 0; k < dims.size(); ++k)
        if (problem.symbolic[static_cast<size_t>(term[k] - 'a')] &&
            (problem.apart || !(dims[k] == Dim(1))))
          dims[k] = Dim::symbol(problem.apart ? fmt::format("{}{}", term[k], node.inputs.size())
                                              : std::string(1, term[k]));
    node.inputs.push_back(out.graph.add_input(fmt::format("x{}", node.inputs.size()),
                                              Type::tensor(input.dtype(), dims)));
  }
  node.attrs.set("equation", problem.equation);
  node.outputs.push_back(out.graph.add_value("y"));
  out.graph.outputs = node.outputs;
  out.graph.add_node(std::move(node));
  infer_types(out.graph);
  return out;
}

/// False when the operator stays.
bool expand(Graph& graph) {
  Patch patch(graph, "expand");
  const NodeId id = graph.order().front();
  const Node& node = graph.node(id);
  const auto results = node.op->expand(graph, node, patch);
  if (results.empty()) return false;
  patch.replace(node.outputs[0], results[0]);
  patch.remove(id);
  patch.apply();
  infer_types(graph);
  return true;
}

bool has(const Graph& graph, std::string_view op) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](NodeId id) { return graph.node(id).op->name == op; });
}

Problem fixed(const std::string& equation, const std::vector<Dims>& dims) {
  Problem out{equation, {}, std::vector<bool>(26, false), false};
  for (const Dims& each : dims) out.inputs.emplace_back(DType::kF32, each);
  return out;
}

/// How many of so many problems expand, to the values of the reference.
int expanded_of(Generator& generator, int problems) {
  int expanded = 0;
  for (int k = 0; k < problems; ++k) {
    const Problem problem = generator.make();
    CAPTURE(k);
    CAPTURE(problem.equation);
    OpCase each = graph_of(problem);
    each.expected = run_references(each.graph, each.inputs);
    const std::string before = each.graph.value(each.graph.outputs[0]).type.text();
    if (!expand(each.graph)) continue;
    ++expanded;
    if (!problem.apart) CHECK(each.graph.value(each.graph.outputs[0]).type.text() == before);
    const auto got = run_references(each.graph, each.inputs);
    CHECK(difference(each, 0, got[0]) == "");
  }
  return expanded;
}

}  // namespace

TEST_CASE("ops/einsum: random equations expand to the values of the reference") {
  constexpr int kProblems = 3000;
  Generator floats(11);
  CHECK(expanded_of(floats, kProblems) > kProblems * 9 / 10);
  Generator integers(12, {DType::kI64, DType::kI32, DType::kU8});
  CHECK(expanded_of(integers, kProblems / 5) > kProblems / 20);
}

TEST_CASE("ops/einsum: what networks write becomes products without detours") {
  struct Expected {
    Problem problem;
    bool transposes, reshapes;
  };
  for (const auto& [problem, transposes, reshapes] : {
           Expected{fixed("bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}), true, false},
           Expected{fixed("bhij,bhjd->bhid", {{2, 3, 4, 6}, {2, 3, 6, 5}}), false, false},
           Expected{fixed("td,edh->eth", {{4, 5}, {3, 5, 6}}), false, false},
           Expected{fixed("btd,dhk->bthk", {{2, 4, 5}, {5, 3, 6}}), false, true},
           Expected{fixed("bthk,hkd->btd", {{2, 4, 3, 6}, {3, 6, 5}}), false, true},
       }) {
    CAPTURE(problem.equation);
    OpCase each = graph_of(problem);
    REQUIRE(expand(each.graph));
    CHECK(has(each.graph, "MatMul"));
    CHECK_FALSE(has(each.graph, "Mul"));
    CHECK(has(each.graph, "Transpose") == transposes);
    CHECK(has(each.graph, "Reshape") == reshapes);
  }
}

TEST_CASE("ops/einsum: sums over a label with a symbol from each operand are products") {
  Problem problem = fixed("bhst,bhtd->bhsd", {{2, 3, 4, 6}, {2, 3, 6, 5}});
  for (const char label : {'b', 's', 't'})
    problem.symbolic[static_cast<size_t>(label - 'a')] = true;
  problem.apart = true;
  OpCase each = graph_of(problem);
  REQUIRE(expand(each.graph));
  CHECK(has(each.graph, "MatMul"));
}

TEST_CASE("ops/einsum: integers expand where no products are summed") {
  const auto expands = [](const char* equation, const std::vector<Dims>& dims) {
    Problem problem = fixed(equation, {});
    for (const Dims& each : dims) problem.inputs.emplace_back(DType::kI64, each);
    OpCase each = graph_of(problem);
    return expand(each.graph);
  };
  CHECK(expands("blq,blk->blqk", {{2, 3, 4}, {2, 3, 5}}));
  CHECK(expands("ab,b,c->cb", {{2, 3}, {3}, {4}}));
  CHECK_FALSE(expands("ab,bc->ac", {{2, 3}, {3, 4}}));
}

TEST_CASE("ops/einsum: diagonals of sizes that are known expand, others stay") {
  const auto expands = [](Problem problem, char symbolic) {
    if (symbolic) problem.symbolic[static_cast<size_t>(symbolic - 'a')] = true;
    OpCase each = graph_of(problem);
    return expand(each.graph);
  };
  const Problem diagonal = fixed("bii->bi", {{2, 3, 3}});
  CHECK(expands(diagonal, 0));
  CHECK(expands(diagonal, 'b'));
  CHECK_FALSE(expands(diagonal, 'i'));
  CHECK_FALSE(expands(fixed("ii->i", {{1, 3}}), 0));
}

}  // namespace xc::test
