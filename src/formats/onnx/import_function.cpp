#include <algorithm>

#include "base/utf8.h"
#include "formats/onnx/importer.h"
#include "ops/registry.h"

namespace xc::onnx {
namespace {

AttributeEnvironment call_environment(const Scope& caller, const NodeProto& proto,
                                      const FunctionProto& function) {
  AttributeEnvironment out;
  for (const AttributeProto& attribute : function.defaults) out[attribute.name] = attribute;
  for (const AttributeProto& written : proto.attributes) {
    const bool known = out.contains(written.name) ||
                       std::find(function.attributes.begin(), function.attributes.end(),
                                 written.name) != function.attributes.end();
    if (!known)
      fail(Status::kInvalidModel, "function '{}' has no attribute '{}'", printable(function.name),
           printable(written.name));
    if (const auto attribute = resolve(written, caller.environment)) out[written.name] = *attribute;
  }
  return out;
}

}  // namespace

void Importer::call_function(Scope& caller, const NodeProto& proto, const FunctionProto& function,
                             int depth) {
  Graph& graph = *caller.graph;
  if (proto.inputs.size() > function.inputs.size() ||
      proto.outputs.size() > function.outputs.size())
    fail(Status::kInvalidModel, "function '{}' has {} inputs and {} outputs, the call {} and {}",
         printable(function.name), function.inputs.size(), function.outputs.size(),
         proto.inputs.size(), proto.outputs.size());
  const AttributeEnvironment environment = call_environment(caller, proto, function);

  Scope scope;
  scope.graph = &graph;
  scope.hints = caller.hints;
  scope.opsets = &function.opsets;
  scope.environment = &environment;
  const Bytes stem = proto.name.empty() ? proto.op : proto.name;
  scope.prefix = caller.prefix + std::string(stem) + "/";
  // Names grow with depth; only their ends are told apart anyway.
  if (scope.prefix.size() > 1024) scope.prefix = std::string(stem) + "/";

  for (size_t i = 0; i < function.inputs.size(); ++i)
    scope.define(function.inputs[i],
                 i < proto.inputs.size() ? caller.lookup(proto.inputs[i]) : kNone);
  // Outputs of the body that are outputs of the call are the caller's values themselves.
  std::unordered_map<Bytes, ValueId> results;
  for (size_t i = 0; i < proto.outputs.size(); ++i)
    if (!proto.outputs[i].empty())
      results.emplace(function.outputs[i], caller.lookup(proto.outputs[i]));
  import_inlined(scope, function.nodes, results, depth + 1);

  // What remains: an output that is an input, or one value under two names.
  for (size_t i = 0; i < proto.outputs.size(); ++i) {
    if (proto.outputs[i].empty()) continue;
    const ValueId wanted = caller.lookup(proto.outputs[i]);
    const ValueId have = scope.lookup(function.outputs[i]);
    if (have == wanted) continue;
    if (have == kNone)
      fail(Status::kInvalidModel, "output '{}' of function '{}' has no value",
           printable(function.outputs[i]), printable(function.name));
    Node node;
    node.op = &get_op("Identity");
    node.name = graph.value(wanted).name;
    node.inputs = {have};
    node.outputs = {wanted};
    graph.add_node(std::move(node));
  }
}

void Importer::import_inlined(Scope& scope, const std::vector<NodeProto>& nodes,
                              const std::unordered_map<Bytes, ValueId>& results, int depth) {
  Graph& graph = *scope.graph;
  for (const NodeProto& node : nodes)
    for (const Bytes name : node.outputs) {
      if (name.empty()) continue;
      const auto it = results.find(name);
      scope.define(name, it != results.end()
                             ? it->second
                             : graph.add_value(graph.fresh_name(scope.prefix + std::string(name))));
      scope.ahead.insert(name);
    }
  import_nodes(scope, nodes, depth);
}

ValueId Importer::inline_graph(Scope& caller, const GraphProto& body, ValueId input,
                               const std::string& prefix) {
  if (body.inputs.size() != 1 || body.outputs.size() != 1)
    fail(Status::kInvalidModel, "graph '{}' has {} inputs and {} outputs, expected one of each",
         printable(body.name), body.inputs.size(), body.outputs.size());
  Scope scope;
  scope.graph = caller.graph;
  scope.hints = caller.hints;
  scope.parent = &caller;
  scope.opsets = caller.opsets;
  scope.environment = caller.environment;
  scope.prefix = prefix + std::string(body.name) + "/";
  scope.names.emplace(body.inputs[0].name, input);
  read_weights(body, [&](Bytes name, Tensor tensor) {
    scope.names.emplace(
        name, scope.graph->add_constant(scope.graph->fresh_name(scope.prefix + std::string(name)),
                                        std::move(tensor)));
  });
  import_inlined(scope, body.nodes, {}, 0);
  return scope.lookup(body.outputs[0].name);
}

}  // namespace xc::onnx
