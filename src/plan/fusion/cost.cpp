// What a region moves and computes, in terms of the sizes: predictions of its times stand on it.
#include "ops/op.h"
#include "plan/fusion/classify.h"
#include "plan/fusion/region.h"

namespace xc {

RegionCost estimate(const Graph& graph, const Region& region) {
  RegionCost cost;
  const auto bytes = [&](ValueId v) {
    const Type& type = graph.value(v).type;
    return Dim(element_size(type.dtype)) * element_count(*type.dims);
  };
  for (ValueId v : region.inputs) cost.bytes_fused = cost.bytes_fused + bytes(v);
  for (ValueId v : region.outputs) cost.bytes_fused = cost.bytes_fused + bytes(v);
  double weight = 0;
  for (NodeId n : region.nodes) {
    const Node& node = graph.node(n);
    for (ValueId v : node.inputs)
      if (v != kNone) cost.bytes_unfused = cost.bytes_unfused + bytes(v);
    for (ValueId v : node.outputs)
      if (v != kNone) cost.bytes_unfused = cost.bytes_unfused + bytes(v);
    if (!region.blocks) {
      weight += classify(graph, n).weight;
      continue;
    }
    // By node: widths differ.
    const Dim count = element_count(*graph.value(node.outputs[0]).type.dims);
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
