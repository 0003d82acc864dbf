#include "ir/verify.h"

#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "ir/place.h"

namespace xc {
namespace {

constexpr int kMaxTypeDepth = 16;

class Verifier {
 public:
  explicit Verifier(int max_depth) : max_depth_(max_depth) {}

  void run(const Graph& graph, int depth) {
    if (depth > max_depth_)
      fail(Status::kInvalidModel, "subgraphs are nested more than {} deep", max_depth_);
    // A body shared by two nodes would change under one when a pass edits the other.
    if (!seen_.insert(&graph).second)
      fail(Status::kInvalidModel, "subgraph '{}' belongs to two nodes", graph.name);
    check_inputs(graph);
    std::vector<bool> defined(graph.value_count());
    check_values(graph, defined);
    check_nodes(graph, defined, depth);
    for (ValueId id : graph.outputs) {
      check_id(graph, id, "a graph output");
      if (!defined[id])
        fail(Status::kInvalidModel, "graph output '{}' has no definition", graph.value(id).name);
    }
  }

 private:
  static void check_id(const Graph& graph, ValueId id, std::string_view what) {
    if (id >= graph.value_count())
      fail(Status::kInvalidModel, "{} names value {}, which does not exist", what, id);
  }

  static void check_inputs(const Graph& graph) {
    std::unordered_set<ValueId> inputs;
    for (ValueId id : graph.inputs) {
      check_id(graph, id, "a graph input");
      if (!graph.value(id).is_input || !inputs.insert(id).second)
        fail(Status::kInvalidModel, "graph input '{}' is listed twice or is no input",
             graph.value(id).name);
    }
  }

  static void check_type(const Value& value) {
    const Type* type = &value.type;
    for (int depth = 0; type; type = type->element.get())
      if (++depth > kMaxTypeDepth)
        fail(Status::kInvalidModel, "the type of '{}' is nested too deep", value.name);
  }

  static void check_constant(const Value& value) {
    const Type& type = value.type;
    if (type.kind != Type::Kind::kTensor || type.dtype != value.constant.dtype() || !type.dims ||
        *type.dims != to_symbolic(value.constant.dims()))
      fail(Status::kInvalidModel, "constant '{}' has type {} but holds {}{}", value.name,
           type.text(), name(value.constant.dtype()), to_text(value.constant.dims()));
  }

  /// Marks what is defined before the first node.
  static void check_values(const Graph& graph, std::vector<bool>& defined) {
    std::unordered_set<std::string_view> names;
    size_t inputs = 0;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (value.name.empty()) fail(Status::kInvalidModel, "value {} has no name", id);
      if (!names.insert(value.name).second)
        fail(Status::kInvalidModel, "value '{}' is defined twice", value.name);
      const bool produced = value.producer != kNone;
      if (value.is_input + value.is_constant() + produced > 1)
        fail(Status::kInvalidModel, "value '{}' is defined twice", value.name);
      check_type(value);
      if (value.is_constant()) check_constant(value);
      if (produced && (value.producer >= graph.node_count() || !graph.node(value.producer).alive))
        fail(Status::kInvalidModel, "value '{}' is defined by a node that does not exist",
             value.name);
      inputs += value.is_input;
      defined[id] = value.is_input || value.is_constant();
    }
    if (inputs != graph.inputs.size())
      fail(Status::kInvalidModel, "{} values are inputs, but the graph lists {}", inputs,
           graph.inputs.size());
  }

  void check_nodes(const Graph& graph, std::vector<bool>& defined, int depth) {
    std::vector<bool> ordered(graph.node_count());
    for (NodeId id : graph.order()) {
      if (id >= graph.node_count() || !graph.node(id).alive || ordered[id])
        fail(Status::kInvalidModel,
             "the order names node {}, which is dead, unknown or named twice", id);
      ordered[id] = true;
      const Node& node = graph.node(id);
      if (!node.op)
        fail(Status::kInvalidModel, "node '{}' has no operator", shown_name(graph, node));
      located([&] { return node_place(graph, node); },
              [&] { check_node(graph, id, node, defined, depth); });
    }
    for (NodeId id = 0; id < graph.node_count(); ++id)
      if (graph.node(id).alive && !ordered[id])
        fail(Status::kInvalidModel, "node '{}' is missing from the order",
             shown_name(graph, graph.node(id)));
  }

  void check_node(const Graph& graph, NodeId id, const Node& node, std::vector<bool>& defined,
                  int depth) {
    for (ValueId input : node.inputs) {
      if (input == kNone) continue;
      check_id(graph, input, "an input");
      if (!defined[input])
        fail(Status::kInvalidModel, "value '{}' is used before its definition",
             graph.value(input).name);
    }
    for (uint32_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output == kNone) continue;
      check_id(graph, output, "an output");
      const Value& value = graph.value(output);
      if (value.producer != id || value.output_index != i)
        fail(Status::kInvalidModel, "output '{}' does not name this node as its producer",
             value.name);
      defined[output] = true;
    }
    check_subgraphs(node, depth);
  }

  void check_subgraphs(const Node& node, int depth) {
    const size_t captures = node.capture_count;
    if (captures > node.inputs.size() || (captures && node.subgraphs.empty()))
      fail(Status::kInvalidModel, "{} captured values, but {} inputs and {} subgraphs", captures,
           node.inputs.size(), node.subgraphs.size());
    for (size_t i = node.inputs.size() - captures; i < node.inputs.size(); ++i)
      if (node.inputs[i] == kNone) fail(Status::kInvalidModel, "captured input {} is absent", i);
    for (const std::shared_ptr<Graph>& subgraph : node.subgraphs) {
      if (!subgraph) fail(Status::kInvalidModel, "a subgraph is missing");
      if (subgraph->inputs.size() < captures)
        fail(Status::kInvalidModel, "subgraph '{}' has {} inputs for {} captured values",
             subgraph->name, subgraph->inputs.size(), captures);
      run(*subgraph, depth + 1);
    }
  }

  int max_depth_;
  std::unordered_set<const Graph*> seen_;
};

}  // namespace

void verify(const Graph& graph, int max_depth) {
  Verifier(max_depth).run(graph, 0);
}

}  // namespace xc
