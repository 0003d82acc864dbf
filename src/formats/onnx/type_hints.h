#pragma once
// Types of values while a graph is being built, for the conversions of old operator versions that
// depend on a rank or dtype. Best effort: what inference cannot tell yet stays unknown.

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace xc::onnx {

class TypeHints {
 public:
  explicit TypeHints(const Graph& graph) : graph_(graph) {}

  /// The type as far as it is known. Work is done once per node, at the first question after it was
  /// added, so a model without old versions pays nothing.
  const Type& of(ValueId id);
  std::optional<int64_t> rank(ValueId id);
  DType dtype(ValueId id) { return of(id).dtype; }

 private:
  void update();
  void infer(const Node& node);

  const Graph& graph_;
  NodeId next_node_ = 0;
  std::vector<Type> types_;
  std::vector<std::optional<std::vector<Dim>>> elements_;
  int64_t fresh_ = 0;
};

}  // namespace xc::onnx
