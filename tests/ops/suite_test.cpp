// Every operator problem over every way to execute it. A new way is one row of executors().

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "ops/infer.h"
#include "ops/loop_executor.h"
#include "ops/op_case.h"
#include "ops/registry.h"

namespace xc::test {

namespace {

struct Executor {
  const char* name;
  /// The graph's outputs, or nullopt where this executor does not take the problem.
  std::optional<std::vector<Tensor>> (*run)(const OpCase& problem);
};

std::vector<Executor> executors() {
  return {
      {"reference",
       [](const OpCase& p) { return std::optional(run_references(p.graph, p.inputs)); }},
      {"reference, odd strides",
       [](const OpCase& p) {
         std::vector<Tensor> inputs;
         for (const Tensor& t : p.inputs) inputs.push_back(with_odd_strides(t));
         return std::optional(run_references(p.graph, inputs));
       }},
      {"loop interpreter", run_as_loops},
  };
}

}  // namespace

TEST_CASE("ops/suite: every problem has its expected result") {
  for (const Executor& executor : executors()) {
    CAPTURE(executor.name);
    int ran = 0;
    for_each_case([&](OpCase& problem) {
      const auto got = executor.run(problem);
      if (!got) return;
      ++ran;
      REQUIRE(got->size() == problem.expected.size());
      for (size_t k = 0; k < got->size(); ++k) {
        CAPTURE(k);
        CHECK(difference(problem, k, (*got)[k]) == "");
      }
    });
    CHECK(ran > 0);
  }
}

TEST_CASE("ops/suite: a wrong result is noticed") {
  OpCase problem;
  Node node;
  node.op = &get_op("Relu");
  node.inputs = {problem.graph.add_input("x", Type::tensor(DType::kF32, SymDims{2}))};
  node.outputs = {problem.graph.add_value("y")};
  problem.tolerance = node.op->tolerance;
  problem.graph.add_node(std::move(node));
  problem.expected = {Tensor::of<float>({1, 2})};
  CHECK(difference(problem, 0, Tensor::of<float>({1, 2})) == "");
  CHECK(difference(problem, 0, Tensor::of<float>({1, 2.00001f})) != "");
  CHECK(difference(problem, 0, Tensor::of<float>({1, NAN})) != "");
  CHECK(difference(problem, 0, Tensor::of<float>({1, 2}, {2, 1})) != "");
  CHECK(difference(problem, 0, Tensor::of<double>({1, 2})) != "");
}

TEST_CASE("ops/suite: every operator with a reference has a problem") {
  std::set<std::string_view> covered;
  for_each_case([&](OpCase& problem) {
    for (NodeId id : problem.graph.order()) covered.insert(problem.graph.node(id).op->name);
  });
  std::string missing;
  for (const OpDef* op : all_ops())
    if (op->reference && !op->random && !covered.count(op->name))
      missing += std::string(op->name) + " ";
  CHECK(missing == "");
}

}  // namespace xc::test
