#pragma once
// The importer's state and steps; import.h is its one entry point.

#include <functional>
#include <unordered_map>

#include "formats/onnx/attributes.h"
#include "formats/onnx/draft.h"
#include "formats/onnx/functions.h"
#include "formats/onnx/op_versions.h"
#include "formats/onnx/scope.h"

namespace xc::onnx {

class Importer {
 public:
  Importer(const Source& source, const std::shared_ptr<Buffer>& file, const LoadOptions& options);
  Graph run();

 private:
  // import_graph.cpp
  /// Fills the graph of a scope: inputs, weights, the names of all outputs, nodes, outputs.
  void import_graph(Scope& scope, const GraphProto& proto);
  void add_input(Scope& scope, const ValueInfoProto& info);
  /// Decodes the weights of a graph, sparse ones too. A weight may hide one of an enclosing graph;
  /// exporters reuse their names.
  void read_weights(const GraphProto& proto, const std::function<void(Bytes, Tensor)>& define);
  /// Graph attributes become graphs of the draft, their captures its last inputs.
  void import_subgraphs(Scope& scope, Draft& draft,
                        const std::map<std::string_view, const GraphProto*>& graphs);

  // import_node.cpp
  /// Adds what a node of the file means: a call written out, a constant, or nodes of the newest
  /// version. `depth` counts the functions around it.
  void import_node(Scope& scope, const NodeProto& proto, int depth);
  void import_op(Scope& scope, const NodeProto& proto);
  /// Sets the attributes of a node; returns those that are graphs. `version` is null for operators
  /// that are not the standard's.
  std::map<std::string_view, const GraphProto*> import_attributes(const Scope& scope,
                                                                  const NodeProto& proto,
                                                                  const OpVersion* version,
                                                                  Attrs& attrs);
  void import_constant(Scope& scope, const NodeProto& proto);
  /// The version of a domain that the scope imports; fails when it imports none.
  int64_t opset_of(const Scope& scope, std::string_view domain) const;
  void check_attribute(const NodeProto& proto, const OpVersion& version,
                       const AttributeProto& attribute) const;

  // import_function.cpp
  void call_function(Scope& caller, const NodeProto& proto, const FunctionProto& function,
                     int depth);
  /// Nodes in the order they are run in; their outputs are defined.
  void import_nodes(Scope& scope, const std::vector<NodeProto>& nodes, int depth);
  /// Nodes that join the graph of their caller under names of their own; `results` are outputs that
  /// have a value already.
  void import_inlined(Scope& scope, const std::vector<NodeProto>& nodes,
                      const std::unordered_map<Bytes, ValueId>& results, int depth);
  /// A graph attribute of one input and one output, written out in the graph around it.
  ValueId inline_graph(Scope& caller, const GraphProto& body, ValueId input,
                       const std::string& prefix);

  const Source& source_;
  const OpLibrary* const operators_;  ///< of the host; may be null
  const ModelProto model_;
  const Functions functions_;
  TensorReader tensors_;
};

}  // namespace xc::onnx
