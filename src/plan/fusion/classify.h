#pragma once
// What a node is to the fusion templates.

#include <optional>

#include "ir/graph.h"

namespace xc {

enum class FusionKind : uint8_t {
  kNone,       ///< stays a step of its own
  kScalar,     ///< elementwise
  kReduction,  ///< over trailing axes
  kMap,        ///< picks elements of its operands (index_map.h): read at the edge of a region
  kComposite,  ///< expands into scalars and reductions over trailing axes (softmax, norms)
};

struct FusionClass {
  FusionKind kind = FusionKind::kNone;
  SymDims space;     ///< reductions and composites: dims of what they reduce
  int row_axes = 0;  ///< reductions and composites: how many trailing axes
  bool keepdims = true;
  double weight = 1;  ///< relative cost per element of the space
};

FusionClass classify(const Graph& graph, NodeId id);

/// Whether fused code is bound to have the bits of the operator's own kernel: its result is one
/// operation of f32, f64, integers or bool that is exact or rounds once as IEEE 754 has it.
bool rounds_once(const Graph& graph, NodeId id);

/// Replaces every composite of a small graph by its expansion and infers types; false when one
/// cannot be expanded. Nodes without an expansion make it false too, or stay when `keep_others`.
bool expand_composites(Graph& graph, bool keep_others = false);

/// The constant axes of a reduction as trailing axes: their number, or nullopt.
std::optional<int> trailing_axes(const Graph& graph, const Node& node);

}  // namespace xc
