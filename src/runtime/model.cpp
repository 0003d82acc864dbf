#include "runtime/model.h"

#include <algorithm>

#include "backends/step.h"
#include "formats/format.h"
#include "ir/verify.h"
#include "ops/custom.h"
#include "passes/pipeline.h"
#include "runtime/evaluate.h"

namespace xc {
namespace {

/// Folding may make of the model's constants as much again.
void allow_folding(const Graph& graph, PassOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t largest = 0, total = 0;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!value.is_constant()) continue;
    const int64_t bytes = std::min(kMost, value.constant.byte_size());
    largest = std::max(largest, bytes);
    total = std::min(kMost, total + bytes);
  }
  options.fold_bytes_each = std::max(options.fold_bytes_each, largest);
  options.fold_bytes_total = std::max(options.fold_bytes_total, total);
}

LoadOptions load_options(const Engine& engine, bool copy_weights) {
  LoadOptions options;
  options.copy_weights = copy_weights;
  options.operators = engine.operators().get();
  options.warn = [&engine](const std::string& message) { engine.log(LogLevel::kWarning, message); };
  return options;
}

}  // namespace

std::shared_ptr<const Model> Model::create(std::shared_ptr<Engine> engine, Graph graph) {
  verify(graph);
  PassOptions options;
  options.verify_each = engine->config().verify_passes != 0;
  options.rules = engine->config().rules == 0;
  options.tolerant = engine->config().numerics_mode() != Numerics::kStrict;
  options.extra_rules = engine->rules().get();
  options.evaluate = [&engine, alone = options](const Node& node,
                                                const std::vector<Tensor>& inputs) {
    return evaluate(engine, node, inputs, alone);
  };
  allow_folding(graph, options);
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
  const LoadOptions options = load_options(*engine, engine->config().copy_weights != 0);
  return create(engine, load_model(path, options));
}

std::shared_ptr<const Model> Model::load(std::shared_ptr<Engine> engine,
                                         std::span<const std::byte> bytes) {
  const LoadOptions options = load_options(*engine, true);
  return create(engine, load_model(bytes, options));
}

}  // namespace xc
