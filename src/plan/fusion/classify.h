#pragma once
// What a node is to the fusion templates.

#include <optional>
#include <vector>

#include "base/hash.h"
#include "ir/graph.h"

namespace xc {

/// The axes of a space that reductions run over: neighbours, as a Softmax over the channels of an
/// image or a mean over its pixels has them.
struct RowAxes {
  int first = 0, count = 0;
  bool has(size_t axis) const {
    return axis >= static_cast<size_t>(first) && axis < static_cast<size_t>(first + count);
  }
  bool none() const { return count == 0; }
  bool whole(const SymDims& space) const { return count == static_cast<int>(space.size()); }
  bool trailing(const SymDims& space) const {
    return first + count == static_cast<int>(space.size());
  }
  friend bool operator==(const RowAxes&, const RowAxes&) = default;
};

enum class FusionKind : uint8_t {
  kNone,       ///< stays a step of its own
  kScalar,     ///< elementwise
  kReduction,  ///< over neighbouring axes
  kMap,        ///< picks elements of its operands (index_map.h): read at the edge of a region
  kComposite,  ///< expands into scalars and reductions over the same axes (softmax, norms)
};

struct FusionClass {
  FusionKind kind = FusionKind::kNone;
  SymDims space;     ///< reductions and composites: dims of what they reduce
  RowAxes row_axes;  ///< reductions and composites: over which of them
  bool keepdims = true;
  double weight = 1;  ///< relative cost per element of the space
  double code = 1;    ///< what it adds to a kernel's code, in hundreds of bytes with AVX2 or better
  /// Composites: that code by what it computes. What several have in common is written once.
  struct Part {
    Hash128 meaning;
    double code;
  };
  std::vector<Part> parts;
};

FusionClass classify(const Graph& graph, NodeId id);

/// Whether fused code is bound to have the bits of the operator's own kernel: its result is one
/// operation of f32, f64, integers or bool that is exact or rounds once as IEEE 754 has it.
bool rounds_once(const Graph& graph, NodeId id);

/// Replaces every composite of a small graph by its expansion and infers types; false when one
/// cannot be expanded. Nodes without an expansion make it false too, or stay when `keep_others`.
bool expand_composites(Graph& graph, bool keep_others = false);

/// Makes one of nodes that compute the same, as composites of one operand have in common. Results
/// of the graph stay what they are.
void merge_equal_nodes(Graph& graph);

/// The type that fused code adds a reduction's elements up in, which are of `type`: squares of f32
/// and bf16 numbers leave the range of f32, their root does not.
DType sum_type(const Node& reduction, DType type);

/// The axes of a reduction where they are constant and neighbours.
std::optional<RowAxes> reduced_axes(const Graph& graph, const Node& node);

}  // namespace xc
