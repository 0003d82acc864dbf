#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/fingerprint.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/region.h"

namespace xc {

std::vector<ValueId> external_inputs(const Graph& graph, std::span<const NodeId> nodes) {
  const std::unordered_set<NodeId> inside(nodes.begin(), nodes.end());
  std::unordered_set<ValueId> known;
  std::vector<ValueId> out;
  for (NodeId n : nodes) {
    const Node& node = graph.node(n);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId v = node.inputs[k];
      if (v == kNone || (graph.value(v).producer != kNone && inside.count(graph.value(v).producer)))
        continue;
      if (is_planning_input(graph, n, k)) continue;
      if (known.insert(v).second) out.push_back(v);
    }
  }
  return out;
}

std::vector<ValueId> external_outputs(const Graph& graph, std::span<const NodeId> nodes,
                                      const std::vector<std::vector<NodeId>>& users) {
  const std::unordered_set<NodeId> inside(nodes.begin(), nodes.end());
  std::vector<ValueId> out;
  for (NodeId n : nodes)
    for (ValueId v : graph.node(n).outputs) {
      if (v == kNone) continue;
      if (graph.is_output(v) || std::any_of(users[v].begin(), users[v].end(),
                                            [&](NodeId user) { return !inside.count(user); }))
        out.push_back(v);
    }
  return out;
}

bool is_literal(const Value& value) {
  return value.is_constant() && value.constant.count() == 1;
}

RegionGraph extract_region(const Graph& graph, const Region& region) {
  RegionGraph result;
  Graph& out = result.graph;
  out.name = "region";
  std::unordered_map<ValueId, ValueId> map;
  for (ValueId v : region.inputs) {
    const Value& value = graph.value(v);
    map[v] = value.is_constant() ? out.add_constant(value.name, value.constant)
                                 : out.add_input(value.name, value.type);
    result.operands.push_back(map[v]);
  }
  const auto mapped = [&](ValueId v) -> ValueId {
    if (v == kNone) return kNone;
    if (const auto it = map.find(v); it != map.end()) return it->second;
    const Value& value = graph.value(v);
    XC_CHECK(value.is_constant());
    return map[v] = out.add_constant(value.name, value.constant);
  };
  for (NodeId n : region.nodes) {
    const Node& node = graph.node(n);
    Node copy;
    copy.op = node.op;
    copy.name = node.name;
    copy.attrs = node.attrs;
    for (ValueId v : node.inputs) copy.inputs.push_back(mapped(v));
    for (ValueId v : node.outputs) {
      if (v != kNone) {
        map[v] = out.add_value(graph.value(v).name, graph.value(v).type);
        out.value(map[v]).elements = graph.value(v).elements;
      }
      copy.outputs.push_back(v == kNone ? kNone : map[v]);
    }
    out.add_node(std::move(copy));
  }
  for (ValueId v : region.outputs) out.outputs.push_back(map.at(v));
  return result;
}

namespace {

/// What each node of the region reads, by position in the region: the fingerprint is the same in
/// whatever order the nodes stand, operands are numbered in that order.
std::string wiring(const Graph& graph, const Region& region) {
  std::unordered_map<ValueId, std::string> names;
  for (size_t i = 0; i < region.inputs.size(); ++i) names[region.inputs[i]] = fmt::format("i{}", i);
  std::string text;
  for (size_t n = 0; n < region.nodes.size(); ++n) {
    const Node& node = graph.node(region.nodes[n]);
    text += '|';
    for (ValueId v : node.inputs) {
      const auto known = names.find(v);
      text += known == names.end() ? "-" : known->second;
    }
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNone) names[node.outputs[k]] = fmt::format("n{}.{}", n, k);
  }
  return text;
}

}  // namespace

Hash128 region_identity(const Graph& graph, const Region& region, const StepSpec& spec) {
  SymbolRenamer rename;
  const auto renamed = [&](const SymDims& dims) {
    SymDims out;
    for (const Dim& dim : dims) out.push_back(rename(dim));
    return to_text(out);
  };
  std::string text =
      region.pattern + fingerprint(graph, region.nodes).text() + wiring(graph, region);
  // Equal nodes may be read differently from outside: which results leave the region, in order.
  for (ValueId v : region.outputs) {
    const NodeId producer = graph.value(v).producer;
    const auto at = std::find(region.nodes.begin(), region.nodes.end(), producer);
    const auto& results = graph.node(producer).outputs;
    text += fmt::format(">{}.{}", at - region.nodes.begin(),
                        std::find(results.begin(), results.end(), v) - results.begin());
  }
  for (const auto* operands : {&spec.inputs, &spec.outputs})
    for (const Operand& operand : *operands)
      text += fmt::format(";{}{}{}", name(operand.dtype), renamed(operand.dims),
                          renamed(operand.strides));
  // Other functions, and no shortcuts.
  if (spec.numerics == Numerics::kFast) text += ";fast";
  if (spec.numerics == Numerics::kStrict) text += ";strict";
  return hash_text(text);
}

}  // namespace xc
