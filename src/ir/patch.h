#pragma once
// The only way to edit a graph: collect new nodes and replacements, then apply all of it or nothing.
// A patch carries a label (the pass or rule), kept in Node::made_by of what it adds.

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace xc {

class Patch {
 public:
  Patch(Graph& graph, std::string label) : graph_(graph), label_(std::move(label)) {}

  ValueId add_constant(const std::string& stem, Tensor tensor);
  /// New node with `output_count` fresh values; returns them. Existing ValueIds may be inputs.
  std::vector<ValueId> add_node(const OpDef& op, std::vector<ValueId> inputs, uint32_t output_count,
                                Attrs attrs = {}, const std::string& stem = {});
  /// As above with subgraphs and all fields chosen by the caller; outputs must be empty or fresh.
  std::vector<ValueId> add_node(Node node, uint32_t output_count);
  /// Every use of `old` (graph outputs included) reads `now` afterwards. A graph output keeps its
  /// name: the replacement takes it over.
  void replace(ValueId old, ValueId now);
  void remove(NodeId node);  ///< its outputs must have no users left when applied

  /// Applies everything, then re-sorts. Fails with kInternal, leaving the graph as it was, when a
  /// removed node is still used.
  void apply();

 private:
  Graph& graph_;
  std::string label_;
  std::vector<NodeId> added_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
  std::vector<NodeId> removed_;
};

}  // namespace xc
