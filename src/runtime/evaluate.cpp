#include "runtime/evaluate.h"

#include "passes/pipeline.h"
#include "runtime/program.h"

namespace xc {

std::vector<Tensor> evaluate(const std::shared_ptr<Engine>& engine, const Node& node,
                             const std::vector<Tensor>& inputs, PassOptions options) {
  auto graph = std::make_shared<Graph>();
  graph->name = node.name;
  Node copy = node;
  for (size_t i = 0; i < inputs.size(); ++i)
    copy.inputs[i] =
        inputs[i] ? graph->add_constant("in" + std::to_string(i), inputs[i]) : ValueId{kNone};
  for (ValueId& output : copy.outputs)
    if (output != kNone) {
      output = graph->add_value({});
      graph->outputs.push_back(output);
    }
  graph->add_node(std::move(copy));
  for (const char* pass : {"fold-constants", "fold-dequantised"}) options.disabled.push_back(pass);
  optimise(*graph, options);
  Config config = engine->config();
  config.set_jit(JitMode::kOff);
  const auto program = Program::create(engine, graph, config, graph->name);
  std::vector<Tensor> results = program->run_tensors({}, {});
  std::vector<Tensor> out(node.outputs.size());
  for (size_t i = 0, next = 0; i < out.size(); ++i)
    if (node.outputs[i] != kNone) out[i] = std::move(results[next++]);
  return out;
}

}  // namespace xc
