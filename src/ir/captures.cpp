#include "ir/captures.h"

#include "base/error.h"

namespace xc {
namespace {

bool is_read(const Graph& graph, ValueId id) {
  if (graph.is_output(id)) return true;
  for (NodeId node : graph.order())
    for (ValueId input : graph.node(node).inputs)
      if (input == id) return true;
  return false;
}

void drop_input(Graph& body, size_t index, const Value& captured) {
  const ValueId id = body.inputs[index];
  Value& value = body.value(id);
  if (captured.is_constant()) {
    value.constant = captured.constant;
    value.type = captured.type;
  } else if (is_read(body, id)) {
    fail(Status::kInternal, "dropping captured value '{}', which a body reads", captured.name);
  }
  value.is_input = false;
  value.elements.reset();
  body.inputs.erase(body.inputs.begin() + static_cast<ptrdiff_t>(index));
}

}  // namespace

void drop_captures(Graph& graph, NodeId id, const std::vector<bool>& drop) {
  Node& node = graph.node(id);
  XC_CHECK(drop.size() == node.capture_count);
  for (size_t k = drop.size(); k-- > 0;) {  // from the back: earlier positions stay
    if (!drop[k]) continue;
    const size_t own = node.inputs.size() - node.capture_count;
    const Value& captured = graph.value(node.inputs[own + k]);
    for (const auto& body : node.subgraphs)
      drop_input(*body, body->inputs.size() - node.capture_count + k, captured);
    node.inputs.erase(node.inputs.begin() + static_cast<ptrdiff_t>(own + k));
    --node.capture_count;
  }
}

}  // namespace xc
