#include "runtime/model.h"

#include "backends/step.h"
#include "formats/format.h"
#include "ir/verify.h"
#include "ops/custom.h"
#include "passes/pipeline.h"

namespace xc {

std::shared_ptr<const Model> Model::create(std::shared_ptr<Engine> engine, Graph graph) {
  verify(graph);
  PassOptions options;
  options.verify_each = engine->config().verify_passes != 0;
  options.rules = engine->config().rules == 0;
  options.tolerant = static_cast<Numerics>(engine->config().numerics) != Numerics::kStrict;
  options.extra_rules = engine->rules().get();
  optimise(graph, options);
  check_custom_ops(graph, engine->operators().get());
  std::shared_ptr<Model> model(new Model);
  for (ValueId id : graph.inputs)
    model->inputs_.push_back({graph.value(id).name, graph.value(id).type});
  for (ValueId id : graph.outputs)
    model->outputs_.push_back({graph.value(id).name, graph.value(id).type});
  if (graph.name.empty()) graph.name = "model";
  model->engine_ = std::move(engine);
  model->graph_ = std::make_shared<const Graph>(std::move(graph));
  return model;
}

std::shared_ptr<const Model> Model::load(std::shared_ptr<Engine> engine, const std::string& path) {
  LoadOptions options;
  options.copy_weights = engine->config().copy_weights != 0;
  options.operators = engine->operators().get();
  return create(engine, load_model(path, options));
}

std::shared_ptr<const Model> Model::load(std::shared_ptr<Engine> engine,
                                         std::span<const std::byte> bytes) {
  LoadOptions options;
  options.copy_weights = true;
  options.operators = engine->operators().get();
  return create(engine, load_model(bytes, options));
}

}  // namespace xc
