// Operators of several outputs with some of them left out: the others are as before.

#include <doctest/doctest.h>

#include "ops/op_case.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "support/sessions.h"

namespace xc::test {
namespace {

/// The case without the outputs of its node that are not in `wanted` (bits by index).
OpCase without(const OpCase& problem, uint32_t wanted) {
  OpCase out;
  out.name = problem.name;
  out.graph = problem.graph.clone();
  out.graph.outputs.clear();
  out.inputs = problem.inputs;
  out.absolute_error = problem.absolute_error;
  out.tolerance = problem.tolerance;
  Node& node = out.graph.node(out.graph.order()[0]);
  for (uint32_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId id = node.outputs[k];
    if (wanted >> k & 1) continue;
    out.graph.value(id).producer = kNone;
    node.outputs[k] = kNone;
  }
  for (size_t k = 0; k < problem.expected.size(); ++k) {
    const ValueId id = problem.graph.outputs[k];
    if (out.graph.value(id).producer == kNone) continue;
    out.graph.outputs.push_back(id);
    out.expected.push_back(problem.expected[k]);
  }
  return out;
}

}  // namespace

TEST_CASE("ops/left_out: what is left is as with all outputs") {
  int variants = 0;
  for_each_case([&](OpCase& problem) {
    if (problem.graph.order().size() != 1) return;
    const Node& node = problem.graph.node(problem.graph.order()[0]);
    const size_t count = node.outputs.size();
    if (count < 2 || count > 6 || node.op->random || problem.graph.outputs.size() != count) return;
    for (uint32_t wanted = 1; wanted + 1 < 1U << count; ++wanted) {
      CAPTURE(wanted);
      const OpCase part = without(problem, wanted);
      Config config;
      config.set_jit(JitMode::kOff);
      const auto engine = std::make_shared<Engine>(config, HostHooks{}, nullptr);
      Session session(Model::create(engine, part.graph.clone()), Config{});
      const auto got = testing::run(session, part.inputs);
      REQUIRE(got.size() == part.expected.size());
      for (size_t k = 0; k < got.size(); ++k) CHECK(difference(part, k, got[k]) == "");
      ++variants;
    }
  });
  CHECK(variants > 50);
}

}  // namespace xc::test
