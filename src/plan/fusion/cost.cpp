// What a region moves and computes, in terms of the sizes: predictions of its times stand on it.
#include "ops/op.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/index_map.h"
#include "plan/fusion/region.h"

namespace xc {
namespace {

/// Rows of a block are lanes of vectors: a few take the time of a vector of the widest target.
Dim rows_worked_on(const Dim& rows) {
  constexpr int64_t kLanes = 16;
  return Dim(kLanes) * floor_div(rows + Dim(kLanes - 1), kLanes);
}

}  // namespace

RegionCost estimate(const Graph& graph, const Region& region) {
  RegionCost cost;
  const auto bytes = [&](ValueId v) {
    const Type& type = graph.value(v).type;
    return Dim(element_size(type.dtype)) * element_count(*type.dims);
  };
  // What is picked from is read as often as there are indices.
  const auto reads = [&](NodeId n, size_t k) {
    const Node& node = graph.node(n);
    return bytes(is_picked_from(graph, n, k) ? node.outputs[0] : node.inputs[k]);
  };
  for (ValueId v : region.inputs) {
    Dim most = 0;
    for (NodeId n : region.nodes)
      for (size_t k = 0; k < graph.node(n).inputs.size(); ++k)
        if (graph.node(n).inputs[k] == v) most = reads(n, k);
    cost.bytes_fused = cost.bytes_fused + most;
    if (!graph.value(v).is_constant()) cost.bytes_varying = cost.bytes_varying + most;
  }
  for (ValueId v : region.outputs) {
    cost.bytes_fused = cost.bytes_fused + bytes(v);
    cost.bytes_varying = cost.bytes_varying + bytes(v);
  }
  double weight = 0;
  for (NodeId n : region.nodes) {
    const Node& node = graph.node(n);
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (node.inputs[k] != kNone) cost.bytes_unfused = cost.bytes_unfused + reads(n, k);
    for (ValueId v : node.outputs)
      if (v != kNone) cost.bytes_unfused = cost.bytes_unfused + bytes(v);
    if (!region.blocks) {
      weight += classify(graph, n).weight;
      continue;
    }
    // By node: widths differ.
    const Dim& rows = region.space.back();
    const Dim count =
        floor_div(element_count(*graph.value(node.outputs[0]).type.dims) * rows_worked_on(rows),
                  max(rows, 1));
    if (node.op->name == "MatMul")
      cost.product_flops =
          cost.product_flops + Dim(2) * graph.value(node.inputs[0]).type.dims->back() * count;
    else if (!node.op->view)
      cost.flops = cost.flops + Dim(static_cast<int64_t>(classify(graph, n).weight + 0.5)) * count;
  }
  if (!region.blocks)
    cost.flops = Dim(static_cast<int64_t>(weight + 0.5)) * element_count(region.space);
  cost.steps_saved = static_cast<int>(region.nodes.size()) - 1;
  return cost;
}

}  // namespace xc
