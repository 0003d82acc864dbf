#pragma once
// A loaded model: an immutable graph after the portable passes, shared by sessions.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/engine.h"

namespace xc {

struct PortInfo {
  std::string name;
  Type type;
};

class Model {
 public:
  /// From a file: ONNX, .xcg or text, told apart by content. The file is mapped and must not change
  /// while the model lives, unless config.copy_weights.
  static std::shared_ptr<const Model> load(std::shared_ptr<Engine> engine, const std::string& path);
  /// From memory; the bytes are copied.
  static std::shared_ptr<const Model> load(std::shared_ptr<Engine> engine,
                                           std::span<const std::byte> bytes);
  /// From a graph built in memory (builder, tests).
  static std::shared_ptr<const Model> create(std::shared_ptr<Engine> engine, Graph graph);

  const std::shared_ptr<const Graph>& graph() const { return graph_; }
  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }
  const std::shared_ptr<Engine>& engine() const { return engine_; }

 private:
  Model() = default;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Graph> graph_;
  std::vector<PortInfo> inputs_, outputs_;
};

}  // namespace xc
