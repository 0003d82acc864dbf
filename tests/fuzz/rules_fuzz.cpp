// The rule parser, and the rules that parse on a small graph.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "passes/rules/rule_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xc;
  RuleSet rules;
  try {
    rules.add({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (error.status() != Status::kFormat) std::abort();
    return 0;
  }
  PassOptions options;
  options.extra_rules = &rules;
  Graph graph = parse_graph(R"(graph main(%x: f32[n, 4]) -> (%y) {
  const %k: f32[] = 0.5
  const %axis: i64[1] = [-1]
  %a = Mul(%x, %k)
  %m = ReduceMean(%a, %axis)
  %b = Sub(%a, %m)
  %c = Sigmoid(%b)
  %d = Mul(%b, %c)
  %y = Softmax(%d) {axis = -1}
})");
  run_pass(graph, find_pass("apply-rules"), options);
  verify(graph);
  return 0;
}
