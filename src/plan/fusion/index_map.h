#pragma once
// Operators that only pick elements of their operands. At the edge of a region they are no step:
// what reads their result loads from their operands at computed places instead.

#include <array>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace xc {

/// Where an element of the result comes from.
struct IndexMap {
  enum class Kind : uint8_t {
    kGather,  ///< parts: the data, then the indices. Gather, GatherElements, GatherND
    kConcat,  ///< parts: the inputs, one behind the other along the axis of `shifts`
    kPad,     ///< parts: the data; what is around it: `around`
  };
  Kind kind = Kind::kConcat;

  /// An operand that is read.
  struct Part {
    static constexpr int32_t kPicked = -1;
    uint32_t input = 0;  ///< of the node
    /// Per axis of the operand: the axis of the result that moves it. kPicked in the data: by an
    /// index, in the data of a Pad that repeats it: by a position of the result; in the indices:
    /// the axis that holds the coordinates, one for each picked axis.
    std::vector<int32_t> axes;
  };
  std::vector<Part> parts;

  /// An axis of the result along which parts begin elsewhere than at 0.
  struct Shift {
    uint32_t axis = 0;
    int64_t before = 0, after = 0;  ///< kPad: elements added, or (negative) taken away
  };
  std::vector<Shift> shifts;

  enum class Around : uint8_t { kConstant, kReflect, kEdge, kWrap };
  Around around = Around::kConstant;  ///< kPad
  Tensor filling;                     ///< kPad: the constant; undefined = zero

  /// A Pad that repeats its data: along the axes of `shifts` they are picked.
  bool repeats() const { return around != Around::kConstant; }
};

/// The index map of a node; nullopt when it is none, or depends on what only a run can tell.
std::optional<IndexMap> index_map(const Graph& graph, NodeId id);

/// Is input k of the node read at picked places only, so that a run touches as many elements of it
/// as the result has?
bool is_picked_from(const Graph& graph, NodeId id, size_t k);

/// A constant that is only picked from: a table of any size.
bool is_table(const Graph& graph, ValueId v);

/// Is input k of a node that is no scalar function read when the region is planned (axes, pads)?
bool is_planning_input(const Graph& graph, NodeId id, size_t k);

}  // namespace xc
