#include "plan/fusion/index_map.h"

#include <algorithm>
#include <numeric>

#include "ops/op.h"
#include "ops/support.h"

namespace xc {
namespace {

constexpr size_t kMaxParts = 8;  // of a Concat: every part is a load and a comparison per element

IndexMap::Part straight(uint32_t input, size_t rank) {
  IndexMap::Part part{input, std::vector<int32_t>(rank)};
  std::iota(part.axes.begin(), part.axes.end(), 0);
  return part;
}

using Maybe = std::optional<IndexMap>;

Maybe concat(const Node& node, const std::vector<SymDims>& in, const SymDims& out) {
  if (in.size() > kMaxParts) return std::nullopt;
  const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), out.size());
  IndexMap map;
  map.kind = IndexMap::Kind::kConcat;
  map.shifts = {{static_cast<uint32_t>(axis)}};
  for (uint32_t k = 0; k < in.size(); ++k) {
    // Dims that only the run shows to be equal are for the step to check.
    for (size_t a = 0; a < out.size(); ++a)
      if (a != axis && !(in[k][a] == out[a])) return std::nullopt;
    map.parts.push_back(straight(k, out.size()));
  }
  return map;
}

Maybe pad(const Graph& graph, const Node& node, const SymDims& in) {
  const auto given = [&](size_t k) { return node.inputs.size() > k && node.inputs[k] != kNone; };
  for (size_t k = 1; k < node.inputs.size(); ++k)
    if (given(k) && !graph.value(node.inputs[k]).is_constant()) return std::nullopt;
  IndexMap map;
  map.kind = IndexMap::Kind::kPad;
  const std::string mode = node.attrs.get_string("mode", "constant");
  map.around = mode == "reflect" ? IndexMap::Around::kReflect
               : mode == "edge"  ? IndexMap::Around::kEdge
               : mode == "wrap"  ? IndexMap::Around::kWrap
                                 : IndexMap::Around::kConstant;
  map.parts = {straight(0, in.size())};
  if (given(2)) map.filling = graph.value(node.inputs[2]).constant;
  std::vector<size_t> axes(in.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  if (given(3)) axes = normalise_axes(graph.value(node.inputs[3]).constant.to_int64s(), in.size());
  const std::vector<int64_t> pads = graph.value(node.inputs[1]).constant.to_int64s();
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t before = pads[k], after = pads[k + axes.size()];
    if (before == 0 && after == 0) continue;
    // An axis cropped on one side and padded on the other may have too few elements to crop.
    if ((before < 0 || after < 0) && (before > 0 || after > 0)) return std::nullopt;
    if (map.repeats()) {
      // What is left of a cropped axis may be nothing to repeat. (That an axis has no elements, a
      // bind of the base plan refuses.)
      if (before < 0 || after < 0) return std::nullopt;
      map.parts[0].axes[axes[k]] = IndexMap::Part::kPicked;
    }
    map.shifts.push_back({static_cast<uint32_t>(axes[k]), before, after});
  }
  return map;
}

Maybe gather(const Node& node, const std::vector<SymDims>& in) {
  const SymDims &data = in[0], &indices = in[1];
  const size_t axis = normalise_axis(node.attrs.get_int("axis", 0), data.size());
  IndexMap map;
  map.kind = IndexMap::Kind::kGather;
  map.parts = {straight(0, data.size()), straight(1, indices.size())};
  auto& moved = map.parts[0].axes;
  moved[axis] = IndexMap::Part::kPicked;
  if (node.op->name == "GatherElements") {
    // The indices may be smaller than the data; larger is an error of the run.
    for (size_t a = 0; a < data.size(); ++a)
      if (a != axis && !(data[a] == indices[a])) return std::nullopt;
    return map;
  }
  for (size_t a = axis + 1; a < data.size(); ++a)
    moved[a] = static_cast<int32_t>(a + indices.size() - 1);
  for (int32_t& a : map.parts[1].axes) a += static_cast<int32_t>(axis);
  return map;
}

Maybe gather_nd(const Node& node, const std::vector<SymDims>& in) {
  const SymDims &data = in[0], &indices = in[1];
  const auto batch = static_cast<size_t>(node.attrs.get_int("batch_dims", 0));
  if (!indices.back().is_constant()) return std::nullopt;
  const auto depth = static_cast<size_t>(indices.back().value());
  for (size_t a = 0; a < batch; ++a)
    if (!(data[a] == indices[a])) return std::nullopt;
  IndexMap map;
  map.kind = IndexMap::Kind::kGather;
  map.parts = {straight(0, data.size()), straight(1, indices.size())};
  map.parts[1].axes.back() = IndexMap::Part::kPicked;
  for (size_t a = batch; a < data.size(); ++a)
    map.parts[0].axes[a] = a < batch + depth
                               ? IndexMap::Part::kPicked
                               : static_cast<int32_t>(a - batch - depth + indices.size() - 1);
  return map;
}

}  // namespace

std::optional<IndexMap> index_map(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.op->domain.empty() || node.outputs.size() != 1 || node.outputs[0] == kNone)
    return std::nullopt;
  const std::string_view name = node.op->name;
  const bool gathers = name == "Gather" || name == "GatherElements";
  if (!gathers && name != "GatherND" && name != "Concat" && name != "Pad") return std::nullopt;
  const Value& result = graph.value(node.outputs[0]);
  // Shape arithmetic is no step: the sizes of a signature hold its numbers.
  if (!result.type.dims || result.elements) return std::nullopt;
  std::vector<SymDims> in;
  for (ValueId v : node.inputs) {
    if (v != kNone && !graph.value(v).type.dims) return std::nullopt;
    in.push_back(v == kNone ? SymDims{} : *graph.value(v).type.dims);
  }
  if (gathers) return gather(node, in);
  if (name == "GatherND") return gather_nd(node, in);
  if (name == "Pad") return pad(graph, node, in[0]);
  return concat(node, in, *result.type.dims);
}

bool is_picked_from(const Graph& graph, NodeId id, size_t k) {
  if (k != 0) return false;
  const auto map = index_map(graph, id);
  return map && map->kind == IndexMap::Kind::kGather;
}

bool is_table(const Graph& graph, ValueId v) {
  if (!graph.value(v).is_constant()) return false;
  bool read = false;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k] != v) continue;
      if (!is_picked_from(graph, id, k)) return false;
      read = true;
    }
  }
  return read;
}

bool is_planning_input(const Graph& graph, NodeId id, size_t k) {
  const Node& node = graph.node(id);
  const Value& value = graph.value(node.inputs[k]);
  if (node.op->scalar || k == 0 || !value.is_constant() || !is_integer(value.type.dtype))
    return false;
  const auto map = index_map(graph, id);
  // Other operators read integers as they read floats: zero points.
  if (!map) return node.op->name.starts_with("Reduce");
  return std::none_of(map->parts.begin(), map->parts.end(),
                      [&](const IndexMap::Part& part) { return part.input == k; });
}

}  // namespace xc
