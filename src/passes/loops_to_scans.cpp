#include <algorithm>

#include "ir/patch.h"
#include "ops/control_flow.h"
#include "ops/registry.h"
#include "ops/support.h"
#include "passes/node_tests.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

/// The dim that is the number of iterations, when nothing can end the loop before.
std::optional<Dim> trips_of(const Graph& graph, const Node& node) {
  const auto limit = known_elements(graph, node, 0);
  if (!limit || limit->size() != 1 || !condition_stays(*node.subgraphs[0])) return std::nullopt;
  if (node.inputs[1] != kNone) {
    const auto go = known_integers(graph.value(node.inputs[1]));
    if (!go || go->size() != 1 || go->front() == 0) return std::nullopt;
  }
  return limit->front();
}

/// The Gathers along axis 0 of captured values of so many slices by the number of the iteration;
/// empty where that number has any other use.
std::vector<NodeId> slices_of(const Graph& graph, const Node& node, const Dim& trips) {
  const Graph& body = *node.subgraphs[0];
  const size_t own = node.inputs.size() - node.capture_count;
  const ValueId number = body.inputs[0];
  std::vector<NodeId> out;
  if (body.is_output(number) || !loop_scalar_dims(body, 0).empty()) return {};
  for (NodeId id : body.order()) {
    const Node& user = body.node(id);
    if (std::find(user.inputs.begin(), user.inputs.end(), number) == user.inputs.end()) continue;
    if (!is_op(user, "Gather") || user.inputs[1] != number || user.attrs.get_int("axis", 0) != 0 ||
        body.is_output(user.outputs[0]))
      return {};
    const auto first = body.inputs.begin() + static_cast<ptrdiff_t>(own);
    const auto at = std::find(first, body.inputs.end(), user.inputs[0]);
    if (at == body.inputs.end()) return {};
    const ValueId whole = node.inputs[static_cast<size_t>(at - body.inputs.begin())];
    const auto& dims = graph.value(whole).type.dims;
    if (!dims || dims->empty() || (*dims)[0] != trips) return {};
    out.push_back(id);
  }
  return out;
}

void rewrite(Graph& graph, Patch& patch, NodeId id, const std::vector<NodeId>& gathers) {
  const Node& loop = graph.node(id);
  const size_t own = loop.inputs.size() - loop.capture_count;
  auto body = std::make_shared<Graph>(loop.subgraphs[0]->clone());
  Patch inside(*body, "loops-to-scans");
  Node scan{.op = &get_op("Scan"), .name = loop.name};
  scan.capture_count = loop.capture_count;
  scan.inputs.assign(loop.inputs.begin() + 2, loop.inputs.begin() + static_cast<ptrdiff_t>(own));
  std::vector<ValueId> slices;
  for (NodeId gather : gathers) {
    const ValueId whole = body->node(gather).inputs[0], slice = body->node(gather).outputs[0];
    const auto at =
        std::find(body->inputs.begin(), body->inputs.end(), whole) - body->inputs.begin();
    scan.inputs.push_back(loop.inputs[static_cast<size_t>(at)]);
    slices.push_back(
        body->add_input(body->fresh_name(body->value(slice).name), body->value(slice).type));
    body->inputs.pop_back();
    inside.replace(slice, slices.back());
    inside.remove(gather);
  }
  inside.apply();
  scan.inputs.insert(scan.inputs.end(), loop.inputs.begin() + static_cast<ptrdiff_t>(own),
                     loop.inputs.end());
  // The number of the iteration has no use left; the condition is true in every one.
  Value& condition = body->value(body->inputs[1]);
  condition.constant = Tensor::scalar(true);
  condition.type = Type::tensor(DType::kBool, SymDims{});
  condition.is_input = body->value(body->inputs[0]).is_input = false;
  body->inputs.insert(body->inputs.begin() + static_cast<ptrdiff_t>(own), slices.begin(),
                      slices.end());
  body->inputs.erase(body->inputs.begin(), body->inputs.begin() + 2);
  body->outputs = std::vector<ValueId>(body->outputs.begin() + 1, body->outputs.end());
  scan.subgraphs = {std::move(body)};
  scan.attrs.set("num_scan_inputs", static_cast<int64_t>(gathers.size()));
  put_in_place_of(graph, patch, id, std::move(scan));
}

bool tensors_only(const Graph& body) {
  const auto tensor = [&](ValueId id) { return body.value(id).type.kind == Type::Kind::kTensor; };
  return std::all_of(body.inputs.begin(), body.inputs.end(), tensor) &&
         std::all_of(body.outputs.begin(), body.outputs.end(), tensor);
}

}  // namespace

bool loops_to_scans(Graph& graph, PassContext& context) {
  Patch patch(graph, "loops-to-scans");
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "Loop") || node.subgraphs.size() != 1) continue;
    const auto trips = trips_of(graph, node);
    if (!trips || !tensors_only(*node.subgraphs[0])) continue;
    const std::vector<NodeId> gathers = slices_of(graph, node, *trips);
    if (gathers.empty()) continue;
    rewrite(graph, patch, id, gathers);
    context.count("loops-to-scans");
  }
  const bool changed = !patch.empty();
  patch.apply();
  return changed;
}

}  // namespace xc
