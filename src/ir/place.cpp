#include "ir/place.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "ir/op_ref.h"

namespace xc {
namespace {

std::string_view shown_op(const Node& node) {
  return node.op ? op_name(*node.op) : "no operator";
}

}  // namespace

std::string_view shown_name(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return node.name;
  for (const ValueId output : node.outputs)
    if (output < graph.value_count()) return graph.value(output).name;
  return {};
}

std::string node_place(std::string_view name, std::string_view op) {
  return fmt::format("node '{}' ({})", printable(name), printable(op));
}

std::string node_place(const Graph& graph, const Node& node) {
  return node_place(shown_name(graph, node), shown_op(node));
}

std::string node_place(const Node& node) {
  return node.name.empty() ? std::string() : node_place(node.name, shown_op(node));
}

}  // namespace xc
